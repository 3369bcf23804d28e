"""Conversions between Python values and PostgreSQL's bytes, where the driver's own do not fit."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import psycopg
from psycopg.abc import AdaptContext, Buffer, DumperKey
from psycopg.adapt import AdaptersMap, Dumper, Loader, PyFormat
from psycopg.pq import Format
from psycopg.types.array import BaseListDumper, ListBinaryDumper
from psycopg.types.json import Jsonb

from howdah.model.codec import Unreadable
from howdah.model.failure import describe

_OIDS: Final = {name: psycopg.adapters.types[name].oid for name in ("interval", "jsonb", "timestamptz", "uuid", "int8")}
_LENGTH: Final = struct.Struct("!i").pack
_NULL: Final = _LENGTH(-1)
_JSONB_FORMAT: Final = b"\x01"
_EARLIEST = datetime.min.replace(tzinfo=timezone.utc)
_LATEST = datetime.max.replace(tzinfo=timezone.utc)


class Ids(list[uuid.UUID]):
    """Ids as one parameter, converted quickly."""


class Tokens(list[int]):
    """Tokens as one parameter."""


class JsonTexts(list[Jsonb | None]):
    """Values of the type jsonb, each of which is JSON text already, as one parameter."""


class _SecondsDumper(Dumper):
    """A timedelta as seconds alone: PostgreSQL's days have 23 or 25 hours where clocks change."""

    oid = _OIDS["interval"]

    def dump(self, obj: timedelta) -> bytes:
        return f"{obj.total_seconds():.6f} s".encode()


