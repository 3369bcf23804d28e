"""The watcher: a process that stops an embedded PostgreSQL when the last process that uses it has ended.

Every process that uses the server holds a shared lock on one file of its home. The kernel frees the
lock, however the process ends. The watcher waits for the same lock exclusively: when it gets it, no
user is left. It keeps the lock while it stops the server. A process that joins meanwhile waits, and
then starts the server again.

The watcher runs as long as the server, so it runs this file as a script: it loads neither the rest
of Howdah nor a database driver, to stay small. This file also has what the watcher and the rest
must see in the same way: the home on disk, and its processes.

Root works in a home that may belong to an ordinary user. That user can put a link anywhere in it at
any time. So files of the home are opened relative to descriptors of its folders, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

    _AS_IT_IS = os.O_NOFOLLOW | os.O_CLOEXEC
    _FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | _AS_IT_IS
    # Without O_NONBLOCK, a pipe in a file's place would block us until its other end is opened.
    _FILE_FLAGS = os.O_RDWR | os.O_NONBLOCK | _AS_IT_IS
    _READING_FLAGS = os.O_RDONLY | os.O_NONBLOCK | _AS_IT_IS

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped, unused-ignore]

MEMBERS_LOCK = "members.lock"
START_LOCK = "start.lock"
WATCHER_LOCK = "watcher.lock"

_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH = 100
POLL_SECONDS = 0.01
_FAST_STOP_SECONDS = 60.0
_IMMEDIATE_STOP_SECONDS = 10.0
_KILL_SECONDS = 10.0


def key_of(path: Path) -> str:
    """A short name for a path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


