"""Stops an embedded PostgreSQL when the last process that uses it has left.

Every process that uses the server holds a shared lock on one file of its home; the kernel frees it
however the process ends. The watcher waits for the same lock exclusively: to have it means that
everybody has left. While it stops the server it keeps the lock, so that a process that arrives
meanwhile waits, and then starts the server anew.

The watcher lives as long as the longest user of the server, so it runs this file as a script:
neither the rest of Howdah nor a database driver is loaded. What `howdah.embedded` must see in the
same way, the home on disk and its processes, is here too.

Root works in a home that may belong to an ordinary user. That user can put a link anywhere in it, at any
moment. So files of the home are reached through descriptors of its folders, and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform != "win32":
    import fcntl
    import pwd

    _AS_IT_IS = os.O_NOFOLLOW | os.O_CLOEXEC
    _FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | _AS_IT_IS
    # A pipe that was put in a file's place would make us wait for its other end.
    _FILE_FLAGS = os.O_RDWR | os.O_NONBLOCK | _AS_IT_IS
    _READING_FLAGS = os.O_RDONLY | os.O_NONBLOCK | _AS_IT_IS

if TYPE_CHECKING:
    import psutil  # type: ignore[import-untyped, unused-ignore]

MEMBERS_LOCK = "members.lock"
START_LOCK = "start.lock"
WATCHER_LOCK = "watcher.lock"

_SYSTEM_SHELF = Path("/var/lib")
_SOCKET = ".s.PGSQL.5432"
_LONGEST_SOCKET_PATH = 100
POLL_SECONDS = 0.01
_FAST_STOP_SECONDS = 60.0
_IMMEDIATE_STOP_SECONDS = 10.0
_KILL_SECONDS = 10.0


def key_of(path: Path) -> str:
    """Return a short name that stands for the path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


@dataclass(frozen=True)
class Home:
    """The folder where one embedded server lives, with its data, locks, log and socket."""

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
        # The kernel limits the length of a socket's path; libpq takes a comma for a list of hosts.
        if len(address) <= _LONGEST_SOCKET_PATH and b"," not in address:
            return inside
        # Not the configurable temporary folder: every process must come to the same answer.
        return Path("/tmp").resolve() / f"howdah-{key_of(self.path)}"

    @property
    def version(self) -> str | None:
        """The major version that the data was made with, None where there is no data yet."""
        text = self._read(self.data, "PG_VERSION")
        return None if text is None else text.strip()

    def open_file(self, name: str) -> int:
        """Open a file of the home for reading and writing, and make it if need be."""
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
        """Make room for a new log, and keep the one before."""
        with opened_folder(self.path) as folder, contextlib.suppress(FileNotFoundError):
            os.replace(self.log.name, f"{self.log.name}.1", src_dir_fd=folder, dst_dir_fd=folder)

    def end_of_log(self, lines: int) -> list[str]:
        return (self._read(self.path, self.log.name) or "").splitlines()[-lines:]

    def lock(self, name: str, kind: int) -> int:
        """Return an open file with the lock; closing it, or dying, gives the lock back."""
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
        """Tell whether the open file is still the one in the home, which may have been replaced."""
        try:
            return os.path.samestat(os.fstat(descriptor), (self.path / name).stat())
        except FileNotFoundError:
            return False

    def is_ready(self) -> bool:
        lines = self._pid_file()
        return len(lines) > 7 and lines[7].strip() == "ready" and self._accepts_connections()

    def postmaster(self) -> psutil.Process | None:
        """Return the living server; a pid file may be stale, and its pid somebody else's by now."""
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
        """Kill what is left of a server without its postmaster, or of a start whose starter died.

        An orphaned backend would keep the shared memory, and with it a new server, from starting.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        while (victims := self._processes()) and time.monotonic() < deadline:
            for victim in victims:
                _kill_with_children(victim)
            time.sleep(POLL_SECONDS)

    def remove_pid_files(self) -> None:
        """Remove what would stop a new server if the old one's pid is somebody else's by now."""
        for path, name in ((self.data, "postmaster.pid"), (self.socket_folder, f"{_SOCKET}.lock")):
            with contextlib.suppress(FileNotFoundError), opened_folder(path) as folder:
                os.unlink(name, dir_fd=folder)

    def settings(self) -> Iterator[str]:
        # On the command line and not in postgresql.conf, because a project's folder may be moved.
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


# Whose the folders are


def is_root() -> bool:
    return os.geteuid() == 0


@contextlib.contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """Open a folder and follow no link to it, for root on no part of the way."""
    descriptor = _open_step_by_step(path) if is_root() else _open_folder(path, path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _open_step_by_step(path: Path) -> int:
    descriptor = os.open(path.anchor, _FOLDER_FLAGS)
    for end, name in enumerate(path.parts[1:], start=2):
        above = descriptor
        try:
            descriptor = _open_folder(name, Path(*path.parts[:end]), above)
        finally:
            os.close(above)
    return descriptor


def _open_folder(name: str | Path, path: Path, above: int | None = None) -> int:
    try:
        return os.open(name, _FOLDER_FLAGS, dir_fd=above)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise PermissionError(errno.EPERM, "it is a link or a file where a folder should be", str(path)) from error
        raise


def _open_own_file(path: Path, folder: int, flags: int) -> int:
    """Open a file that exists. One that has another name, too, may be another user's."""
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


