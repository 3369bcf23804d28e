"""Runs the checklist on each version of Django: ``make django``, or ``python -m tests.django.versions 6.1``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.docs.pages import ROOT
from tests.pythons import Version, programs, version_of

DJANGOS: Final[dict[str, tuple[Version, tuple[str, ...]]]] = {
    "5.2": ((3, 11), ("django-tasks>=0.12",)),
    "6.0": ((3, 12), ()),
    "6.1": ((3, 12), ()),
}
"""The least Python of each, and what it needs beside."""


def main(versions: list[str]) -> int:
    failed = [version for version in versions or DJANGOS if not _passes(version)]
    print(f"Failed: {', '.join(failed)}" if failed else "All passed.")
    return bool(failed)


def _passes(version: str) -> bool:
    least, others = DJANGOS[version]
    python = ROOT / ".venv" / f"django-{version}" / "bin/python"
    if not python.exists():
        _install(python, _newest(least), f"django~={version}.0", *others)
    print(f"With Django {version}:", flush=True)
    return subprocess.run([python, "-m", "tests.django"], cwd=ROOT, check=False).returncode == 0


def _newest(least: Version) -> Path:
    found = [(version, program) for program in programs() if (version := version_of(program)) is not None]
    fitting = [each for each in found if each[0] >= least]
    if not fitting:
        raise SystemExit(f"Python {'.'.join(map(str, least))} or newer is not installed here")
    return max(fitting)[1]


def _install(python: Path, base: Path, *packages: str) -> None:
    subprocess.run([base, "-m", "venv", python.parent.parent], check=True)
    pip = (str(python), "-m", "pip", "--quiet", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "--editable", f"{ROOT}[embedded]", *packages], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
