"""Common mistakes of newcomers, and the hints that the command prints then."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from howdah import JobQueue
from tests.cli.runner import command, howdah

APP = """
from howdah import JobQueue
queue = JobQueue()
@queue.job
def nothing() -> None: ...
"""


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["wrok", "app"], "Did you mean work?"),
        (["schedule", "lst"], "Did you mean list?"),
        (["list", "--stauts", "failed"], "Did you mean --status?"),
        (["list", "--stauts", "failed"], "Try: howdah list --help"),
        (["work", "app", "--process", "2", "--type", "bill"], "Did you mean --processes?"),
        (["schedule", "list", "--nonsense"], "Try: howdah schedule list --help"),
        (["list", "--status", "faild"], "Did you mean failed?"),
        (["list", "--since", "yesterday"], "'yesterday' is not a time: write 2h (ago), "),
        (["enqueue", "bill", "customer=Ann Lee"], "For key=value, write: --data 'customer=Ann Lee'"),
        (["work"], "the following arguments are required: MODULE[:QUEUE]\n"),
        (["psql", "--nonsense"], "--nonsense\nTry:"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_error_of_a_mistake_suggests_the_right_word(line: list[str], hint: str) -> None:
    outcome = howdah(*line, dsn="host=nowhere")
    assert (outcome.code, outcome.out) == (2, "")
    assert hint in outcome.err


def test_an_unknown_type_is_paused_and_named(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("bill")
    assert howdah("pause", "bill", dsn=dsn).err == ""
    unknown = howdah("pause", "bll", dsn=dsn)
    assert (unknown.code, unknown.out) == (0, "bll is paused\n")
    assert "there is no job and no handler of the type bll yet" in unknown.err
    assert repr(queue.stats()) == "Stats(bill: 1 pending, paused; bll: paused)"


def test_long_data_is_shown_in_part_and_no_line_ends_with_spaces(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("bill", {"customers": list(range(500))})
    shown = howdah("show", str(job.id), dsn=dsn).out
    assert f"… 444 more lines: howdah show {job.id} --all\n" in shown
    assert "  499\n" not in shown
    assert "499" in howdah("show", str(job.id), "--all", dsn=dsn).out
    for out in (shown, howdah("list", dsn=dsn, COLUMNS="80").out, howdah("stats", dsn=dsn).out):
        assert not [line for line in out.splitlines() if line != line.rstrip()]


def test_several_processes_print_once_where_an_embedded_server_is(tmp_path: Path) -> None:
    tmp_path.joinpath("app.py").write_text(APP)
    unset = {name: value for name, value in os.environ.items() if name not in ("HOWDAH_DSN", "DATABASE_URL")}
    call = command("work", "app", "--processes", "2", "--drain")
    said = subprocess.run(call, env=unset, cwd=tmp_path, capture_output=True, text=True, timeout=180, check=False)
    assert said.returncode == 0, said.stderr
    assert said.stderr.count("no HOWDAH_DSN or DATABASE_URL set") == 1