@dataclass(frozen=True)
class Account:
    """Whom PostgreSQL runs as."""

    name: str
    uid: int
    gid: int

    @classmethod
    def of(cls, uid: int, gid: int) -> Account:
        try:
            return cls(pwd.getpwuid(uid).pw_name, uid, gid)
        except KeyError:
            return cls(f"user {uid}", uid, gid)

    @classmethod
    def current(cls) -> Account:
        return cls.of(os.geteuid(), os.getegid())

    def program_options(self) -> dict[str, Any]:
        """Return what runs one of PostgreSQL's programs as this account."""
        # Nothing else: this account can read the environment of its processes, and ours may hold secrets.
        # And PG… variables are meant for clients, but these programs would take defaults from them.
        kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment = kept | {"LC_ALL": "C", "TZ": "UTC", "HOME": self.home}
        options = {"stdin": subprocess.DEVNULL, "env": environment}
        if self.uid == os.geteuid():
            return options
        return options | {"user": self.uid, "group": self.gid, "extra_groups": []}

    @property
    def home(self) -> str:
        try:
            return pwd.getpwuid(self.uid).pw_dir
        except KeyError:
            return "/"

    @property
    def has_name(self) -> bool:
        """Whether the system knows it by name, and not only by number."""
        try:
            return pwd.getpwuid(self.uid).pw_name == self.name
        except KeyError:
            return False

    def can(self, *command: str | Path) -> bool:
        """Try a command as this account."""
        options = self.program_options() | {"stdout": subprocess.DEVNULL, "cwd": "/"}
        try:
            result = subprocess.run(command, stderr=subprocess.DEVNULL, check=False, **options)
        except OSError:
            return False
        return result.returncode == 0

    def can_enter(self, folder: Path) -> bool:
        return self.can("/bin/sh", "-c", 'cd "$1"', "sh", folder)


def shelves() -> list[Path]:
    """Return the folders that can hold the homes of many projects, the best one first."""
    temporary = Path("/tmp").resolve() / f"howdah-{os.geteuid()}"
    if is_root():
        return [_SYSTEM_SHELF.resolve() / "howdah", temporary]
    base = Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"))  # noqa: PTH111 - Path.expanduser raises where there is no home
    return [base.resolve() / "howdah", temporary] if base.is_absolute() else [temporary]


