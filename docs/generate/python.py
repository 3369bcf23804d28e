"""Every public class and function, with its signature and its docstring."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, Final, Literal, get_args, get_origin

from docs.generate.markdown import HEADER, Item, blocks, from_docstring, markdown, shown

import howdah
import howdah.django
import howdah.django.testing
import howdah.encryption
import howdah.sse
import howdah.testing
import howdah.web
from howdah.errors import HowdahError

OTHER_MODULES: Final = (howdah.sse, howdah.web, howdah.encryption, howdah.testing, howdah.django, howdah.django.testing)
LEFT_OUT: Final = ("Authenticate", "HowdahBackend", "HowdahTask", "TaskContext", "task_backends")
"""An alias that its users never write; and what is half Django's, and differs between its versions, which the page about Django describes."""
FIRST: Final = ("JobQueue", "Handler", "Job")
WRITTEN_BY_USERS: Final = ("Exponential", "Fixed", "Immediately", "Linear", "Resource", "Visitor")
"""Dataclasses that users construct, so their signatures are shown."""
WIDTH: Final = 88


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield HEADER
    yield "# Classes and functions\n"
    yield (
        "Everything that can be imported from `howdah`, and from the modules at the end. With examples:"
        " [the client](client.md), [handlers](../how-to/handlers.md), [progress](../how-to/progress.md),"
        " [testing](../how-to/testing.md). What is raised: [errors](errors.md).\n"
    )
    names = [name for name in howdah.__all__ if not _is_error(getattr(howdah, name)) and not name.startswith("__")]
    for name in sorted(names, key=lambda each: (FIRST.index(each) if each in FIRST else len(FIRST), each)):
        yield from _part(name, getattr(howdah, name), prefix="")
    for module in OTHER_MODULES:
        yield f"## {module.__name__}\n"
        yield f"{from_docstring(inspect.getdoc(module))}\n"
        for name in _public(module):
            yield from _part(name, getattr(module, name), prefix=f"{module.__name__}.", level=3)


def _public(module: ModuleType) -> list[str]:
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if name not in LEFT_OUT]
    own = (name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__)
    return [name for name in own if not name.startswith("_")]


def _is_error(thing: object) -> bool:
    return isinstance(thing, type) and issubclass(thing, HowdahError)


