"""Foreign text, escaped for a terminal.

A job's type, data or error may hold control sequences, which can retitle the window, hide a line or type in the user's name. They
are printed as escapes instead. Passwords are masked, and encrypted values are replaced by a placeholder if the command has no key.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Final

from howdah.encryption import SEALED

# Control, format (bidi overrides among them), lone surrogate, and the separators that are line breaks.
_DANGEROUS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Joiners have a meaning in some scripts and in emoji, and are harmless.
_JOINERS: Final = frozenset("\u200c\u200d")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PASSWORDS: Final = (
    (re.compile(r"(://[^\s/@:]*:)[^\s/@]*(?=@)"), r"\1***"),
    (re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.IGNORECASE), r"\1***"),
)


def terminal_escape(text: str) -> str:
    """The text on one line, with control characters written as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if _is_dangerous(character) else character for character in text)


def escape_lines(text: str) -> str:
    """``terminal_escape``, for text of several lines: its line ends stay, and its tabs are spaces."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(map(terminal_escape, lines))


def without_password(text: str) -> str:
    """The text, with the passwords of DSNs in it masked."""
    for pattern, replacement in _PASSWORDS:
        text = pattern.sub(replacement, text)
    return text


def presentable(text: str) -> str:
    """A message of several lines, escaped and without passwords."""
    return escape_lines(without_password(text))


def _is_dangerous(character: str) -> bool:
    return unicodedata.category(character) in _DANGEROUS and character not in _JOINERS


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


# Encrypted values

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
