"""The version before this one, as the history of this repository has it: its clients must continue to work on today's schema."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import history
from tests.history import ROOT, HistoryMissing


def extract(folder: Path) -> Path:
    """Puts the former source and its tests into a folder."""
    try:
        return history.extract(history.former(), folder, "src", "tests", "pyproject.toml")
    except HistoryMissing as reason:
        if os.environ.get("CI"):
            pytest.fail(str(reason))
        pytest.skip(str(reason))


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