@dataclass(frozen=True)
class Home:
    """The folder of one embedded server, with its data, locks, log and socket."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "pg"

    @property
    def log(self) -> Path:
        return self.path / "postgres.log"

    @property
    def socket_folder(self) -> Path:
        inside = self.path / "run"
        address = os.fsencode(inside / _SOCKET)
        # The kernel limits the length of a socket's path, and libpq splits lists of hosts at commas.
        if len(address) <= _LONGEST_SOCKET_PATH and b"," not in address:
            return inside
        # Not the configurable temporary folder: every process must compute the same path.
        return Path("/tmp").resolve() / f"howdah-{key_of(self.path)}"

    @property
    def version(self) -> str | None:
        """The major version that made the data; None where there is no data yet."""
        text = self._read(self.data, "PG_VERSION")
        return None if text is None else text.strip()

    def open_file(self, name: str) -> int:
        """Open a file of the home for reading and writing; create it if it is missing."""
        with opened_folder(self.path) as folder:
            try:
                descriptor = os.open(name, _FILE_FLAGS | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
            except FileExistsError:
                return _open_own_file(self.path / name, folder, _FILE_FLAGS)
            owner = os.fstat(folder)
            if owner.st_uid != os.geteuid():
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
            return descriptor

    def keep_last_log(self) -> None:
        """Rename the log of the last run, so that a new one begins."""
        with opened_folder(self.path) as folder, contextlib.suppress(FileNotFoundError):
            os.replace(self.log.name, f"{self.log.name}.1", src_dir_fd=folder, dst_dir_fd=folder)

    def end_of_log(self, lines: int) -> list[str]:
        return (self._read(self.path, self.log.name) or "").splitlines()[-lines:]

    def lock(self, name: str, kind: int) -> int:
        """Lock a file and return its descriptor. Closing it, or the end of the process, frees the lock."""
        descriptor = self.open_file(name)
        try:
            fcntl.flock(descriptor, kind)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def lock_exclusively(self, name: str) -> int:
        return self.lock(name, fcntl.LOCK_EX)

    def lock_shared(self, name: str) -> int:
        return self.lock(name, fcntl.LOCK_SH)

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        descriptor = self.lock_exclusively(name)
        try:
            yield
        finally:
            os.close(descriptor)

    def try_lock(self, name: str) -> int | None:
        try:
            return self.lock(name, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None

    def still_has(self, name: str, descriptor: int) -> bool:
        """Whether the open file is still the one in the home, which may have been replaced."""
        try:
            return os.path.samestat(os.fstat(descriptor), (self.path / name).stat())
        except FileNotFoundError:
            return False

    def is_ready(self) -> bool:
        lines = self._pid_file()
        return len(lines) > 7 and lines[7].strip() == "ready" and self._accepts_connections()

    def postmaster(self) -> psutil.Process | None:
        """The running server. A pid file may be stale, and another process may have its pid by now."""
        import psutil

        lines = self._pid_file()
        if not lines or not lines[0].strip().isdigit():
            return None
        try:
            process = psutil.Process(int(lines[0]))
            return process if Path(process.cwd()) == self.data else None
        except psutil.Error:
            return None

    def kill_processes(self) -> None:
        """Kill processes that a dead postmaster, or a dead starter, has left.

        An orphaned backend holds the shared memory, which would prevent a new server from starting.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while (victims := self._processes()) and time.monotonic() < deadline:
            for victim in victims:
                _kill_with_children(victim)
            time.sleep(POLL_SECONDS)

    def remove_pid_files(self) -> None:
        """Remove the pid files of a dead server: they block a new one if another process has that pid by now."""
        for path, name in ((self.data, "postmaster.pid"), (self.socket_folder, f"{_SOCKET}.lock")):
            with contextlib.suppress(FileNotFoundError), opened_folder(path) as folder:
                os.unlink(name, dir_fd=folder)

    def settings(self) -> Iterator[str]:
        # On the command line, because a project's folder may be moved and postgresql.conf would keep the old path.
        socket_folder = str(self.socket_folder).replace('"', '""')
        yield from ("-c", "listen_addresses=", "-c", "port=5432")
        yield from ("-c", f'unix_socket_directories="{socket_folder}"')
        yield from ("-c", "unix_socket_permissions=0700")

    def _pid_file(self) -> list[str]:
        return (self._read(self.data, "postmaster.pid") or "").splitlines()

    def _read(self, path: Path, name: str) -> str | None:
        try:
            with opened_folder(path) as folder:
                descriptor = _open_own_file(path / name, folder, _READING_FLAGS)
        except FileNotFoundError:
            return None
        with os.fdopen(descriptor, errors="replace") as file:
            return file.read()

    def _accepts_connections(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(os.fsencode(self.socket_folder / _SOCKET))
            except OSError:
                return False
        return True

    def _processes(self) -> list[psutil.Process]:
        import psutil

        return [process for process in psutil.process_iter() if self._owns(process)]

    def _owns(self, process: psutil.Process) -> bool:
        import psutil

        try:
            if process.name() not in ("postgres", "initdb"):
                return False
            places = (process.cwd(), *process.cmdline())
        except psutil.Error:
            return False
        return any(Path(place).is_relative_to(self.path) for place in places)


# Folders and files, without following links


def is_root() -> bool:
    return os.geteuid() == 0


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Open a folder without following a link to it; for root, without following one anywhere on its path."""
    descriptor = _open_step_by_step(path) if is_root() else open_folder(path, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_step_by_step(path: Path) -> int:
    descriptor = os.open(path.anchor, _FOLDER_FLAGS)
    for end, name in enumerate(path.parts[1:], start=2):
        above = descriptor
        try:
            descriptor = open_folder(name, Path(*path.parts[:end]), above)
        finally:
            os.close(above)
    return descriptor


def open_folder(name: str | Path, path: Path, above: int | None = None) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PermissionError(errno.EPERM, "it is a link or a file where a folder should be", str(path)) from error
        raise


def _open_own_file(path: Path, folder: int, flags: int) -> int:
    """Open an existing file. As root, refuse one with several names: another user may own it."""
    try:
        descriptor = os.open(path.name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise PermissionError(errno.EPERM, "it is a link, which is not followed", str(path)) from error
        raise
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode) or (found.st_nlink > 1 and is_root()):
        os.close(descriptor)
        raise PermissionError(errno.EPERM, "it is not a file of this server alone", str(path))
    return descriptor


# The end of a server


def _kill_with_children(process: psutil.Process) -> None:
    import psutil

    with contextlib.suppress(psutil.Error):
        for victim in (*process.children(recursive=True), process):
            victim.kill()


def _signal_postmaster(home: Home, number: signal.Signals, patience: float) -> None:
    import psutil

    deadline = time.monotonic() + patience
    if postmaster := home.postmaster():
        with contextlib.suppress(psutil.Error):
            postmaster.send_signal(number)
    # Not process.wait(): where no parent reaps it, the ended server stays a zombie for ever.
    while home.postmaster() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def stop(home: Home) -> None:
    """Stop the server, by force if that takes too long. Its data is safe either way."""
    _signal_postmaster(home, signal.SIGINT, _FAST_STOP_SECONDS)
    _signal_postmaster(home, signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS)
    home.kill_processes()
    if home.socket_folder.parent != home.path:
        with contextlib.suppress(OSError):
            home.socket_folder.rmdir()


def watch(home: Home, watcher_lock: int) -> None:
    """Wait until the last member is gone, then stop the server."""
    members = home.lock_exclusively(MEMBERS_LOCK)
    # A home that was deleted and made again has another lock file, and so other members.
    if home.still_has(MEMBERS_LOCK, members):
        stop(home)
    # In this order: the process that gets the members' lock next must see that there is no watcher.
    os.close(watcher_lock)
    os.close(members)


if __name__ == "__main__":
    # The starter has taken the watcher's lock and passes it as standard input, so that a watcher
    # holds its lock from its start on.
    watch(Home(Path(sys.argv[1])), watcher_lock=sys.stdin.fileno())