def _part(name: str, thing: Any, *, prefix: str, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {prefix}{name}\n"
    if isinstance(thing, type):
        yield from _class(name, thing, level)
    elif get_origin(thing) is Literal:
        values = ", ".join(f'`"{value}"`' for value in get_args(thing))
        yield f"One of {values}.\n"
    elif callable(thing):
        yield f"{_code(_signature(name, thing))}\n"
        yield f"{from_docstring(inspect.getdoc(thing), inspect.signature(thing).parameters)}\n"
    else:
        yield f"{_code(f'{name} = {_value_of(thing)}')}\n"


def _code(text: str) -> str:
    # By this name for Python the block is coloured, and no test runs it.
    return shown(text, "py")


def _class(name: str, kind: type, level: int) -> Iterator[str]:
    if issubclass(kind, enum.Enum):
        yield f"{from_docstring(inspect.getdoc(kind))}\n"
        yield from (f"- `{name}.{member.name}` = `{member.value!r}`" for member in kind)
        yield ""
        return
    if dataclasses.is_dataclass(kind) and name not in WRITTEN_BY_USERS:
        yield from _fields_and_properties(kind)
    else:
        if _has_own_signature(kind):
            yield f"{_code(_signature(name, kind))}\n"
        yield f"{from_docstring(kind.__doc__)}\n"
        if properties := [_line([each]) for each in _properties(kind)]:
            yield "Its properties:\n"
            yield from properties
            yield ""
    for member, function, twin in _methods(kind):
        yield f"{'#' * (level + 1)} {name}.{member}\n"
        yield f"{_code(_signature(member, function, bound=True))}\n"
        if about := from_docstring(inspect.getdoc(function), inspect.signature(function).parameters):
            yield f"{about}\n"
        if twin:
            yield f"Async: `{twin}`.\n"


def _has_own_signature(kind: type) -> bool:
    return "__init__" in vars(kind) and not getattr(kind, "_is_protocol", False)


@dataclasses.dataclass(frozen=True)
class _Member:
    name: str
    type: str
    about: str


def _fields_and_properties(kind: type) -> Iterator[str]:
    """The docstring of a class, and a list of its fields and properties, each with its type and description."""
    fields = list(_fields(kind))
    written = blocks(kind.__doc__, [each.name for each in fields])
    items = [item for block in written if not isinstance(block, str) for item in block]
    yield f"{markdown([block for block in written if isinstance(block, str)])}\n"
    explained = {name: item for item in items for name in item.names}
    assert explained.keys() <= {each.name for each in fields}, f"{kind.__name__} explains what it has not"
    for field in fields:
        item = explained.get(field.name, Item([field.name], field.about))
        if item.names[0] == field.name:
            yield _line([each for each in fields if each.name in item.names], item.text)
    yield from (_line([each]) for each in _properties(kind))
    yield ""


def _line(members: Sequence[_Member], about: str = "") -> str:
    named = ", ".join(f"`{each.name}` (`{each.type}`)" for each in members)
    text = about or members[0].about
    return f"- {named}{f': {text}' if text else ''}"


def _fields(kind: type) -> Iterator[_Member]:
    """The fields of a dataclass, with the string below each."""
    about = _described_fields(kind)
    for field in dataclasses.fields(kind):
        if not field.name.startswith("_"):
            yield _Member(field.name, _type_of(field.type), about.get(field.name, ""))


def _described_fields(kind: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            match following:
                case ast.Expr(ast.Constant(str(text))):
                    found[statement.target.id] = " ".join(text.split())
    return found


def _properties(kind: type) -> Iterator[_Member]:
    for name, value in sorted(vars(kind).items()):
        if isinstance(value, property) and value.fget and not name.startswith("_"):
            returned = inspect.signature(value.fget).return_annotation
            yield _Member(name, _type_of(returned), " ".join(from_docstring(inspect.getdoc(value)).split()))
        elif isinstance(value, functools.cached_property) and isinstance(value.func, type):
            yield _Member(name, value.func.__name__, str(value.func.__doc__).splitlines()[0])


def _methods(kind: type) -> Iterator[tuple[str, Callable[..., Any], str | None]]:
    """Its own and inherited public methods, with the async twin of each."""
    found = {
        name: getattr(kind, name)
        for base in reversed(kind.__mro__)
        if base.__module__.startswith("howdah")
        for name, value in vars(base).items()
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, classmethod | staticmethod))
    }
    twins = {_plain_name(name): name for name in found if _plain_name(name) in found}
    for name, function in found.items():
        if name not in twins.values():
            yield name, function, twins.get(name)


def _plain_name(name: str) -> str:
    return "wait_for" if name == "await_for" else name[1:] if name.startswith("a") else ""


def _signature(name: str, function: Callable[..., Any], *, bound: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if not each.name.startswith("_")]
    if bound and parameters and parameters[0].name in ("self", "context"):
        parameters = parameters[1:]
    written = [_parameter(each) for each in parameters]
    for at, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not any(p.kind is p.VAR_POSITIONAL for p in parameters[:at]):
            written.insert(at, "*")
            break
    if positional := sum(each.kind is each.POSITIONAL_ONLY for each in parameters):
        written.insert(positional, "/")
    returned = ""
    if signature.return_annotation is not signature.empty and not isinstance(function, type):
        returned = f" -> {_returned(signature.return_annotation)}"
    mark = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{mark}{name}({', '.join(written)}){returned}"
    if len(line) <= WIDTH:
        return line
    return f"{mark}{name}(\n" + "".join(f"    {each},\n" for each in written) + f"){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = (
        "*" if parameter.kind is parameter.VAR_POSITIONAL else "**" if parameter.kind is parameter.VAR_KEYWORD else ""
    )
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_type_of(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        text += f"{' = ' if ':' in text else '='}{_value_of(parameter.default)}"
    return text


def _returned(annotation: Any) -> str:
    """The annotation for callers: a verb returns what its plan returns."""
    found = re.fullmatch(r"Plan\[(.*)\]", _type_of(annotation))
    return found[1] if found else _type_of(annotation)


def _type_of(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:\w+\.)+(?=\w)", "", text)


def _value_of(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    text = repr(value)
    return "..." if " at 0x" in text or text == "<factory>" or len(text) > 60 else text
