"""Codecs encrypt or compress values before they are stored.

A codec turns a JSON value into another JSON value before it is stored, and back when it is read. It is applied to all
values of users: data, results, errors, checkpoints, events, logs. ``howdah.encryption`` has one that encrypts.

Where a codec cannot read a value, ``Unreadable`` takes its place, and the rest of the job can still be read.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol, overload

from howdah.model.failure import describe

REDACTED: Final = "[redacted]"
"""Replaces users' values for a login that may not see them."""


class Codec(Protocol):
    """Turns JSON values into other JSON values, and back."""

    def encode(self, value: Any) -> Any:
        """What is stored: anything that JSON can hold."""

    def decode(self, value: Any) -> Any:
        """The value that was given to ``encode``. Raise any exception if it cannot be read: ``Unreadable`` then takes its place."""


class PlainCodec:
    """Stores values as they are."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


PLAIN = PlainCodec()


def encode_text(codec: Codec, text: str) -> str:
    """Text for a text column (errors). What a codec makes of it is stored as JSON, with a mark."""
    return text if codec is PLAIN else json.dumps({_MARK: codec.encode(text)})


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """Takes the place of a stored value that could not be read: a key of the queue's codec is missing, the value was
    changed, or Python cannot read the JSON (numbers of thousands of digits, thousands of levels). The value stays stored.
    """

    reason: str


def codec_of(row: Mapping[str, Any], codec: Codec) -> Codec:
    """The codec for the values of a row: none if they were redacted. The row says so, because a value could be forged."""
    return PLAIN if row.get("is_redacted") else codec


def decoded(value: Any, codec: Codec) -> Any:
    """The value; Unreadable if the codec, or Python before it, cannot read it."""
    if value is None or codec is PLAIN or isinstance(value, Unreadable):
        return value
    try:
        return codec.decode(value)
    except Exception as error:  # noqa: BLE001
        # Whatever is wrong with one value must not keep others from being read.
        return Unreadable(describe(error))


@overload
def decoded_text(text: str, codec: Codec) -> str: ...


@overload
def decoded_text(text: str | None, codec: Codec) -> str | None: ...


def decoded_text(text: str | None, codec: Codec) -> str | None:
    """The text; unchanged where the database itself wrote it (a lease that passed, a timeout).

    What the database has appended to it (how often a worker died) stays behind it.
    """
    if text is None or codec is PLAIN or not text.startswith(_BEGINNING):
        return text
    try:
        marked, end = _READER.raw_decode(text)
        return f"{codec.decode(marked[_MARK])}{text[end:]}"
    except Exception as error:  # noqa: BLE001
        return f"(cannot be read: {describe(error)})"


_MARK = "encoded"
_READER = json.JSONDecoder()
_BEGINNING = f'{{"{_MARK}": '
