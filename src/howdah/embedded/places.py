"""Where an embedded PostgreSQL keeps its data, and under which account it runs.

PostgreSQL refuses to run as root: for root it runs under another account. Which folders that account can reach is
found out by trying it.

Another user may have put a folder where ours should be. Folders that belong to others are refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from howdah.embedded.watcher import Home, is_root, key_of, open_folder, opened_folder
from howdah.errors import EmbeddedServerError

if sys.platform != "win32":
    import pwd

WAY_OUT: Final = "Or set HOWDAH_DSN to a PostgreSQL of your own."
_SYSTEM_SHELF: Final = Path("/var/lib")
_SYSTEM_ACCOUNTS: Final = ("postgres", "nobody", "daemon", "www-data")


@dataclass(frozen=True)
class Account:
    """The account that PostgreSQL runs as."""

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
        """Options of subprocess that run one of PostgreSQL's programs as this account."""
        # Only these variables: the account can read the environment of its processes, and ours may hold secrets.
        # PG… variables are meant for clients, but these programs would take defaults from them.
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
        """Whether the system has a name for it, not only a number."""
        try:
            return pwd.getpwuid(self.uid).pw_name == self.name
        except KeyError:
            return False

    def can(self, *command: str | Path) -> bool:
        """Run a command as this account; whether it succeeded."""
        options = self.program_options() | {"stdout": subprocess.DEVNULL, "cwd": "/"}
        try:
            result = subprocess.run(command, stderr=subprocess.DEVNULL, check=False, **options)
        except OSError:
            return False
        return result.returncode == 0

    def can_enter(self, folder: Path) -> bool:
        return self.can("/bin/sh", "-c", 'cd "$1"', "sh", folder)


@dataclass(frozen=True)
class Place:
    """A home that works, its account, and why it is not the project's own folder, if it is not."""

    home: Home
    account: Account
    why_elsewhere: str = ""


def choose_place(project: Path) -> Place:
    account = _account_for(project)
    refusals: list[str] = []
    for folder in (project / ".howdah", *(shelf / key_of(project) for shelf in shelves())):
        try:
            home, owner = _prepare_home(folder, account)
        except OSError as error:
            refusals.append(f"{folder} cannot be used: {error.strerror or error}")
        else:
            return Place(home, owner, refusals[0] if refusals else "")
    raise EmbeddedServerError(
        "There is no folder where the embedded PostgreSQL could keep its data: "
        f"{'; '.join(refusals)}. Make one of them usable. {WAY_OUT}"
    )


def _account_for(project: Path) -> Account:
    if not is_root():
        return Account.current()
    with contextlib.suppress(OSError, KeyError):
        owner = pwd.getpwuid(project.stat().st_uid)
        if owner.pw_uid != 0:
            return Account(owner.pw_name, owner.pw_uid, owner.pw_gid)
    for name in _SYSTEM_ACCOUNTS:
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise EmbeddedServerError(
        "PostgreSQL refuses to run as root, and there is no other account to run it as: none of "
        f"{', '.join(_SYSTEM_ACCOUNTS)} exists. Run this as another user. {WAY_OUT}"
    )


def shelves() -> list[Path]:
    """The folders that can hold the homes of many projects, the best one first."""
    temporary = Path("/tmp").resolve() / f"howdah-{os.geteuid()}"
    if is_root():
        return [_SYSTEM_SHELF.resolve() / "howdah", temporary]
    base = Path(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"))  # noqa: PTH111 - Path.expanduser raises where there is no home
    return [base.resolve() / "howdah", temporary] if base.is_absolute() else [temporary]


def _prepare_home(folder: Path, account: Account) -> tuple[Home, Account]:
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
    """The account of existing data: PostgreSQL runs only as the owner of its data directory."""
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
    # In a user's own project the user owns the home, even if root made it: both need access.
    if folder.parent.stat().st_uid == account.uid:
        own_folder(folder, account, 0o700)
    else:
        own_shelf(folder)


def own_shelf(path: Path) -> None:
    # Root's folders let PostgreSQL's account pass through, and hide their contents.
    mode = 0o711 if is_root() else 0o700
    own_folder(path, Account.current(), mode)


def own_folder(path: Path, account: Account, mode: int) -> None:
    with opened_folder(path.parent) as above:
        with contextlib.suppress(FileExistsError):
            os.mkdir(path.name, 0o700, dir_fd=above)
        folder = open_folder(path.name, path, above)
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
    """Refuse a folder that is owned by another account, or that others can write to."""
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
