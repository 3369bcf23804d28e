"""Typed handlers, as mypy and pyright see them (basedpyright is pyright with its Node in a wheel)."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from howdah import JobQueue
from howdah.handlers.handler import Handler
from howdah.handlers.signatures import BulkOptions, EnqueueOptions, HandlerOptions
from howdah.worker.options import WorkerOptions, WorkerSettings

CASES = Path(__file__).with_name("cases.py")


def run_mypy(folder: Path) -> str:
    command = ["mypy", "--config-file=", "--strict", "--no-error-summary", f"--cache-dir={folder}", str(CASES)]
    return ran(folder, *command)


def run_pyright(folder: Path) -> str:
    settings = folder / "pyrightconfig.json"
    # The checks of pyright itself, and none that basedpyright adds.
    settings.write_text(json.dumps({"include": [str(CASES)], "typeCheckingMode": "strict"}))
    return ran(folder, "basedpyright", "--project", str(settings), "--pythonpath", sys.executable)


def ran(folder: Path, command: str, *arguments: str) -> str:
    program = Path(sys.executable).with_name(command)
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("check", [run_mypy, run_pyright])
def test_wrong_calls_are_errors_and_right_ones_are_not(check: Callable[[Path], str], tmp_path: Path) -> None:
    wrong = {n for n, line in enumerate(CASES.read_text().splitlines(), start=1) if line.endswith("# wrong")}
    report = check(tmp_path)
    refused = {int(found) for found in re.findall(r"cases\.py:(\d+)(?::\d+)?(?: -|:) error", report)}
    assert refused == wrong, report


@pytest.mark.parametrize(
    ("typed", "function", "besides"),
    [
        (HandlerOptions, Handler.__init__, {"self", "queue", "function"}),
        (EnqueueOptions, JobQueue.enqueue, {"self", "job_type", "data"}),
        (BulkOptions, JobQueue.enqueue_many, {"self", "job_type", "items"}),
        (WorkerSettings, WorkerOptions.checked, {"name"}),
    ],
)
def test_type_checkers_know_the_options_that_there_are(typed: type, function: object, besides: set[str]) -> None:
    assert callable(function)
    options = typed.__required_keys__ | typed.__optional_keys__  # type: ignore[attr-defined]
    assert options == inspect.signature(function).parameters.keys() - besides
