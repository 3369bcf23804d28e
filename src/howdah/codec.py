"""What stands between values and the database, for those who encrypt or compress them.

A codec turns a JSON value into another JSON value before it is stored, and back when it is read. It
sees everything of a user's that is stored: data, results, errors, checkpoints.
"""

from __future__ import annotations

import json
from typing import Any, Protocol


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


def encode_text(codec: Codec, text: str) -> str:
    """Text columns (errors) hold text: what a codec makes of it is kept as JSON, unless it is text too."""
    encoded = codec.encode(text)
    return encoded if isinstance(encoded, str) else json.dumps(encoded)


def decode_text(codec: Codec, text: str) -> str:
    decoded = codec.decode(_parsed(text))
    return decoded if isinstance(decoded, str) else text


def _parsed(text: str) -> Any:
    """What encode_text was given back by the codec: JSON if it looks like an object, else text."""
    if not text.startswith("{"):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
