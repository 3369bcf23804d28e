"""The typed arguments of a handler: a job's JSON data, checked and converted by the function's annotations.

Arguments may be secret, and messages of errors end up in logs and in the database. So no message contains a value: of the
errors of others (msgspec, pydantic, a class's own checks) only texts without values are repeated, and the original
exception is not chained.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import inspect
import json
import operator
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, convert
from msgspec import inspect as shapes
from msgspec.structs import asdict

from howdah.checks.options import shown
from howdah.checks.values import as_json, as_json_with_moments
from howdah.errors import InvalidArguments, InvalidOption
from howdah.handlers.refusals import PLACE, reason_of
from howdah.handlers.resource import Resource, marker_in
from howdah.handlers.shapes import SUPPORTED, every_shape, flaw_of, json_kinds, needed_options
from howdah.model.job import Job
from howdah.model.workflow import Results, results_in

_UNTYPED: Final = (Any, object)
_AS_IT_IS: Final = frozenset((str, int, float, bool, type(None)))
"""Types whose values JSON has, and no writer changes."""
_EMPTY: Final = inspect.Parameter.empty
_ALIAS: Final[Any] = getattr(typing, "TypeAliasType", ())  # type X = …, since Python 3.12


class Arguments:
    """The parameters of a handler: which are data, which is the job, which are resources."""

    def __init__(self, function: Callable[..., Any], *, batch: bool = False) -> None:
        self._handler = str(getattr(function, "__name__", type(function).__name__))
        self._batch = batch
        self._takes_any_name = False
        self.job_parameter: str | None = None
        self.resources: dict[str, Resource] = {}
        self.resource_types: dict[str, Any] = {}
        """The annotation of each resource parameter, without its marker."""
        self.lazy: frozenset[str] = frozenset()
        """The parameters annotated ``Results[…]``: in a job's data they are lists."""
        parameters = [self._without_results(each) for each in _parameters(function, self._handler)]
        data = [parameter for parameter in parameters if not self._is_served(parameter)]
        if batch:
            data = self._without_jobs(data)
        self.names = tuple(parameter.name for parameter in data)
        self._positions = [
            each.name
            for each in parameters
            if each.kind is each.POSITIONAL_OR_KEYWORD and each.name != self.job_parameter
        ]
        self._known = frozenset(self.names)
        self._required = tuple(parameter.name for parameter in data if parameter.default is _EMPTY)
        self._needed = frozenset(self._required)
        self._types = {each.name: each.annotation for each in data if each.annotation not in _UNTYPED}
        self._writers: dict[str, Callable[[Any], Any]] = {}
        self._options: dict[str, Any] = {}
        for name, annotation in self._types.items():
            self._prepare(name, annotation)
        self._struct = self._make_struct(data) if self._types else None
        self._read: Callable[[bytes], Any] | None = None
        if self._struct is not None and not self._takes_any_name:
            self._read = msgspec.json.Decoder(self._struct, dec_hook=self._options.get("dec_hook")).decode

    def _without_results(self, parameter: inspect.Parameter) -> inspect.Parameter:
        bare, _ = _unwrapped(parameter.annotation)
        if bare is Results or typing.get_origin(bare) is Results:
            self.lazy |= {parameter.name}
            return parameter.replace(annotation=list[typing.get_args(bare)[0]] if typing.get_args(bare) else list[Any])  # type: ignore[misc]
        return parameter

    def filled(self, called: dict[str, Any], results: Mapping[str, Results[Any]] | None) -> dict[str, Any]:
        """The arguments of a call, with the parameters ``Results[…]`` as such."""
        for name in self.lazy & called.keys():
            called[name] = results[name] if results is not None and name in results else results_in(called[name])
        return called

    def first_free(self, given: Collection[str]) -> str | None:
        """The first argument that is not given: it gets the result of the step before, in a chain, or an item, in a map."""
        return next((name for name in self.names if name not in given), None)

    def encode_some(self, given: Mapping[str, Any], later: Collection[str]) -> dict[str, Any]:
        """``encode``, of a call of which some arguments are known later, and checked. Raises InvalidArguments."""
        if self._batch:
            return dict(given)
        self._check_names({**given, **dict.fromkeys(later)})
        encoded = {name: self._write(name, value) if name in self._types else value for name, value in given.items()}
        for name, value in encoded.items():
            try:
                if name in self._types:
                    convert(value, self._types[name], **self._options)
            except Exception as error:  # noqa: BLE001 (the checks of the user's classes may raise anything)
                problem = self._refusal(name, reason_of(error))
            else:
                continue
            raise problem
        return encoded

    def check_lazy(self, inputs: Collection[Mapping[str, Any]]) -> None:
        """Raises InvalidArguments if an argument ``Results[…]`` is to be a part of a result, or several results."""
        for each in inputs:
            if each["parameter"] in self.lazy and (each["list"] or each["sources"][0]["path"]):
                raise InvalidArguments(
                    f"{self._handler}: argument '{each['parameter']}' is Results: pass the handle of a group or a map"
                )

    def check_source(self, name: str, given: Result | None, source: str, *, many: bool) -> None:
        """Raises InvalidArguments if results of this handler cannot be values of the argument; many: a list of them."""
        wanted = json_kinds(self._types.get(name, Any))
        offered = None if given is None else json_kinds(given.annotation)
        got = "lists" if many else " or ".join(sorted(offered or ()))
        if wanted is not None and not wanted & ({"list"} if many else offered or wanted):
            raise InvalidArguments(
                f"{self._handler}: argument '{name}' is a {' or '.join(sorted(wanted))}, and the results of {source} are {got}",
                field=name,
            )

    def named(self, name: object, option: str) -> str:
        """The name of an argument, for an option that is one. Raises InvalidOption."""
        if isinstance(name, str) and (self._batch or self._accepts(name)):
            return name
        has = ", ".join(self.names) or "none"
        raise InvalidOption(f"{self._handler}: for {option} there is no argument {name!r}: it has {has}")

    def bound(self, positional: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by name, from those of a call without the job. Raises InvalidArguments."""
        if len(positional) > len(self._positions):
            takes = (
                "no positional arguments"
                if not self._positions
                else f"positional arguments for {_quoted(self._positions)}"
            )
            raise InvalidArguments(
                f"{self._handler}: {len(positional)} positional arguments are too many; it takes {takes}"
            )
        found = dict(zip(self._positions, positional, strict=False))
        for name in found:
            if name in self.resources:
                raise InvalidArguments(
                    f"{self._handler}: the worker passes the resource {name!r}: pass the arguments from there on by name",
                    field=name,
                )
            if name in named:
                raise InvalidArguments(f"{self._handler}: two values for the argument {name!r}", field=name)
        return {**found, **named}

    def encode(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Python values, as a caller of ``handler.enqueue`` passes them, as JSON builtins.

        What has no annotation is passed on as it is. The values are checked when the job is enqueued, by ``decode``.
        Raises InvalidArguments.
        """
        if self._batch:
            return dict(given)
        self._check_names(given)
        return {
            name: self._write(name, value) if type(value) not in _AS_IT_IS and name in self._types else value
            for name, value in given.items()
        }

    def check(self, data: Any) -> None:
        """Raises what ``decode`` would raise, and takes half of its time."""
        if self._struct is not None and isinstance(data, dict):
            try:
                convert(data, self._struct, **self._options)
            except Exception:  # noqa: BLE001, S110 (the checks of the user's classes may raise anything)
                pass
            else:
                if self._takes_any_name:
                    self._check_names(data)
                return
        # Not while the exception is handled, which would be chained, and may contain values.
        self.decode(data)

    def decode(self, data: Any) -> dict[str, Any]:
        """A job's data as keyword arguments for the function. Raises InvalidArguments."""
        if self._batch:
            return {}
        if data is None:
            data = {}
        elif not isinstance(data, dict):
            raise InvalidArguments(f"{self._handler}: takes named arguments, so its data is a JSON object")
        if self._struct is None:
            return self._unchecked(data)
        try:
            found = asdict(convert(data, self._struct, **self._options))
        except Exception as error:  # noqa: BLE001 (the checks of the user's classes may raise anything)
            problem = self._wrong_names(data) or self._wrong_value(error, data)
        else:
            if self._takes_any_name or len(found) != len(data):
                return self._as_given(found, data)
            return found
        raise problem

    def decode_json(self, text: bytes) -> dict[str, Any]:
        """``decode``, of JSON text."""
        if self._read is not None:
            try:
                found = asdict(self._read(text))
            except Exception:  # noqa: BLE001
                return self.decode(self._loaded(text))  # raises an error that says what is wrong
            return found if len(found) == len(self._required) else _given(found)
        return self.decode(self._loaded(text))

    def _loaded(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            # PostgreSQL takes numbers of more digits, and deeper nesting, than Python reads: so will the next attempt.
            reason = "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"
        raise InvalidArguments(f"{self._handler}: Python cannot read the job's data: {reason}")

    # The signature

    def _is_served(self, parameter: inspect.Parameter) -> bool:
        """Whether the worker provides it: the job, a resource. Remembers which."""
        if parameter.kind is parameter.VAR_KEYWORD:
            self._takes_any_name = True
            return True
        bare, marker = _unwrapped(parameter.annotation)
        if isinstance(parameter.default, Resource):
            marker = parameter.default
            if marker.name is None and bare in _UNTYPED:
                raise InvalidOption(
                    f"{self._handler}: the resource {parameter.name!r} has neither a type nor a name: annotate the"
                    f' parameter, or write resource("name")'
                )
        if marker is not None:
            self.resources[parameter.name], self.resource_types[parameter.name] = marker, bare
        elif isinstance(bare, type) and issubclass(bare, Job) and not self._batch:
            if self.job_parameter is not None:
                raise InvalidOption(
                    f"{self._handler}: the parameters {self.job_parameter!r} and {parameter.name!r} would both be the job"
                )
            self.job_parameter = parameter.name
        else:
            return False
        return True

    def _without_jobs(self, data: list[inspect.Parameter]) -> list[inspect.Parameter]:
        if len(data) != 1 or self._takes_any_name:
            raise InvalidOption(
                f"{self._handler}: a batch handler has one parameter, which receives the list of jobs, and"
                " resources (name: Type = resource()) beside it"
            )
        self.job_parameter = data[0].name
        return []

    def _prepare(self, name: str, annotation: Any) -> None:
        """Checks that values of this annotation can be stored, and prepares their conversion."""
        self._writers[name] = as_json
        for shape in self._shapes(name, annotation):
            flaw = flaw_of(shape)
            if flaw is not None:
                raise self._unsupported(name, annotation, flaw)
            if isinstance(shape, shapes.DateTimeType):
                self._writers[name] = as_json_with_moments
            self._options.update(needed_options(shape))

    def _shapes(self, name: str, annotation: Any) -> Iterator[shapes.Type]:
        try:
            return every_shape(shapes.type_info(annotation))
        except Exception as error:  # whatever a foreign annotation raises
            raise self._unsupported(name, annotation, str(error)) from error

    def _unsupported(self, name: str, annotation: Any, flaw: str) -> InvalidOption:
        return InvalidOption(
            f"{self._handler}: the parameter {name!r} is annotated {inspect.formatannotation(annotation)}, which cannot"
            f" be converted from JSON: {flaw}. Supported are {SUPPORTED}."
        )

    def _make_struct(self, data: list[inspect.Parameter]) -> type[msgspec.Struct]:
        # The function applies its own defaults: any object may be one, and none is stored in the data.
        fields: list[Any] = [
            (each.name, each.annotation) if each.default is _EMPTY else (each.name, each.annotation, UNSET)
            for each in data
        ]
        return msgspec.defstruct(
            self._handler, fields, kw_only=True, gc=False, forbid_unknown_fields=not self._takes_any_name
        )

    # Values

    def _write(self, name: str, value: Any) -> Any:
        try:
            return self._writers[name](value)
        except Exception as error:  # noqa: BLE001 (a model's own serializers may raise anything)
            problem = self._refusal(name, reason_of(error))
        raise problem

    def _unchecked(self, data: dict[str, Any]) -> dict[str, Any]:
        self._check_names(data)
        return dict(data)

    def _as_given(self, found: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
        """Without the parameters that were not given, and with the extra ones that were."""
        if self._takes_any_name:
            self._check_names(data)
        return {name: found.get(name, value) for name, value in data.items()}

    # What is wrong

    def _check_names(self, given: Mapping[str, Any]) -> None:
        if self._needed <= given.keys() <= self._known:
            return
        if (problem := self._wrong_names(given)) is not None:
            raise problem

    def _wrong_names(self, given: Mapping[str, Any]) -> InvalidArguments | None:
        unknown = [name for name in given if not self._accepts(name)][:5]
        missing = [name for name in self._required if name not in given]
        if not unknown and not missing:
            return None
        wrong = [_counted("unknown", unknown) + self._meant(unknown)] if unknown else []
        wrong += [_counted("missing", missing)] if missing else []
        takes = f"takes {_quoted(self.names)}" if self.names else "takes no arguments"
        hint = self._unannotated_job(missing)
        return InvalidArguments(f"{self._handler}: {', '.join(wrong)}; it {takes}{hint}", field=(unknown or missing)[0])

    def _unannotated_job(self, missing: list[str]) -> str:
        """A parameter may be called job and be data. The worker knows by the annotation that it is to pass the job."""
        if "job" not in missing or "job" in self._types or self.job_parameter is not None:
            return ""
        return ". If it is to get the job itself, annotate it: job: Job"

    def _accepts(self, name: str) -> bool:
        if self._takes_any_name:
            return name != self.job_parameter and name not in self.resources
        return name in self._known

    def _meant(self, unknown: list[str]) -> str:
        close = {near for name in unknown for near in difflib.get_close_matches(str(name), self.names, 1)}
        return f" (did you mean {_quoted(sorted(close))}?)" if close else ""

    def _wrong_value(self, error: Exception, data: dict[str, Any]) -> InvalidArguments:
        reason = reason_of(error)
        located = PLACE.fullmatch(str(error)) if isinstance(error, msgspec.ValidationError) else None
        if located is None or located["name"] not in self._known:
            return self._refusal(self._culprit(data), reason)
        field = located["field"] + getattr(error.__cause__, "place", "")
        return self._refusal(field, f"{reason} as a key" if located["key"] else reason)

    def _culprit(self, data: dict[str, Any]) -> str:
        """The first argument that cannot be converted, where the exception does not say."""
        for name, annotation in self._types.items():
            try:
                if name in data:
                    convert(data[name], annotation, **self._options)
            except Exception:  # noqa: BLE001
                return name
        return "?"

    def _refusal(self, field: str, reason: str) -> InvalidArguments:
        return InvalidArguments(f"{self._handler}: argument '{field}': {' '.join(reason.split())}", field=field)


class Result:
    """The result of a handler: converted to JSON, and back to the type of the function's annotation.

    Without an annotation that JSON can be converted to, a result stays JSON.
    """

    def __init__(self, function: Callable[..., Any], *, batch: bool = False) -> None:
        self._handler = str(getattr(function, "__name__", type(function).__name__))
        self._options: dict[str, Any] = {}
        self._writer: Callable[[Any], Any] = as_json
        self._type: Any = Any if batch else self._prepared(_returned(function))

    @property
    def annotation(self) -> Any:
        return self._type

    @property
    def json_kinds(self) -> set[str] | None:
        """What results are in JSON; None if that is not known."""
        return json_kinds(self._type)

    def encode(self, value: Any) -> Any:
        """What the function returned as JSON builtins; unchanged if it does not fit the annotation."""
        if self._type is Any or value is None:
            return value
        try:
            encoded = self._writer(value)
            convert(encoded, self._type, **self._options)
        except Exception:  # noqa: BLE001 (a model's own serializers may raise anything)
            return value
        return encoded

    def decode(self, value: Any) -> Any:
        """A job's result as the function returned it. Raises InvalidArguments."""
        if self._type is Any:
            return value
        try:
            return convert(value, self._type, **self._options)
        except Exception as error:  # noqa: BLE001 (the checks of the user's classes may raise anything)
            reason = " ".join(reason_of(error).split())
        raise InvalidArguments(f"{self._handler}: the result does not fit its annotation: {reason}", field="return")

    def _prepared(self, annotation: Any) -> Any:
        try:
            for shape in every_shape(shapes.type_info(annotation)):
                if flaw_of(shape) is not None:
                    return Any
                if isinstance(shape, shapes.DateTimeType):
                    self._writer = as_json_with_moments
                self._options.update(needed_options(shape))
        except Exception:  # noqa: BLE001 (whatever a foreign annotation raises)
            return Any
        return annotation


def _given(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not UNSET}


# Signatures


def _parameters(function: Callable[..., Any], handler: str) -> Iterator[inspect.Parameter]:
    """The parameters, with annotations that are types and no longer strings."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError, NameError) as error:
        raise InvalidOption(f"{handler}: its parameters cannot be read: {error}") from error
    innermost = _innermost(function)
    scope = _names_around(innermost)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise InvalidOption(f"{handler}: *{parameter.name} cannot be, because arguments are passed by name")
        if parameter.kind is parameter.POSITIONAL_ONLY or parameter.name.startswith("__"):
            raise InvalidOption(
                f"{handler}: the parameter {parameter.name!r} is positional-only, and arguments are passed by name"
            )
        yield parameter.replace(annotation=_resolved(parameter, getattr(innermost, "__globals__", {}), scope, handler))


def _innermost(function: Any) -> Any:
    """The function inside decorators and partials, in whose module its annotations are resolved."""
    function = inspect.unwrap(function)
    if isinstance(function, functools.partial):
        return _innermost(function.func)
    if not inspect.isroutine(function):
        return _innermost(type(function).__call__)
    return getattr(function, "__func__", function)


def _names_around(function: Any) -> dict[str, Any]:
    """The locals of the functions and classes around a function, for its annotations."""
    names: dict[str, Any] = {}
    code = getattr(function, "__code__", None)
    frame = inspect.currentframe() if code is not None else None
    while frame is not None:
        is_around = function.__qualname__.startswith(f"{frame.f_code.co_qualname}.")
        if is_around and frame.f_globals is function.__globals__:
            names = {**frame.f_locals, **names}
        frame = frame.f_back
    for name, cell in zip(getattr(code, "co_freevars", ()), getattr(function, "__closure__", None) or (), strict=False):
        with contextlib.suppress(ValueError):  # not assigned yet, as the function's own name
            names[name] = cell.cell_contents
    return names


def _resolved(parameter: inspect.Parameter, module: dict[str, Any], scope: dict[str, Any], handler: str) -> Any:
    if parameter.annotation is _EMPTY or parameter.kind is parameter.VAR_KEYWORD:
        return Any

    try:
        return _hint(parameter.annotation, module, scope)
    except Exception as error:
        raise InvalidOption(
            f"{handler}: the annotation {parameter.annotation!r} of the parameter {parameter.name!r} cannot be resolved"
            f" ({error}). Import or define what it names at the top of the module, outside of TYPE_CHECKING."
        ) from error


def _hint(annotation: Any, module: dict[str, Any], scope: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return typing.get_type_hints(holder, module, scope, include_extras=True)["it"]


def _returned(function: Callable[..., Any]) -> Any:
    """The return annotation without the outcomes; Any if there is none."""
    try:
        annotation = inspect.signature(function).return_annotation
        innermost = _innermost(function)
        found = _hint(annotation, getattr(innermost, "__globals__", {}), _names_around(innermost))
    except Exception:  # noqa: BLE001 (it may name what only type checkers import)
        return Any
    if annotation in (None, _EMPTY) or found in (types.NoneType, typing.NoReturn, typing.Never):
        return Any
    members = typing.get_args(found) if typing.get_origin(found) in (typing.Union, types.UnionType) else (found,)
    kept = [each for each in members if not (isinstance(each, type) and issubclass(each, BaseException))]
    if len(kept) == len(members):
        return found
    return functools.reduce(operator.or_, kept) if kept else Any


def _unwrapped(annotation: Any) -> tuple[Any, Resource | None]:
    """The annotation without aliases, Annotated and ``| None``, and the marker that was found on the way."""
    if isinstance(annotation, _ALIAS):
        return _unwrapped(annotation.__value__)
    origin, members = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        bare, inner = _unwrapped(members[0])
        return bare, marker_in(annotation.__metadata__) or inner
    if origin in (typing.Union, types.UnionType):
        others = [member for member in members if member is not types.NoneType]
        if len(others) == 1:
            return _unwrapped(others[0])
    return annotation, None


def _counted(what: str, names: list[str]) -> str:
    return f"{what} argument{'s' if len(names) > 1 else ''} {_quoted(names)}"


def _quoted(names: Collection[str]) -> str:
    return ", ".join(shown(name) for name in names)
