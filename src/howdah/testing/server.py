"""A temporary PostgreSQL for tests."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg import sql

from howdah.embedded import watcher
from howdah.embedded.server import join
from howdah.embedded.watcher import Home


@contextlib.contextmanager
def temporary_server() -> Iterator[str]:
    """An embedded PostgreSQL in a temporary folder, until the end of the block. Yields its DSN."""
    folder = Path(tempfile.mkdtemp(prefix="howdah-testing-"))
    # If root starts it, the server runs under another account, which needs access.
    folder.chmod(0o711)
    try:
        server = join(folder, announce=False)
        try:
            _turn_off_durability(server.dsn)
            yield server.portable_dsn
        finally:
            watcher.stop(Home(server.home))
            shutil.rmtree(server.home, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _turn_off_durability(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            conn.execute(sql.SQL("ALTER SYSTEM SET {} = off").format(sql.Identifier(setting)))
        conn.execute("SELECT pg_reload_conf()")
