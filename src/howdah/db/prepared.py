"""Frequent calls by the shortest way: prepared once on each connection of a pool, and sent without a cursor.

A cursor looks up, for each statement, how to convert parameters and columns. Here a connection keeps what it has looked up, so that a
frequent call costs the client a fraction. The call is the same, and so are its waits, its interruption and its errors: the
connection itself waits for it, as it does for a cursor.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import execute
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

from howdah.db.plan import Row
from howdah.db.statements import prepared_call_statement

_MOST: Final = 50
"""Statements that a connection keeps: one for each set of arguments and their types."""

_LONGEST_CANCEL: Final = 5.0
"""Seconds for a cancelled statement to end, as long as the driver gives it."""


class PreparedCalls:
    """The calls that one connection has prepared."""

    def __init__(self, conn: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
        self._pgconn = conn.pgconn
        self._transformer = Transformer(conn)
        self._seen: dict[Any, int] = {}
        self._prepared: dict[Any, tuple[bytes, Callable[[Sequence[Any]], Row]]] = {}

    def rows(self, schema: str, function: str, arguments: Mapping[str, Any], after: int) -> PQGen[list[Row] | None]:
        """The rows of a call; None if it is to be sent in the usual way, as the first calls are: so many, ``after``."""
        values = self._transformer.dump_sequence(list(arguments.values()), _formats(len(arguments)))
        types, formats = self._transformer.types or (), self._transformer.formats
        key = function, tuple(arguments), types
        name, make_row = self._prepared.get(key, (b"", None))
        if make_row is None:
            seen = self._seen[key] = self._seen.get(key, 0) + 1
            if seen <= after or len(self._prepared) >= _MOST:
                return None
            text = prepared_call_statement(schema, function, tuple(arguments))
            # Behind a pooler that came later, another client may have prepared it: then it is the same one.
            name = b"howdah_" + hashlib.sha256(repr((text, types)).encode()).hexdigest()[:32].encode()
            self._pgconn.send_prepare(name, text, types)
            _check(*(yield from execute(self._pgconn)), expected=ExecStatus.COMMAND_OK)
        self._pgconn.send_query_prepared(name, values, formats, Format.BINARY)
        # Several, if the server ends the connection: its reason, and that the connection is lost.
        results = yield from execute(self._pgconn)
        _check(*results, expected=ExecStatus.TUPLES_OK)
        result = results[-1]
        if make_row is None:
            make_row = functools.partial(_named, _columns(result))
            self._prepared[key] = name, make_row
        self._transformer.set_pgresult(result)
        rows = self._transformer.load_rows(0, result.ntuples, make_row)
        self._transformer.set_pgresult(None)
        return rows

    def forget(self) -> None:
        """Called when the server does not know a statement any more, or would return other columns."""
        self._prepared.clear()
        self._seen.clear()


class PoolConnection(psycopg.Connection[Any]):
    """A connection of a pool, and what it has prepared."""

    calls: PreparedCalls | None = None

    def wait(self, gen: PQGen[RV], *args: Any, **kwargs: Any) -> RV:
        try:
            return super().wait(gen, *args, **kwargs)
        except KeyboardInterrupt:
            # A signal that arrives inside of the generator ends it: the driver has cancelled the statement and cannot read its end.
            # In a pipeline there may be no end to read: the pool closes such a connection.
            if (
                self.pgconn.transaction_status == TransactionStatus.ACTIVE
                and self.pgconn.pipeline_status == PipelineStatus.OFF
            ):
                super().wait(_last_results(self.pgconn))
            raise


class AsyncPoolConnection(psycopg.AsyncConnection[Any]):
    """``PoolConnection``, awaiting."""

    calls: PreparedCalls | None = None


def calls_of(conn: PoolConnection | AsyncPoolConnection) -> PreparedCalls:
    if conn.calls is None:
        conn.calls = PreparedCalls(conn)
    return conn.calls


@functools.cache
def _formats(count: int) -> list[PyFormat]:
    return [PyFormat.AUTO] * count


def _check(*results: PGresult, expected: ExecStatus) -> None:
    for result in results:
        if result.status != expected:
            raise error_from_result(result, "utf-8")


def _last_results(pgconn: PGconn) -> PQGen[None]:
    """Reads the end of a cancelled statement, if it comes soon."""
    give_up_at = time.monotonic() + _LONGEST_CANCEL
    results = execute(pgconn)
    with contextlib.suppress(StopIteration):
        state = next(results)
        while time.monotonic() < give_up_at:
            state = results.send((yield state))


def _columns(result: PGresult) -> tuple[str, ...]:
    return tuple((result.fname(number) or b"").decode() for number in range(result.nfields))


def _named(columns: tuple[str, ...], values: Sequence[Any]) -> Row:
    return dict(zip(columns, values, strict=True))
