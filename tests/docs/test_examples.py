"""The examples run against a real PostgreSQL, end by themselves, and can be run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs_twice(example: Path, dsn: str, tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(example)],
            env={**os.environ, "HOWDAH_DSN": dsn},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        assert not done.stderr


def test_every_example_is_described() -> None:
    described = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert EXAMPLES
    for example in EXAMPLES:
        assert example.name in described
