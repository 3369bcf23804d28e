"""The other Pythons of this machine, for CI: ``python -m tests.pythons`` prints the oldest release of each supported version.

The Python that runs this is left out: the whole suite runs on it.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

SUPPORTED: Final = ((3, 11), (3, 12), (3, 13))

Version = tuple[int, ...]


def programs() -> Iterator[Path]:
    """Wherever one may be: in the search path, and where pyenv keeps them."""
    places = [Path(place) for place in os.environ.get("PATH", "").split(os.pathsep) if place]
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    for place in (*places, *sorted(pyenv.glob("versions/*/bin"))):
        for major, minor in SUPPORTED:
            program = place / f"python{major}.{minor}"
            # What pyenv puts into the search path is no program, and prints what the folder has chosen.
            if program.exists() and place.name != "shims":
                yield program


def version_of(program: Path) -> Version | None:
    """None: it does not run, or has no venv (Debian: apt-get install python3-venv)."""
    code = "import ensurepip, platform, venv; print(platform.python_version())"
    ran = subprocess.run([program, "-c", code], capture_output=True, text=True, check=False)
    return None if ran.returncode else parsed(ran.stdout)


def parsed(text: str) -> Version:
    """The three numbers of a release."""
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def oldest_others(found: Iterable[tuple[Version, Path]], own: Version) -> list[Path]:
    """One for each version: its oldest release, unless that is our own."""
    oldest: dict[Version, tuple[Version, Path]] = {}
    for version, program in found:
        if version[:2] not in oldest or version < oldest[version[:2]][0]:
            oldest[version[:2]] = (version, program)
    return [program for version, program in sorted(oldest.values()) if version != own]


def main() -> None:
    found = [(version, program) for program in programs() if (version := version_of(program)) is not None]
    for program in oldest_others(found, parsed(platform.python_version())):
        print(program)


if __name__ == "__main__":
    main()
