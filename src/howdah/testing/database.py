"""A clean queue for each test, in a database that the user chooses."""

from __future__ import annotations

import contextlib
import itertools
from types import TracebackType
from typing import Any, Self

import psycopg

from howdah.db.database import Database
from howdah.errors import HowdahError
from howdah.queue import JobQueue
from howdah.testing.clock import Clock, only_value, statement


class TestDatabase:
    """A queue only for tests, in its own schema. ``clean`` it before each test.

    It takes the first of the schemas ``howdah_test_1``, ``howdah_test_2``, … that no other tests use, and drops it when it
    is closed. Nothing else in the database changes.
    """

    __test__ = False

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._uses = contextlib.ExitStack()
        self._databases: dict[Any, Database] = {}
        # Holds the lock on the schema while it is open.
        self._conn = psycopg.connect(dsn, autocommit=True, prepare_threshold=None)
        try:
            self.schema = next(filter(self._take, (f"howdah_test_{n}" for n in itertools.count(1))))
            self._install()
        except BaseException:
            self._conn.close()
            raise

    def clean(self) -> None:
        """Remove all jobs, types, workers, schedules and settings, and restore the schema if a test has changed it."""
        self.release()
        if self._look("shape") == self._shape:
            self._change("empty")
        else:
            self._install()

    def use(self, queue: JobQueue) -> Use:
        """Connect a queue to this database, at once. The end of a ``with`` block, or ``release``, connects it back."""
        use = Use(queue, self._database_for(queue))
        self._uses.callback(use.close)
        return use

    def release(self) -> None:
        """Connect every queue back to its own database."""
        self._uses.close()

    def clock(self) -> Clock:
        """The clock of this queue, for a ``with`` block."""
        return Clock(self.dsn, self.schema)

    def close(self) -> None:
        """Drop the schema, and close all connections."""
        with self._conn:
            self.release()
            for database in self._databases.values():
                _close(database)
            # If it cannot be dropped now, as after a restart of the server, the next tests that take the schema drop it.
            with contextlib.suppress(HowdahError, psycopg.OperationalError):
                self._change("drop")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _database_for(self, queue: JobQueue) -> Database:
        # Kept between tests: new connections would cost more than everything else here.
        settings = queue._database._pool_size, queue._database.timeout
        known = self._databases.get(settings)
        if known is None or known._closed:
            known = self._databases[settings] = queue._database.elsewhere(self.dsn, self.schema)
        return known

    def _take(self, schema: str) -> bool:
        return bool(only_value(self._conn, "take", schema))

    def _install(self) -> None:
        self._change("drop")
        self._change("create")
        with JobQueue(self.dsn, self.schema) as queue:
            queue.migrate(adopt=False)
        self._shape = self._look("shape")

    def _look(self, name: str) -> Any:
        return only_value(self._conn, name, self.schema)

    def _change(self, name: str) -> None:
        try:
            with self._conn.transaction():
                self._conn.execute(statement(name, self.schema))
        except psycopg.errors.LockNotAvailable as error:
            raise HowdahError(
                f"the schema {self.schema} cannot be cleaned: a transaction is open in it, most likely of an earlier"
                " test. End that test's transactions, and close its connections"
            ) from error


class Use:
    """Connects a queue to another database, until the end of a ``with`` block or ``close``."""

    def __init__(self, queue: JobQueue, database: Database) -> None:
        self._queue = queue
        self._before: tuple[Database, str] | None = queue._database, queue.schema
        queue._database, queue.schema = database, database.schema

    def close(self) -> None:
        if self._before is not None:
            self._queue._database, self._queue.schema = self._before
            self._before = None

    def __enter__(self) -> JobQueue:
        return self._queue

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _close(database: Database) -> None:
    """Close it, and end the connections of event loops that are not running here."""
    for connections in list(database._pools.connections.values()):
        for conn in list(connections):
            conn.pgconn.finish()
    database.close()