class _SecondsBinaryDumper(Dumper):
    """The same, for the elements of a list."""

    format = Format.BINARY
    oid = _OIDS["interval"]

    def dump(self, obj: timedelta) -> bytes:
        return struct.pack("!qii", obj // timedelta(microseconds=1), 0, 0)


class _ListDumper(ListBinaryDumper):
    """In binary, because array_nulls decides whether NULL, as text, is one. Of nothing but None, no type is known: NULL is
    what our functions take for that."""

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:
        return (self.cls, type(None)) if _is_hollow(obj) else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:
        return self if _is_hollow(obj) else super().upgrade(obj, format)

    def dump(self, obj: list[Any]) -> Buffer | None:
        return None if self.sub_dumper is None else super().dump(obj)


def _is_hollow(items: list[Any]) -> bool:
    return bool(items) and all(each is None for each in items)


class _IdsDumper(Dumper):
    format = Format.BINARY
    oid = psycopg.adapters.types["uuid"].array_oid

    def dump(self, obj: Ids) -> bytes:
        length = _LENGTH(16)
        return _array_head("uuid", obj) + b"".join([length + id.bytes for id in obj])


class _TokensDumper(Dumper):
    format = Format.BINARY
    oid = psycopg.adapters.types["int8"].array_oid
    _element: Final = struct.Struct("!iq").pack

    def dump(self, obj: Tokens) -> bytes:
        return _array_head("int8", obj) + b"".join([self._element(8, token) for token in obj])


class _JsonTextsDumper(Dumper):
    format = Format.BINARY
    oid = psycopg.adapters.types["jsonb"].array_oid

    def dump(self, obj: JsonTexts) -> bytes:
        return _array_head("jsonb", obj, has_nulls=None in obj) + b"".join(
            [_NULL if each is None else self._element(each.obj) for each in obj]
        )

    def _element(self, text: str) -> bytes:
        data = text.encode()
        return _LENGTH(len(data) + 1) + _JSONB_FORMAT + data


def _array_head(element: str, items: Sequence[Any], *, has_nulls: bool = False) -> bytes:
    dimensions = (1, has_nulls, _OIDS[element], len(items), 1) if items else (0, 0, _OIDS[element])
    return struct.pack(f"!{len(dimensions)}i", *dimensions)


class _Lenient(Loader):
    """The driver's own loader, with a stand-in for each value that it cannot read: one such value must not hide others."""

    failures: tuple[type[Exception], ...] = ()

    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        own = psycopg.adapters.get_loader(oid, self.format)
        assert own is not None
        self._load: Callable[[Buffer], Any] = own(oid, context).load

    def load(self, data: Buffer) -> Any:
        try:
            return self._load(data)
        except self.failures as error:
            return self._stand_in(bytes(data), error)

    def _stand_in(self, data: bytes, error: Exception) -> Any:
        raise NotImplementedError


class _ClampedText(_Lenient):
    """PostgreSQL has infinity, and years that Python does not: the nearest moment that Python has."""

    failures = (psycopg.DataError,)

    def _stand_in(self, data: bytes, error: Exception) -> datetime:  # noqa: ARG002
        return clamped(data.decode())


class _ClampedBinary(_ClampedText):
    format = Format.BINARY

    def _stand_in(self, data: bytes, error: Exception) -> datetime:  # noqa: ARG002
        return _EARLIEST if data[0] >= 0x80 else _LATEST


def clamped(text: str) -> datetime:
    """The nearest moment that Python has to one that it does not."""
    return _EARLIEST if text.startswith("-") or text.endswith("BC") else _LATEST


class _Json(_Lenient):
    """PostgreSQL takes numbers of more digits, and deeper nesting, than Python reads."""

    failures = (ValueError, RecursionError)

    def _stand_in(self, data: bytes, error: Exception) -> Unreadable:  # noqa: ARG002
        return Unreadable(describe(error))


class _JsonBinary(_Json):
    format = Format.BINARY


class Adapted:
    """What our connections write and read differently from the driver."""

    adapters = AdaptersMap(psycopg.adapters)
    connection = None


def adapt(adapters: AdaptersMap) -> None:
    """Registers the same with a cursor of the caller's connection."""
    adapters.register_dumper(timedelta, _SecondsBinaryDumper)
    adapters.register_dumper(timedelta, _SecondsDumper)
    adapters.register_dumper(list, _ListDumper)
    adapters.register_dumper(Ids, _IdsDumper)
    adapters.register_dumper(Tokens, _TokensDumper)
    adapters.register_dumper(JsonTexts, _JsonTextsDumper)
    adapters.register_loader("timestamptz", _ClampedText)
    adapters.register_loader("timestamptz", _ClampedBinary)
    adapters.register_loader("jsonb", _Json)
    adapters.register_loader("jsonb", _JsonBinary)


def bucket_in(payload: str) -> int | None:
    """The number of a bucket that a notification names; None if it names none. Any login can send any payload."""
    return int(payload) if len(payload) <= 3 and payload.isdecimal() else None


def is_adapted(adapters: AdaptersMap) -> bool:
    return adapters.get_loader(_OIDS["timestamptz"], Format.BINARY) is _ClampedBinary


adapt(Adapted.adapters)


class RawRows:
    """Rows in which moments and JSON stay bytes until their value is asked for."""

    def __init__(self, cursor: psycopg.Cursor[Any] | psycopg.AsyncCursor[Any], rows: Sequence[tuple[Any, ...]]) -> None:
        self._rows = rows
        described = cursor.description or ()
        self._places = {column.name: place for place, column in enumerate(described)}
        # Made now: moments are in the connection's time zone, and it may be closed when they are asked for.
        loaders = {oid: kind(oid, cursor.connection).load for oid, kind in _KINDS.items()}
        self._loaders = [loaders.get(column.type_code) for column in described]

    def take(self) -> Sequence[tuple[Any, ...]]:
        """The rows, which from then on are the caller's alone."""
        rows, self._rows = self._rows, ()
        return rows

    def value(self, row: Sequence[Any], column: str) -> Any:
        """What is in a column of a row. Raises KeyError if there is no such column."""
        place = self._places[column]
        data, load = row[place], self._loaders[place]
        return data if data is None or load is None else load(data)

    def json(self, row: Sequence[Any], column: str) -> bytes:
        """A value of the type jsonb, as text."""
        data: bytes = row[self._places[column]]
        return data[1:]  # behind the number of the format


def leave_raw(adapters: AdaptersMap) -> None:
    """Makes a cursor leave to RawRows what is expensive to decode."""
    for oid in _KINDS:
        adapters.register_loader(oid, _binary("bytea"))


def _binary(name: str) -> type[Any]:
    loader = psycopg.adapters.get_loader(psycopg.adapters.types[name].oid, Format.BINARY)
    assert loader is not None
    return loader


_KINDS: Final[dict[int, type[Any]]] = {
    _OIDS["jsonb"]: _JsonBinary,
    _OIDS["timestamptz"]: _ClampedBinary,
}
