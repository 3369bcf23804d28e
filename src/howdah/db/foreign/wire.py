"""Parameters and rows as texts, which mean the same on every driver and with every setting of the session."""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from howdah.db.adapters import Adapted, Tokens
from howdah.db.plan import Row
from howdah.db.statements import source

Style: TypeAlias = Literal["pyformat", "numeric"]
"""How a driver writes placeholders: ``%(p1)s``, with ``%%`` for a percent sign, or ``$1``."""

_TEXT: Final = "text"
_INT8: Final = psycopg.adapters.types["int8"].oid
_FIELD: Final = struct.Struct("!Ii")


class Shape(NamedTuple):
    """How the SQL of a parameter looks. type: None if it needs no value."""

    name: str
    type: str | None
    is_list: bool = False
    literal: str = ""

    def expression(self, placeholder: str) -> str:
        if self.type is None:
            return self.literal
        if self.is_list:
            return (source("foreign/list") % {"type": self.type, "value": placeholder}).strip()
        return f"{placeholder}::pg_catalog.text::pg_catalog.{self.type}"


def statement(
    text: bytes, arguments: Mapping[str, Any] | None, style: Style
) -> tuple[str, dict[str, str] | tuple[str, ...]]:
    """A statement of ours for a driver, and its parameters: a dict for names, a tuple for numbers."""
    transformer = Transformer(Adapted)
    shaped = [_shaped(transformer, name, value) for name, value in (arguments or {}).items()]
    values = ["hex", *(value for _, value in shaped if value is not None)]
    translated = _translated(text, tuple(shape for shape, _ in shaped), style)
    if style == "numeric":
        return translated, tuple(values)
    return translated, {f"p{number}": value for number, value in enumerate(values, 1)}


@functools.lru_cache(maxsize=1024)
def _translated(text: bytes, shapes: tuple[Shape, ...], style: Style) -> str:
    placeholders = _placeholders(style)
    encoding = next(placeholders)
    expressions = {shape.name: shape.expression("" if shape.type is None else next(placeholders)) for shape in shapes}
    inner = text.decode()
    if style == "pyformat":
        inner = inner.replace("%%", "%%%%")
    return source("foreign/answer") % {"format": encoding, "statement": inner % expressions}


def _placeholders(style: Style) -> Iterator[str]:
    number = 0
    while True:
        number += 1
        yield f"${number}" if style == "numeric" else f"%(p{number})s"


def _shaped(transformer: abc.Transformer, name: str, value: Any) -> tuple[Shape, str | None]:
    if value is None:
        return Shape(name, None, literal="NULL"), None
    if not isinstance(value, list):
        type_name, text = _dumped(transformer, value)
        return Shape(name, type_name), text
    known = [each for each in value if each is not None]
    if not known:
        # As psycopg sends them: of a list of nothing but None, no type is known.
        return Shape(name, None, literal="NULL" if value else "'{}'"), None
    type_name = _list_type(transformer, value, known)
    texts = [None if each is None else _dumped(transformer, each)[1] for each in value]
    return Shape(name, type_name, is_list=True), json.dumps(texts, ensure_ascii=False)


def _list_type(transformer: abc.Transformer, value: list[Any], known: list[Any]) -> str:
    if isinstance(value, Tokens):
        return _type_name(_INT8)
    # Of numbers, the type that holds the largest.
    widest = max(known, key=abs) if all(type(each) is int for each in known) else known[0]
    return _dumped(transformer, widest)[0]


def _dumped(transformer: abc.Transformer, value: Any) -> tuple[str, str]:
    """The type of a value, and its text: those that psycopg would send."""
    dumper = transformer.get_dumper(value, PyFormat.TEXT)
    data = dumper.dump(value)
    assert data is not None
    return _type_name(dumper.oid), bytes(data).decode()


@functools.cache
def _type_name(oid: int) -> str:
    info = psycopg.adapters.types.get(oid) if oid else None
    return _TEXT if info is None else info.name


# Rows


def rows(answer: Sequence[Sequence[Any]]) -> list[Row]:
    """The rows of an answer, read as those that psycopg receives."""
    if not answer:
        return []
    names = answer[0][0].split(",")
    records = [_fields(bytes.fromhex(each[1])) for each in answer]
    transformer = Transformer(Adapted)
    transformer.set_loader_types([oid for oid, _ in records[0]], Format.BINARY)
    return [
        dict(zip(names, transformer.load_sequence([data for _, data in record]), strict=True)) for record in records
    ]


def _fields(record: bytes) -> list[tuple[int, bytes | None]]:
    """The type and the bytes of each column, as record_send writes them."""
    fields: list[tuple[int, bytes | None]] = []
    place = 4  # behind their number
    while place < len(record):
        oid, size = _FIELD.unpack_from(record, place)
        place += _FIELD.size
        fields.append((oid, None if size < 0 else record[place : place + size]))
        place += max(size, 0)
    return fields
