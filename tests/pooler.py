"""A real PgBouncer in transaction mode, in front of a database."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
MISSING = "PgBouncer is not installed here (Debian: apt-get install pgbouncer)"
PORT = 6432


@contextlib.contextmanager
def pooled(dsn: str) -> Iterator[str]:
    """The way to this database through a PgBouncer that is there for as long as the block lasts."""
    if PROGRAM is None:
        raise RuntimeError(MISSING)
    target = " ".join(f"{name}={value}" for name, value in conninfo_to_dict(dsn).items())
    with tempfile.TemporaryDirectory(prefix="howdah-pooler-") as folder:
        Path(folder).chmod(0o777)
        ini = Path(folder, "pgbouncer.ini")
        ini.write_text(
            f"[databases]\npooled = {target}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\n"
            f"listen_port = {PORT}\nauth_type = any\npool_mode = transaction\ndefault_pool_size = 5\n",
            encoding="utf-8",
        )
        account = ["-u", "nobody"] if os.getuid() == 0 else []
        process = subprocess.Popen(
            [PROGRAM, *account, str(ini)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            way = f"host={folder} port={PORT} user=postgres dbname=pooled"
            _wait_until_it_answers(way, process)
            yield way
        finally:
            process.terminate()
            process.wait(10)


def _wait_until_it_answers(dsn: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "PgBouncer ended"
        try:
            psycopg.connect(dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            continue
        return
