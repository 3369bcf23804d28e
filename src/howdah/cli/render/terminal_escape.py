"""Text of others, made fit to be shown.

A job's type, data or error may hold what a terminal obeys: an escape that retitles the window, hides a
line or answers in the user's name. It is shown as what it is instead. And no message repeats a password.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Control, format (bidi overrides among them), lone surrogate, and the separators that are line breaks.
_DANGEROUS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# Joiners carry meaning in some scripts and in emoji, and harm nothing.
_JOINERS: Final = frozenset("\u200c\u200d")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PASSWORDS: Final = (
    (re.compile(r"(://[^\s/@:]*:)[^\s/@]*(?=@)"), r"\1***"),
    (re.compile(r"(password\s*=\s*)('(?:[^'\\]|\\.)*'|[^\s&'\"]+)", re.IGNORECASE), r"\1***"),
)


def safe(text: str) -> str:
    """The text on one line, with whatever a terminal would act upon written as an escape."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if _is_dangerous(character) else character for character in text)


def safe_lines(text: str) -> str:
    """``safe``, for text of several lines: its line ends stay, and its tabs are spaces."""
    lines = text.replace("\r\n", "\n").expandtabs(4).split("\n")
    return "\n".join(map(safe, lines))


def without_password(text: str) -> str:
    """The text, with the passwords of DSNs in it masked."""
    for pattern, replacement in _PASSWORDS:
        text = pattern.sub(replacement, text)
    return text


def presentable(text: str) -> str:
    """A message as it may be printed: several lines, nothing dangerous, no password."""
    return safe_lines(without_password(text))


def _is_dangerous(character: str) -> bool:
    return unicodedata.category(character) in _DANGEROUS and character not in _JOINERS


def _escaped(character: str) -> str:
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
