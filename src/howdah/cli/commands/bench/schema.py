"""The schema that a bench runs in: created by it, and dropped at its end.

A comment on the schema says that a bench made it. A schema without that comment is left alone, and so is one that holds
jobs of other types. The next bench replaces what a killed one left. A lock keeps two benches apart.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from howdah.db.statements import render, source
from howdah.errors import HowdahError, InvalidInput, SchemaError
from howdah.queue import JobQueue

DEFAULT_SCHEMA: Final = "howdah_bench"


def statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render(source(f"bench/{name}"), schema))


class BenchSchema:
    """Holds the schema for as long as it is entered. ``renew`` it before each use."""

    def __init__(self, queue: JobQueue, job_types: Sequence[str], *, keep: bool = False) -> None:
        # By its DSN: the schema of an embedded server would be installed by the first use.
        queue.connect_to(queue._database.dsn())
        self.dsn = queue.dsn
        self.name = queue.schema
        self.could_be_dropped = True
        self._queue = queue
        self._job_types = list(job_types)
        self._keep = keep
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        # The queue's own errors say more than the driver's when the database cannot be reached.
        with contextlib.suppress(SchemaError):
            self._queue.workers()
        with contextlib.ExitStack() as stack:
            self._lock(stack.enter_context(contextlib.closing(self._connect(autocommit=False))))
            self.conn = self._connect(autocommit=True)
            stack.callback(lambda: self.conn.close())
            self._refuse_if_foreign()
            self._open = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._open:
            if self.could_be_dropped and (not self._keep or kind is not None):
                self._drop_if_possible()

    def renew(self) -> None:
        """An empty queue, as a first installation has it."""
        try:
            self._execute("drop")
        except psycopg.errors.LockNotAvailable as error:
            self.could_be_dropped = False
            raise HowdahError(
                f"schema {self.name} cannot be replaced, because another session uses it in an open transaction: end that,"
                " or name another schema by --schema"
            ) from error
        self._execute("make")
        with self.open_queue() as queue:
            queue.migrate(adopt=False)

    def open_queue(self, **options: Any) -> JobQueue:
        return JobQueue(self.dsn, self.name, **options)

    def row(self, name: str) -> dict[str, Any]:
        """The answer of one of the bench's statements."""
        row = self.conn.execute(statement(name, self.name)).fetchone()
        assert row is not None
        return row

    def reconnect(self) -> None:
        """After an interruption: the connection may be in the middle of a statement."""
        self.conn.close()
        self.conn = self._connect(autocommit=True)

    def _connect(self, *, autocommit: bool) -> psycopg.Connection[dict[str, Any]]:
        return psycopg.connect(self.dsn, autocommit=autocommit, row_factory=dict_row, prepare_threshold=None)

    def _lock(self, conn: psycopg.Connection[dict[str, Any]]) -> None:
        # Any other level would keep a snapshot, and with it all rows that are deleted meanwhile.
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        row = conn.execute(statement("take", self.name)).fetchone()
        if row is None or not row["taken"]:
            pid = f" (pid {row['held_by']})" if row and row["held_by"] else ""
            raise InvalidInput(
                f"another bench runs in schema {self.name}{pid}: wait for its end, or name another schema by --schema"
            )

    def _refuse_if_foreign(self) -> None:
        found = self.row("owner")
        if not found["is_there"]:
            return
        if not found["is_of_a_bench"]:
            raise InvalidInput(
                f"there is a schema {self.name} that no bench made, and a bench drops the one that it runs in: name one"
                " that does not exist, by --schema"
            )
        if foreign := self._foreign_types():
            raise InvalidInput(
                f"schema {self.name} was made by a bench, but there are jobs in it that are not a bench's"
                f" ({', '.join(foreign[:3])}{', …' if foreign[3:] else ''}): name another one by --schema, or drop this one"
            )

    def _foreign_types(self) -> list[str]:
        # A bench that was killed before it had installed the tables left none.
        with contextlib.suppress(psycopg.errors.UndefinedTable):
            rows = self.conn.execute(statement("foreign", self.name), {"ours": self._job_types})
            return [row["job_type"] for row in rows]
        return []

    def _drop_if_possible(self) -> None:
        try:
            self.reconnect()
            self._execute("drop")
        except psycopg.OperationalError:
            self.could_be_dropped = False

    def _execute(self, name: str) -> None:
        with self.conn.transaction():
            self.conn.execute(statement(name, self.name))
