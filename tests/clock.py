"""A clock of the database that only a test moves, for every process that uses the queue."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import Self

import psycopg

from howdah.db.statements import render, source


class TestClock:
    __test__ = False

    def __init__(self, dsn: str, schema: str = "howdah") -> None:
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._schema = schema
        row = self._conn.execute("SELECT date_trunc('milliseconds', now())").fetchone()
        assert row is not None
        # In UTC: a step of so many seconds must not be one of wall time across a change of clocks.
        self.now: datetime = row[0].astimezone(timezone.utc)

    def __enter__(self) -> Self:
        self._conn.execute(f"CREATE TABLE {self._schema}.test_clock AS SELECT %s::timestamptz AS at", (self.now,))
        self._conn.execute(
            f"CREATE OR REPLACE FUNCTION {self._schema}.clock() RETURNS timestamptz LANGUAGE sql STABLE"
            f" AS $$ SELECT at FROM {self._schema}.test_clock $$"
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._conn.execute(render(source("functions/clock"), self._schema).encode())
        self._conn.execute(f"DROP TABLE {self._schema}.test_clock")
        self._conn.close()

    def advance(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        self._conn.execute(f"UPDATE {self._schema}.test_clock SET at = %s", (self.now,))
        return self.now
