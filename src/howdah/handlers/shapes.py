"""The types that arguments and results may have, and what msgspec needs to convert their values."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any, Final

from msgspec import inspect as shapes

from howdah.checks.values import is_model
from howdah.handlers.refusals import model_refusal
from howdah.model.job import Job

SUPPORTED: Final = (
    "None, bool, int, float, str, bytes, datetime, date, time, timedelta, UUID, Decimal, Enum, Literal, unions of"
    " what JSON can tell apart, list, tuple, set, frozenset, dict, TypedDict, NamedTuple, dataclasses, msgspec"
    " Structs, pydantic models, and Any"
)
_KEY_SHAPES: Final = (
    shapes.AnyType,
    shapes.StrType,
    shapes.IntType,
    shapes.FloatType,
    shapes.BytesType,
    shapes.EnumType,
    shapes.LiteralType,
    shapes.DateTimeType,
    shapes.DateType,
    shapes.TimeType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
)
_JSON_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "null": (shapes.NoneType,),
    "bool": (shapes.BoolType,),
    "number": (shapes.IntType, shapes.FloatType),
    "string": (
        shapes.StrType,
        shapes.BytesType,
        shapes.DateTimeType,
        shapes.DateType,
        shapes.TimeType,
        shapes.UUIDType,
    ),
    "list": (shapes.ListType, shapes.VarTupleType, shapes.SetType, shapes.FrozenSetType, shapes.TupleType),
    "object": (shapes.DictType, shapes.DataclassType, shapes.TypedDictType),
}


def every_shape(root: shapes.Type) -> Iterator[shapes.Type]:
    """The type and all that it is made of, each once: types may contain themselves."""
    pending: list[Any] = [root]
    seen: set[int] = set()
    while pending:
        shape = pending.pop()
        if id(shape) in seen:
            continue
        seen.add(id(shape))
        if isinstance(shape, shapes.Type):
            yield shape
        for name in shape.__struct_fields__:
            member = getattr(shape, name)
            members = member if isinstance(member, tuple) else (member,)
            pending.extend(each for each in members if isinstance(each, shapes.Type | shapes.Field))


def json_kinds(annotation: Any) -> set[str] | None:
    """What values of a type are in JSON; None if that is not known."""
    try:
        root = shapes.type_info(annotation)
    except Exception:  # noqa: BLE001 (whatever a foreign annotation raises)
        return None
    found: set[str] = set()
    for shape in root.types if isinstance(root, shapes.UnionType) else (root,):
        kind = next((kind for kind, types in _JSON_KINDS.items() if isinstance(shape, types)), None)
        if kind is None:
            return None
        found.add(kind)
    return found


def needed_options(shape: shapes.Type) -> dict[str, Any]:
    """The options that msgspec needs to convert values of this type."""
    if isinstance(shape, shapes.CustomType):
        return {"dec_hook": _from_builtins}
    if isinstance(shape, shapes.DictType) and not isinstance(shape.key_type, shapes.StrType):
        return {"str_keys": True}
    return {}


def flaw_of(shape: shapes.Type) -> str | None:
    """Why values of this type cannot be converted; None if they can."""
    kind: Any = getattr(shape, "cls", None)
    if isinstance(shape, shapes.CustomType) and kind is not object and not is_model(kind):
        return f"{inspect.formatannotation(kind)} is not a type that Howdah knows"
    if isinstance(shape, shapes.RawType | shapes.ExtType):
        return "it is for bytes of another format"
    if kind is Job:
        return "a Job is passed by the worker, to a parameter annotated Job or to a batch handler"
    if isinstance(shape, shapes.DataclassType) and hasattr(kind, "__pydantic_validator__"):
        return f"{kind.__name__} is a pydantic dataclass, whose checks would not run; make it a BaseModel"
    if isinstance(shape, shapes.DictType) and not isinstance(shape.key_type, _KEY_SHAPES):
        return "the keys of a dict are of one type that can be written as a string"
    return None


def _from_builtins(kind: Any, value: Any) -> Any:
    if kind is object:
        return value
    try:
        # As JSON: in strict mode, a model does not convert a Python str to a datetime.
        return kind.model_validate_json(json.dumps(value))
    except ValueError as error:
        problem = model_refusal(kind, error)
    raise problem
