"""Resources: objects that a worker opens once, and handlers receive by type or by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, get_origin

from howdah.checks import options
from howdah.errors import InvalidOption


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """Marks a handler's parameter that receives a resource of the worker, and is not part of the job's data.

    ``pool: Annotated[Pool, Resource]`` asks for it by type, ``Annotated[Pool, Resource("orders")]`` by name. With
    ``howdah.resource`` instead, type checkers know that ``enqueue`` does not need the parameter.
    """

    name: str | None = None


def resource(name: str | None = None) -> Any:
    """The default of a handler's parameter that receives a resource of the worker: ``pool: Pool = resource()``.

    It is looked up by the parameter's type, or by this name.
    """
    return Resource(None if name is None else options.text(name, "the name of a resource"))


def marker_in(metadata: Iterable[Any]) -> Resource | None:
    """The marker in the metadata of an Annotated. The class counts as an instance without a name."""
    for extra in metadata:
        if extra is Resource:
            return Resource()
        if isinstance(extra, Resource):
            return extra
    return None


def find(resources: Mapping[str | type, Any], annotation: Any, marker: Resource) -> Any:
    """The resource of the marker's name; without a name, the one of exactly this type, else the only one that fits."""
    if marker.name is not None:
        if marker.name in resources:
            return resources[marker.name]
        raise InvalidOption(f"there is no resource named {marker.name!r}: {_listed(resources)}")
    kind = get_origin(annotation) or annotation
    for key in (annotation, kind):
        if key in resources:
            return resources[key]
    fitting = _fitting(resources, kind)
    if len(fitting) == 1:
        return fitting[0]
    amount = "there are several resources" if fitting else "there is no resource"
    raise InvalidOption(f"{amount} of the type {_name(kind)}: {_listed(resources)}")


def _fitting(resources: Mapping[str | type, Any], kind: Any) -> list[Any]:
    exact = _distinct(value for value in resources.values() if type(value) is kind)
    return exact or _distinct(value for key, value in resources.items() if _fits(key, value, kind))


def _fits(key: str | type, value: Any, kind: Any) -> bool:
    try:
        return isinstance(value, kind) or (isinstance(key, type) and issubclass(key, kind))
    except TypeError:  # not a class, or a protocol without runtime checks
        return False


def _distinct(values: Iterable[Any]) -> list[Any]:
    return list({id(value): value for value in values}.values())


def _listed(resources: Mapping[str | type, Any]) -> str:
    if not resources:
        return "the worker has none"
    described = (
        f"{key!r} ({_name(type(value))})" if isinstance(key, str) else _name(key) for key, value in resources.items()
    )
    return f"the worker has {', '.join(described)}"


def _name(kind: Any) -> str:
    return str(getattr(kind, "__qualname__", kind))
