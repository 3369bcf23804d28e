"""What is encrypted, where the command has no key: a word stands for what nobody could read."""

from __future__ import annotations

import json
from typing import Any, Final

from howdah.encryption import SEALED

ENCRYPTED: Final = "(encrypted)"
_BEGINNING: Final = f'{{"encoded": {{"{SEALED}": '
_READER: Final = json.JSONDecoder()


def is_sealed(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {SEALED, "key"}


def error_text(stored: str) -> str:
    """The error for people. What the database has added to it (how often a worker died) can be read."""
    if not stored.startswith(_BEGINNING):
        return stored
    try:
        _, end = _READER.raw_decode(stored)
    except ValueError:
        return stored
    return f"{ENCRYPTED}{stored[end:]}"


def first_line(stored: str) -> str:
    """The error where there is room for a line: drivers add where it happened below it."""
    return error_text(stored).strip().partition("\n")[0]
