"""What stands between values and the database, for those who encrypt or compress them.

A codec turns a JSON value into another JSON value before it is stored, and back when it is read. It
sees everything of a user's that is stored: data, results, errors, checkpoints.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

REDACTED: Final = "[redacted]"
"""What is there instead of a user's own values for a login that may not see them."""


class Codec(Protocol):
    """Turns JSON values into other JSON values, and back."""

    def encode(self, value: Any) -> Any: ...

    def decode(self, value: Any) -> Any: ...


class PlainCodec:
    """Stores values as they are."""

    def encode(self, value: Any) -> Any:
        return value

    def decode(self, value: Any) -> Any:
        return value


PLAIN = PlainCodec()


def decode_value(codec: Codec, value: Any) -> Any:
    """The value; what the database has redacted was never the codec's."""
    return value if value is None or value == REDACTED else codec.decode(value)


def encode_text(codec: Codec, text: str) -> str:
    """Text columns (errors) hold text: what a codec makes of it is kept as JSON, marked as such."""
    return text if codec is PLAIN else json.dumps({_MARK: codec.encode(text)})


def decode_text(codec: Codec, text: str) -> str:
    """The text; as it is where the database itself wrote it (a lease that passed, a timeout)."""
    if codec is PLAIN or not text.startswith(_BEGINNING):
        return text
    return str(codec.decode(json.loads(text)[_MARK]))


_MARK = "encoded"
_BEGINNING = f'{{"{_MARK}": '
