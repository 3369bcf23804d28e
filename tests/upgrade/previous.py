"""The version before this one, as the history of this repository has it: its clients must go on working on today's schema."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

COMMIT: Final = "9c1f1b4"
"""The last one of schema version 4. Set it anew when a schema version is released; never to one that was not."""

ROOT: Final = Path(__file__).parents[2]


def extract(folder: Path) -> Path:
    """Puts the former source and its tests into a folder."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        _lacking("the former version comes out of git, and this is no clone of the repository")
    archive = subprocess.run(
        ["git", "archive", COMMIT, "src", "tests", "pyproject.toml"], cwd=ROOT, capture_output=True
    )
    if archive.returncode:
        _lacking(f"git has no commit {COMMIT}: this clone is a shallow one")
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def surroundings(former: Path, **others: str) -> dict[str, str]:
    """The environment of a process that is to run the former version."""
    paths = [str(former / "src"), str(former), str(ROOT / "tests" / "upgrade")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **others}


def run_tests(former: Path, dsn: str, *tests: str) -> subprocess.CompletedProcess[str]:
    """Runs former tests with the former client, on a database that has today's schema."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "as_it_is_installed", *tests]
    environment = surroundings(former, HOWDAH_TEST_DSN=dsn)
    return subprocess.run(command, cwd=former, env=environment, capture_output=True, text=True)


def run_command(former: Path, dsn: str, *words: str) -> None:
    """Runs the former version's command."""
    environment = surroundings(former, HOWDAH_DSN=dsn)
    subprocess.run([sys.executable, "-m", "howdah", *words], env=environment, check=True, stdout=subprocess.DEVNULL)


def _lacking(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
