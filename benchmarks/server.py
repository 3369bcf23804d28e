"""Where the benchmarks run: a PostgreSQL of their own as it comes (durable, default settings), a database for each case."""

from __future__ import annotations

import contextlib
import datetime
import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from howdah import JobQueue
from howdah.embedded import server as embedded_server
from howdah.embedded import watcher

TYPE = "noop"
PAYLOAD = '{"sent": 1.5}'
BULK = 2_000

Connection = psycopg.Connection[tuple[Any, ...]]


class Place:
    """A database with an empty queue, and what the benchmarks do to it from outside."""

    def __init__(self, dsn: str) -> None:
        options = conninfo_to_dict(dsn).get("options") or ""
        self.dsn = make_conninfo(dsn, options=f"{options} -c search_path=howdah")
        with JobQueue(self.dsn) as queue:
            queue.migrate()
            queue.prune()
        self.conn = self.connect("bench")

    def connect(self, name: str) -> Connection:
        return psycopg.connect(make_conninfo(self.dsn, application_name=name), autocommit=True)

    def one(self, query: str, **arguments: Any) -> Any:
        row = self.conn.execute(query, arguments).fetchone()
        return None if row is None else row[0]

    def fill(self, count: int, job_type: str = TYPE, *, run_at: datetime.datetime | None = None) -> None:
        """Enqueues so many jobs, in bulks as the client makes them."""
        for done in range(0, count, BULK):
            self.conn.execute(
                "SELECT enqueue_many(p_job_type => %(job_type)s, p_run_at => %(run_at)s,"
                " p_data => array_fill(%(data)s::jsonb, ARRAY[%(count)s]))",
                {"job_type": job_type, "run_at": run_at, "data": PAYLOAD, "count": min(BULK, count - done)},
            )

    def fill_mixed(self, count: int, job_types: Sequence[str]) -> None:
        """Enqueues so many jobs of these types, in an order that knows no pattern but is always the same."""
        chance = random.Random(count)
        mixed = [chance.choice(job_types) for _ in range(count)]
        self.conn.execute(
            "SELECT count(*) FROM unnest(%s::varchar[]) AS wanted,"
            " LATERAL enqueue(p_job_type => wanted, p_data => %s::jsonb)",
            (mixed, PAYLOAD),
        )

    def empty(self) -> None:
        """As new, with no checkpoint near: neither bloat nor full-page images of one run weigh upon the next."""
        self.conn.execute("TRUNCATE live, archive, archive_counts, events, workers")
        self.conn.execute("CHECKPOINT")

    def settle(self) -> None:
        """After a large load: what autovacuum would do in the middle of a run is done now."""
        self.conn.execute("VACUUM (ANALYZE) live, archive")
        self.conn.execute("CHECKPOINT")

    def ended(self) -> int:
        """How many jobs have ended so far, by the queue's own counts: cheap however many they are."""
        return int(self.one("SELECT coalesce(sum(jobs), 0) FROM archive_counts"))

    def now(self) -> datetime.datetime:
        return self.one("SELECT clock_timestamp()")  # type: ignore[no-any-return]


class Server:
    """A server, and the databases that were made on it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self._conn = psycopg.connect(dsn, autocommit=True)
        self._places: dict[str, Place] = {}

    @property
    def version(self) -> str:
        return self._conn.info.parameter_status("server_version") or "unknown"

    def place(self, name: str) -> Place:
        database = f"howdah_benchmark_{name}"
        # One that was killed may have left it.
        self._conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(database)))
        self._conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        made = self._places[database] = Place(make_conninfo(self.dsn, dbname=database))
        return made

    def drop(self) -> None:
        """Removes the databases: what one case has left would be vacuumed while the next is measured."""
        for database, place in self._places.items():
            place.conn.close()
            self._conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
        self._places.clear()


@contextlib.contextmanager
def server(dsn: str | None = None) -> Iterator[Server]:
    """The server at the DSN, or one of our own in a temporary folder, for as long as the block lasts."""
    with contextlib.nullcontext(dsn) if dsn else _own() as found:
        made = Server(found)
        try:
            yield made
        finally:
            made.drop()


@contextlib.contextmanager
def _own() -> Iterator[str]:
    folder = Path(tempfile.mkdtemp(prefix="howdah-benchmark-"))
    # Root's server runs under another account, which must get there.
    folder.chmod(0o711)
    try:
        started = embedded_server.join(folder, announce=False)
        try:
            yield started.dsn
        finally:
            watcher.stop(watcher.Home(started.home))
            shutil.rmtree(started.home, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
