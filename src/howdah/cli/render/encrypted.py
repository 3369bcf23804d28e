"""Encrypted values, if the command has no key: a placeholder is shown instead."""

from __future__ import annotations

import json
from typing import Any, Final

from howdah.encryption import SEALED

ENCRYPTED: Final = "(encrypted)"
_BEGINNING: Final = f'{{"encoded": {{"{SEALED}": '
_READER: Final = json.JSONDecoder()


def is_encrypted(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {SEALED, "key"}


def error_text(stored: str) -> str:
    """The error for people. The part that the database added (how often a worker died) is not encrypted."""
    if not stored.startswith(_BEGINNING):
        return stored
    try:
        _, end = _READER.raw_decode(stored)
    except ValueError:
        return stored
    return f"{ENCRYPTED}{stored[end:]}"


def first_line(stored: str) -> str:
    """The first line of the error: drivers add context below it."""
    return error_text(stored).strip().partition("\n")[0]
