"""Why a value could not be converted, without the value: it may be secret, and messages end up in logs and in the database.

Of the errors of others (msgspec, pydantic, a class's own checks) only texts without values are repeated.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from howdah.checks.values import Refused, is_model

# The form of msgspec's messages: what is wrong, and where.
PLACE: Final = re.compile(r"(?s:(?P<text>.*)) - at (?P<key>`key` in )?`\$\.(?P<field>(?P<name>\w+)[^`\n]*)`")
_VALUE_FREE: Final = (
    "Expected `",
    "Object missing required field ",
    "Invalid RFC3339 ",
    "Invalid ISO8601 ",
    "Invalid UUID",
    "Invalid base64 ",
    "Invalid decimal ",
    "Only units ",
    "Integer value out of range",
    "Number out of range",
    "Duration is out of range",
    "Timestamp is out of range",
)
_BAD_KEYS: Final = "Only dicts with str-like or number-like keys are supported"
_VALUE_FOLLOWS: Final = ("Invalid enum value", "Object contains unknown field")


def reason_of(error: BaseException) -> str:
    cause = error.__cause__ or error
    if isinstance(cause, Refused):
        return str(cause)
    if isinstance(cause, RecursionError):
        return "nested too deeply"
    if cause.args == (_BAD_KEYS,):
        return _BAD_KEYS
    if not isinstance(cause, msgspec.ValidationError):
        return f"{type(cause).__name__} while it was converted"
    # A value that was converted by itself has no place.
    located = PLACE.fullmatch(str(cause))
    text = located["text"] if located else str(cause)
    if text.startswith(_VALUE_FREE):
        return text
    return next((known for known in _VALUE_FOLLOWS if text.startswith(known)), "Invalid value")


def model_refusal(model: Any, error: Any) -> Refused:
    """The first error of pydantic. Errors with a link to its docs have a text of its own, without values unless it was filled in."""
    if not hasattr(error, "errors"):
        return Refused(f"{type(error).__name__} in a check of {model.__name__}")
    first = error.errors(include_input=False)[0]
    place = _model_place(model, first["loc"])
    if "url" not in first or first.get("ctx", {}).keys() & {"error", "tag"}:
        return Refused(f"refused by a check of {model.__name__}", place)
    return Refused(first["msg"], place)


def _model_place(model: Any, location: tuple[int | str, ...]) -> str:
    """The location as a path. Keys of dicts are data, and not shown."""
    path, models = "", [model]
    for part in location:
        field = next((field for each in models for name, field in _fields(each) if part == name), None)
        if field is not None:
            path, models = f"{path}.{part}", list(_models_in(field.annotation))
        else:
            path += f"[{part}]" if isinstance(part, int) else "[...]"
    return path


def _fields(model: Any) -> Iterator[tuple[Any, Any]]:
    for name, field in model.model_fields.items():
        yield name, field
        yield field.alias, field
        yield field.validation_alias, field


def _models_in(annotation: Any) -> Iterator[Any]:
    if is_model(annotation):
        yield annotation
    for member in typing.get_args(annotation):
        yield from _models_in(member)
