"""Processes that use an embedded server, and the accounts that run them.

A `Client` is a process of its own that joins on a command of the test, and leaves on another one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest

from howdah.embedded import watcher
from howdah.embedded.watcher import WATCHER_LOCK, Home, key_of

NOBODY = 65534
IS_ROOT = os.geteuid() == 0
SYSTEM_SHELF = Path("/var/lib/howdah")
TEMPORARY_SHELVES = (Path(f"/tmp/howdah-{os.geteuid()}"), Path(f"/tmp/howdah-{NOBODY}"))

CLIENT = """
import sys
from pathlib import Path
from howdah.embedded.server import join
print("imported", flush=True)
for line in sys.stdin:
    server = join(Path(sys.argv[1]), major=int(line))
    print(server.dsn, server.major, server.home, sep="\\t", flush=True)
"""


def wait_until(condition: Callable[[], object], timeout: float = 120.0) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout} seconds in vain")
        time.sleep(0.01)


@dataclass(frozen=True)
class Persona:
    """The account that runs a client, its Python and its environment."""

    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


MYSELF = Persona(environment={"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


@dataclass(frozen=True)
class Joined:
    dsn: str
    major: int
    home: Path

    def query(self, statement: str) -> Any:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchone() if cursor.description else None

    @property
    def postmaster(self) -> int:
        return int((self.home / "pg" / "postmaster.pid").read_text().split()[0])

    def wait_until_left(self) -> None:
        """Wait for the watcher to end, and see that it left nothing running."""
        wait_until(lambda: _is_unlocked(self.home))
        wait_until(lambda: not processes_of(self.home))

    def is_running(self) -> bool:
        return Home(self.home).postmaster() is not None

    def watchers(self) -> list[psutil.Process]:
        return [
            process
            for process in processes_of(self.home)
            if Path(watcher.__file__).name in " ".join(command_of(process))
        ]


class Client:
    def __init__(self, folder: Path, persona: Persona, script: str = CLIENT) -> None:
        self.process = subprocess.Popen(
            [persona.python, "-c", script, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
            env=os.environ | persona.environment,
            start_new_session=True,
            **persona.options,
        )
        self._expect("imported")

    def ask(self, major: int = 18) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{major}\n")
        self.process.stdin.flush()

    def joined(self) -> Joined:
        dsn, major, home = self._expect("postgresql://").split("\t")
        return Joined(dsn, int(major), Path(home))

    def join(self, major: int = 18) -> Joined:
        self.ask(major)
        return self.joined()

    def leave(self) -> str:
        """End it, and return its standard error. No other process may hold its pipes."""
        return str(self.process.communicate(timeout=120)[1])

    def kill(self) -> None:
        self.process.kill()
        self.leave()

    def _expect(self, beginning: str) -> str:
        assert self.process.stdout
        line = str(self.process.stdout.readline()).rstrip("\n")
        if not line.startswith(beginning):
            pytest.fail(f"expected {beginning}, got {line!r}; {self.leave()}")
        return line


@dataclass
class Project:
    folder: Path
    clients: list[Client] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / ".howdah"

    def client(self, persona: Persona = MYSELF, script: str = CLIENT) -> Client:
        self.clients.append(Client(self.folder, persona, script))
        return self.clients[-1]

    def clear(self) -> None:
        for client in self.clients:
            if client.process.poll() is None:
                client.kill()
        key = key_of(self.folder)
        elsewhere = [shelf / key for shelf in (SYSTEM_SHELF, *TEMPORARY_SHELVES)]
        for home in (self.home, *elsewhere):
            # A shelf of another user's tests is closed to us, and none of our business.
            with contextlib.suppress(PermissionError):
                if home.exists():
                    Joined("", 0, home).wait_until_left()
        assert not processes_of(self.folder, *elsewhere)
        for home in elsewhere:
            shutil.rmtree(home, ignore_errors=True)
        assert not (Path("/tmp") / f"howdah-{key_of(self.home)}").exists()


def _is_unlocked(home: Path) -> bool:
    lock = Home(home).try_lock(WATCHER_LOCK)
    if lock is None:
        return False
    os.close(lock)
    return True


def processes_of(*folders: Path) -> list[psutil.Process]:
    return [process for process in psutil.process_iter() if _is_about(process, folders)]


def command_of(process: psutil.Process) -> list[str]:
    try:
        return [*process.cmdline()]
    except psutil.Error:
        return []


def _is_about(process: psutil.Process, folders: tuple[Path, ...]) -> bool:
    try:
        places = (process.cwd(), *process.cmdline())
    except psutil.Error:
        return False
    # As text: a path would have to be made of each word of each process here.
    return any(place.startswith(f"{folder}/") for folder in folders for place in (f"{place}/" for place in places))


def give_to(persona: Persona, folder: Path) -> None:
    if persona.options:
        os.chown(folder, persona.options["user"], persona.options["group"])


def changed(persona: Persona, **environment: str) -> Persona:
    return Persona(persona.python, persona.environment | environment, persona.options)
