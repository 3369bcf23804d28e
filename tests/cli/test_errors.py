"""Exit codes, and what an error shows and hides."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest

from howdah import EmbeddedServerError, HowdahError, JobQueue, LeaseLost, QueueClosed
from tests.cli.runner import command, howdah, howdah_process

UNREACHABLE = "postgresql://ann:s3cret@127.0.0.1:1/jobs"
SECRET = "s3cret"


def test_a_missing_schema_exits_with_3_and_names_the_command_to_run(dsn: str) -> None:
    outcome = howdah("list", "--schema", "nowhere", dsn=dsn)
    assert (outcome.code, outcome.out) == (3, "")
    assert outcome.err.startswith("howdah: ")
    assert "howdah migrate --schema nowhere" in outcome.err


@pytest.mark.parametrize("argv", [["list"], ["migrate"], ["migrate", "--check"], ["demo"], ["enqueue", "x"]])
def test_an_unreachable_database_exits_with_4_and_keeps_the_password(argv: list[str]) -> None:
    for outcome in (howdah(*argv, dsn=UNREACHABLE), howdah(*argv, HOWDAH_DSN=UNREACHABLE, HOWDAH_DEBUG="1")):
        assert (outcome.code, outcome.out) == (4, "")
        assert "howdah: " in outcome.err
        assert SECRET not in outcome.err


@pytest.mark.parametrize(
    "bad_dsn",
    [f"postgresql://ann:{SECRET}@host/db?nonsense=1", f"host=x password={SECRET} oops", f"mysql://a:{SECRET}@b/c"],
)
def test_a_wrong_dsn_exits_with_2_and_keeps_the_password(bad_dsn: str) -> None:
    for outcome in (
        howdah("list", dsn=bad_dsn),
        howdah("list", dsn=bad_dsn, HOWDAH_DEBUG="1"),
        howdah("list", bad_dsn),
    ):
        assert (outcome.code, outcome.out) == (2, "")
        assert SECRET not in outcome.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EmbeddedServerError(), 5),
        (QueueClosed(), 1),
        (LeaseLost(), 1),
        (HowdahError("odd"), 1),
        (KeyboardInterrupt(), 130),
        (BrokenPipeError(), 141),
        (psycopg.errors.InsufficientPrivilege("permission denied"), 1),
    ],
)
def test_each_error_has_its_code_and_no_traceback(dsn: str, error: BaseException, code: int) -> None:
    with mock.patch.object(JobQueue, "stats", side_effect=error):
        outcome = howdah("stats", dsn=dsn)
    assert (outcome.code, outcome.out) == (code, "")
    assert "Traceback" not in outcome.err


def test_the_traceback_is_shown_on_request(dsn: str) -> None:
    assert "Traceback" not in howdah("show", "x", dsn=dsn).err
    assert "Traceback" in howdah("show", "x", dsn=dsn, HOWDAH_DEBUG="1").err


def test_the_process_exits_with_the_code(dsn: str) -> None:
    assert howdah_process("stats", HOWDAH_DSN=dsn).code == 0
    assert howdah_process("show", "00000000-0000-0000-0000-000000000000", HOWDAH_DSN=dsn).code == 1
    assert howdah_process("fly").code == 2


def test_a_reader_that_leaves_early_is_no_error(dsn: str, queue: JobQueue) -> None:
    queue.enqueue_many("x", ({"filler": "y" * 500} for _ in range(2_000)))
    for argv in (["list", "--all"], ["list", "--all", "--json"]):
        process = subprocess.Popen(
            command(*argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | {"HOWDAH_DSN": dsn}
        )
        assert process.stdout is not None
        assert process.stderr is not None
        with process:
            assert process.stdout.readline()
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode in (0, 141)


def test_a_terminal_without_unicode_gets_escapes(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("größe", {"a": "→"})
    for argv in (["list"], ["show", str(job.id)], []):
        outcome = howdah_process(*argv, HOWDAH_DSN=dsn, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert outcome.code == 0
        assert outcome.out.isascii()
        assert "Traceback" not in outcome.err


def test_input_that_is_not_text_exits_with_2(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "latin"
    file.write_bytes(b'"\xe9"\n')
    assert howdah("enqueue", "x", str(file), "--many", dsn=dsn).code == 2
    for argv in (["enqueue", "x", "-"], ["cancel", "-"]):
        done: Any = subprocess.run(
            command(*argv), input=b"\xff\xfe", capture_output=True, env=os.environ | {"HOWDAH_DSN": dsn}, check=False
        )
        assert (done.returncode, done.stdout) == (2, b"")
        assert b"Traceback" not in done.stderr


def test_output_to_a_pipe_has_no_colours(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("x")
    assert "\x1b" not in howdah_process("list", HOWDAH_DSN=dsn).out
