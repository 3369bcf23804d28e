"""What `make` installs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("target", "installs_all"), [("demo", False), ("check", True)])
def test_the_demo_installs_only_what_it_needs(target: str, installs_all: bool) -> None:
    call = ["make", "--dry-run", "--always-make", "VENV=nowhere", target]
    # Not what the make gave on that runs these tests.
    environment = {
        name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKEOVERRIDES", "GROUP", "VENV")
    }
    said = subprocess.run(call, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    (installed,) = [line for line in said.splitlines() if "--editable" in line]
    assert "embedded,top" in installed.replace("encryption,", "")
    assert ("--group dev" in installed) is installs_all