def prepare_home(folder: Path, account: Account) -> tuple[Home, Account]:
    if folder.parent in shelves():
        folder.parent.parent.mkdir(parents=True, exist_ok=True)
        own_shelf(folder.parent)
    if not is_root():
        folder = folder.resolve()
    account = _owner_of_data(folder, account)
    if is_root() and not account.can_enter(folder.parent):
        raise PermissionError(errno.EACCES, f"PostgreSQL must not run as root, and {account.name} cannot get there")
    _own_home(folder, account)
    home = Home(folder)
    _ignore_for_git(home)
    return home, account


def _owner_of_data(folder: Path, account: Account) -> Account:
    """PostgreSQL serves a data directory to nobody but its owner."""
    try:
        data = (folder / "pg").lstat()
    except FileNotFoundError:
        return account
    if is_root() and data.st_uid != 0:
        return Account.of(data.st_uid, data.st_gid)
    if data.st_uid != account.uid:
        raise PermissionError(errno.EPERM, "its data belongs to another user")
    return account


def _own_home(folder: Path, account: Account) -> None:
    # In a user's own project the home is the user's, also if root came first: both must get in.
    if folder.parent.stat().st_uid == account.uid:
        own_folder(folder, account, 0o700)
    else:
        own_shelf(folder)


def own_shelf(path: Path) -> None:
    # Root's folders let the account through that PostgreSQL runs as, and hide what is in them.
    mode = 0o711 if is_root() else 0o700
    own_folder(path, Account.current(), mode)


def own_folder(path: Path, account: Account, mode: int) -> None:
    with opened_folder(path.parent) as above:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path.name, 0o700, dir_fd=above)
        folder = _open_folder(path.name, path, above)
    try:
        owner = os.fstat(folder).st_uid
        if owner not in (os.geteuid(), account.uid):
            raise PermissionError(errno.EPERM, "it belongs to another user", str(path))
        if owner != account.uid:
            os.fchown(folder, account.uid, account.gid)
        os.fchmod(folder, mode)
    finally:
        os.close(folder)


def check_owner(path: Path, account: Account) -> None:
    """Refuse a folder that another user than the account has made, or can change."""
    with opened_folder(path) as folder:
        found = os.fstat(folder)
    if found.st_uid != account.uid:
        owner = Account.of(found.st_uid, found.st_gid)
        raise PermissionError(errno.EPERM, f"it belongs to {owner.name}, and not to {account.name}", str(path))
    if found.st_mode & 0o022:
        raise PermissionError(errno.EPERM, f"others than {account.name} can write there", str(path))


def _ignore_for_git(home: Home) -> None:
    with os.fdopen(home.open_file(".gitignore"), "r+") as file:
        if not file.read():
            file.write("*\n")


def flush_folder(path: Path) -> None:
    """Make a rename last through a power cut."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


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
    # Not process.wait(): where nobody reaps it, the ended server stays a zombie for ever.
    while home.postmaster() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def stop(home: Home) -> None:
    """Stop the server, by force if it takes too long; its data is safe either way."""
    _signal_postmaster(home, signal.SIGINT, _FAST_STOP_SECONDS)
    _signal_postmaster(home, signal.SIGQUIT, _IMMEDIATE_STOP_SECONDS)
    home.kill_processes()
    if home.socket_folder.parent != home.path:
        with contextlib.suppress(OSError):
            home.socket_folder.rmdir()


def watch(home: Home, watcher_lock: int) -> None:
    """Wait until everybody has left, and stop the server."""
    members = home.lock_exclusively(MEMBERS_LOCK)
    # A home that was deleted and made again has members that this lock knows nothing of.
    if home.still_has(MEMBERS_LOCK, members):
        stop(home)
    # In this order: whoever gets the members' lock next must see that there is no watcher.
    os.close(watcher_lock)
    os.close(members)


if __name__ == "__main__":
    # The starter took the watcher's lock and handed it over as standard input, so that there is
    # no moment at which a watcher has been started but does not hold its lock.
    watch(Home(Path(sys.argv[1])), watcher_lock=sys.stdin.fileno())
