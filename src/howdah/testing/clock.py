"""A clock of the database that only a test moves; and the SQL statements of the testing helpers, ``sql/testing``."""

from __future__ import annotations

from datetime import datetime
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.config import DEFAULT_SCHEMA
from howdah.db.statements import check_schema_name, render, source
from howdah.errors import InvalidOption


class Clock:
    """The clock of a queue, in all processes that use it. Inside of a ``with`` block it stands still, and a test moves it.

    Python's own clock is not affected.
    """

    def __init__(self, dsn: str, schema: str = DEFAULT_SCHEMA) -> None:
        self._dsn = dsn
        self._schema = check_schema_name(schema)
        self._conn: psycopg.Connection[Any] | None = None

    def __enter__(self) -> Self:
        # A function definition has no parameters: this cursor inserts the values as text.
        self._conn = psycopg.connect(self._dsn, autocommit=True, cursor_factory=psycopg.ClientCursor)
        self.travel_to(datetime.fromisoformat(only_value(self._conn, "read_clock", self._schema)))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stopped():
            self._stopped().execute(sql.SQL(render(source("functions/clock"), self._schema)))
        self._conn = None

    @property
    def now(self) -> datetime:
        """The time of the clock."""
        self._stopped()
        return self._now

    def advance(self, by: Seconds) -> datetime:
        """Move the clock forward, by seconds or by a timedelta. Returns its new time."""
        return self.travel_to(self.now + options.span(by, "by"))

    def travel_to(self, moment: datetime) -> datetime:
        """Set the clock to a moment, which needs a time zone. Returns it."""
        now = options.moment(moment, "moment")
        self._stopped().execute(statement("set_clock", self._schema), {"now": now})
        self._now = now
        return now

    def _stopped(self) -> psycopg.Connection[Any]:
        if self._conn is None:
            raise InvalidOption("this clock has not been stopped, so it cannot be moved: use it in a with block")
        return self._conn


def statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render(source(f"testing/{name}"), schema))


def only_value(conn: psycopg.Connection[Any], name: str, schema: str) -> Any:
    """The value of a statement that returns a single one."""
    row = conn.execute(statement(name, schema)).fetchone()
    assert row is not None
    return row[0]
