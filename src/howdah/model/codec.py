"""What stands between values and the database, for those who encrypt or compress them.

A codec turns a JSON value into another JSON value before it is stored, and back when it is read. It
sees everything of a user's that is stored: data, results, errors, checkpoints, events, logs. ``howdah.encryption`` has
one that encrypts.

What a codec cannot read takes nothing else with it: ``Unreadable`` stands in its place.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from howdah.model.failure import describe

REDACTED: Final = "[redacted]"
"""What is there instead of a user's own values for a login that may not see them."""


class Codec(Protocol):
    """Turns JSON values into other JSON values, and back."""

    def encode(self, value: Any) -> Any:
        """What is stored: anything that JSON can hold."""

    def decode(self, value: Any) -> Any:
        """What was given to ``encode``. Raise anything if it cannot be read: an ``Unreadable`` stands in its place then."""


class PlainCodec:
    """Stores values as they are."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


PLAIN = PlainCodec()


def encode_text(codec: Codec, text: str) -> str:
    """Text columns (errors) hold text: what a codec makes of it is kept as JSON, marked as such."""
    return text if codec is PLAIN else json.dumps({_MARK: codec.encode(text)})


@dataclasses.dataclass(frozen=True, slots=True)
class Unreadable:
    """Stands where what is stored could not be read: a key of the queue's codec is missing, or it was changed; or it is
    JSON that Python cannot read, with numbers of thousands of digits or thousands of levels. Nothing is lost by that.
    """

    reason: str


def codec_of(row: Mapping[str, Any], codec: Codec) -> Codec:
    """What reads the values of a row. What was redacted is not the codec's; that it was says the row, and not a value."""
    return PLAIN if row.get("is_redacted") else codec


def decoded(codec: Codec, value: Any) -> Any:
    """The value; Unreadable if the codec, or Python before it, cannot read it."""
    if value is None or isinstance(value, Unreadable):
        return value
    try:
        return codec.decode(value)
    except Exception as error:  # noqa: BLE001
        # Whatever is wrong with one value must not keep others from being read.
        return Unreadable(describe(error))


def decoded_text(codec: Codec, text: str) -> str:
    """The text; as it is where the database itself wrote it (a lease that passed, a timeout).

    What the database has added to it (how often a worker died) stands behind it.
    """
    if codec is PLAIN or not text.startswith(_BEGINNING):
        return text
    try:
        marked, end = _READER.raw_decode(text)
        return f"{codec.decode(marked[_MARK])}{text[end:]}"
    except Exception as error:  # noqa: BLE001
        return f"(cannot be read: {describe(error)})"


_MARK = "encoded"
_READER = json.JSONDecoder()
_BEGINNING = f'{{"{_MARK}": '
