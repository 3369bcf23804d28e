"""A real PgBouncer in front of a test's database."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.leash import Leash

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
MISSING = "PgBouncer is not installed here (Debian: apt-get install pgbouncer)"
PORT = 6432
TRANSACTION_MODE = {"pool_mode": "transaction", "default_pool_size": "5"}


@contextlib.contextmanager
def pgbouncer(dsn: str, settings: Mapping[str, str] = TRANSACTION_MODE) -> Iterator[str]:
    """The DSN of the same database through a PgBouncer that ends with the block."""
    if PROGRAM is None:
        if os.environ.get("CI"):
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    server = conninfo_to_dict(dsn)
    with tempfile.TemporaryDirectory(prefix="howdah-pooler-") as folder:
        Path(folder).chmod(0o777)
        ini = Path(folder, "pgbouncer.ini")
        target = " ".join(f"{name}={value}" for name, value in server.items())
        ini.write_text(
            f"[databases]\npooled = {target}\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\n"
            f"listen_port = {PORT}\nauth_type = any\n"
            + "".join(f"{name} = {value}\n" for name, value in settings.items()),
            encoding="utf-8",
        )
        account = ["-u", "nobody"] if os.getuid() == 0 else []
        process = subprocess.Popen(
            [PROGRAM, *account, str(ini)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        leash = Leash(folder, ["kill", str(process.pid)])
        try:
            pooled = f"host={folder} port={PORT} user=postgres dbname=pooled"
            _wait_until_it_answers(pooled, process)
            yield pooled
        finally:
            process.terminate()
            process.wait()
            leash.release()


def _wait_until_it_answers(dsn: str, process: subprocess.Popen[bytes]) -> None:
    while True:
        assert process.poll() is None, "PgBouncer ended"
        try:
            psycopg.connect(dsn, connect_timeout=2).close()
        except psycopg.OperationalError:
            continue
        return
