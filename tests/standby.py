"""A standby of a server, which can take over."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import psycopg

from tests.servers import Server
from tests.worker.durable_server import DurableServer
from tests.worker.processes import until


class Standby(DurableServer):
    """Follows a primary from the moment on when it is made."""

    def __init__(self, primary: Server, name: str = "standby", settings: Mapping[str, str] | None = None) -> None:
        self._primary = primary
        self._name = name
        super().__init__(primary.binaries, settings)

    def _create(self) -> None:
        source = f"host={self._primary.home} user=postgres application_name={self._name}"
        self._run("pg_basebackup", "-d", source, "-D", self.data, "-R", "-c", "fast")

    def take_over(self) -> None:
        """The primary writes nothing any more, the standby has everything, and is the primary from now on."""
        with (
            psycopg.connect(self._primary.dsn, autocommit=True) as old,
            psycopg.connect(self.dsn, autocommit=True) as new,
        ):
            old.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            old.execute("SELECT pg_reload_conf()")
            writing = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()"
            until(lambda: old.execute(writing).fetchone() == (0,), "the old primary writes nothing any more")
            self._catch_up(old, new)
            new.execute("SELECT pg_promote()")

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """It has what the primary has written so far, receives no change made inside the block, and takes over after it."""
        with (
            psycopg.connect(self._primary.dsn, autocommit=True) as old,
            psycopg.connect(self.dsn, autocommit=True) as new,
        ):
            self._catch_up(old, new)
            new.execute("ALTER SYSTEM SET primary_conninfo = ''")
            new.execute("SELECT pg_reload_conf()")
            receiving = "SELECT count(*) FROM pg_stat_wal_receiver"
            until(lambda: new.execute(receiving).fetchone() == (0,), "the standby receives no more changes")
            yield
            new.execute("SELECT pg_promote()")

    @staticmethod
    def _catch_up(old: psycopg.Connection[Any], new: psycopg.Connection[Any]) -> None:
        (written,) = old.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone() or ("",)
        replayed = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: new.execute(replayed, (written,)).fetchone() == (True,), "the standby has everything")
