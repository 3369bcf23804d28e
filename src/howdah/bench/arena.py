"""The schema that a bench plays in. It is the bench's own: made by it, and dropped at its end.

It is never anybody else's: what a bench has made carries a comment that says so, and what does not is left alone, as is
one that others have put jobs into. What a bench left that was killed is replaced by the next. A lock keeps two apart.
"""

from __future__ import annotations

import contextlib
import time
from types import TracebackType
from typing import Any, Final, Self

import psycopg
from psycopg.rows import dict_row

from howdah.bench.handlers import JOB_TYPES
from howdah.bench.soak import job_types as soak
from howdah.bench.statement import statement
from howdah.errors import HowdahError, InvalidInput, SchemaError
from howdah.queue import JobQueue

DEFAULT_SCHEMA: Final = "howdah_bench"
_LOOK_EVERY: Final = 0.002


class Arena:
    """Holds the schema for as long as it is entered. ``renew`` it before each use."""

    def __init__(self, queue: JobQueue, *, keep: bool = False) -> None:
        self.dsn = queue.dsn
        self.schema = queue.schema
        self.could_be_dropped = True
        self._queue = queue
        self._keep = keep
        self._open = contextlib.ExitStack()

    def __enter__(self) -> Self:
        # Where there is no queue yet, this says so; where there is no database, it says that better than the driver.
        with contextlib.suppress(SchemaError):
            self._queue.workers()
        with contextlib.ExitStack() as stack:
            self._lock(stack.enter_context(contextlib.closing(self._connection(autocommit=False))))
            self._conn = self._connection(autocommit=True)
            stack.callback(lambda: self._conn.close())
            self._refuse_what_is_not_ours()
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
            self._change("drop")
        except psycopg.errors.LockNotAvailable as error:
            self.could_be_dropped = False
            raise HowdahError(
                f"schema {self.schema} cannot be replaced, because somebody looks at it in an open transaction: end that,"
                " or name another schema by --schema"
            ) from error
        self._change("make")
        with self.open_queue() as queue:
            queue.migrate(adopt=False)

    def open_queue(self, **chosen: Any) -> JobQueue:
        return JobQueue(self.dsn, self.schema, **chosen)

    def wait_until_all_ended(self, patience: float) -> float:
        """Returns the moment at which no job was left."""
        deadline = time.monotonic() + patience
        while self._ask("unfinished")["unfinished"]:
            if time.monotonic() > deadline:
                raise HowdahError(f"jobs were still unfinished {patience:g} s after the last one was handled")
            time.sleep(_LOOK_EVERY)
        return time.monotonic()

    def rows(self, name: str, /, **parameters: Any) -> list[dict[str, Any]]:
        """What a statement of the bench's own answers."""
        return self._conn.execute(statement(name, self.schema), parameters).fetchall()

    def reconnect(self) -> None:
        """For who was interrupted: the connection may be in the middle of a statement, or about to be told to cancel one."""
        self._conn.close()
        self._conn = self._connection(autocommit=True)

    def connection(self) -> psycopg.Connection[dict[str, Any]]:
        """One of its own, for what is asked beside the jobs."""
        return self._conn

    # The schema

    def _connection(self, *, autocommit: bool) -> psycopg.Connection[dict[str, Any]]:
        return psycopg.connect(self.dsn, autocommit=autocommit, row_factory=dict_row, prepare_threshold=None)

    def _lock(self, conn: psycopg.Connection[dict[str, Any]]) -> None:
        # Any other level would keep a snapshot, and with it all that is deleted meanwhile.
        conn.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        row = conn.execute(statement("take", self.schema)).fetchone()
        if row is None or not row["taken"]:
            pid = f" (pid {row['held_by']})" if row and row["held_by"] else ""
            raise InvalidInput(
                f"another bench is at work in schema {self.schema}{pid}: wait for its end, or name another schema by --schema"
            )

    def _refuse_what_is_not_ours(self) -> None:
        found = self._ask("whose")
        if not found["is_there"]:
            return
        if not found["is_a_benches"]:
            raise InvalidInput(
                f"there is a schema {self.schema} that no bench made, and a bench drops the one that it plays in: name one"
                " that does not exist, by --schema"
            )
        if foreign := self._foreign_types():
            raise InvalidInput(
                f"schema {self.schema} was made by a bench, but there are jobs in it that are not a bench's"
                f" ({', '.join(foreign[:3])}{', …' if foreign[3:] else ''}): name another one by --schema, or drop this one"
            )

    def _foreign_types(self) -> list[str]:
        # Killed before it was installed, there is nothing in it.
        with contextlib.suppress(psycopg.errors.UndefinedTable):
            rows = self._conn.execute(statement("foreign", self.schema), {"ours": [*JOB_TYPES, *soak.JOB_TYPES]})
            return [row["job_type"] for row in rows]
        return []

    def _drop_if_possible(self) -> None:
        try:
            self.reconnect()
            self._change("drop")
        except psycopg.OperationalError:
            self.could_be_dropped = False

    def _ask(self, name: str) -> dict[str, Any]:
        row = self._conn.execute(statement(name, self.schema)).fetchone()
        assert row is not None
        return row

    def _change(self, name: str) -> None:
        with self._conn.transaction():
            self._conn.execute(statement(name, self.schema))
