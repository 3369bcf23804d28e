"""``logs``: what a handler has logged, by attempt; and no more than was requested."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from howdah import Job, JobQueue
from tests.cli.runner import command, default_signals, howdah
from tests.cli.sample import HOSTILE
from tests.cli.test_terminal_escape import dangers
from tests.talking import Talking

LINE = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} "


def logged(queue: JobQueue, job: Job, *records: tuple[str, Any]) -> None:
    """Keeps lines of a held job, each a level and a message, as a worker does."""
    data = [Jsonb({"logger": "app", "message": said} if isinstance(said, str) else said) for _, said in records]
    with psycopg.connect(queue.dsn) as conn:
        conn.execute(
            "SELECT howdah.record_events(p_ids => %s, p_tokens => %s, p_names => %s, p_data => %s, p_kinds => %s)",
            (
                [job.id] * len(records),
                [job.token] * len(records),
                [level for level, _ in records],
                data,
                ["log"] * len(records),
            ),
        )


@pytest.fixture
def job(queue: JobQueue) -> Job:
    """One that failed once, and runs again."""
    queue.enqueue("x")
    (first,) = queue.claim(["x"])
    logged(queue, first, ("INFO", "begins"), ("ERROR", "broke\nTraceback\n  line 1"))
    queue.fail(first, "broken", delay=0)
    (again,) = queue.claim(["x"])
    logged(queue, again, ("INFO", "begins again"), ("WARNING", "slow"))
    return again


def test_the_lines_of_each_attempt(dsn: str, job: Job) -> None:
    outcome = howdah("logs", str(job.id), dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert [re.sub(LINE, "", line) for line in lines] == [
        "attempt 1",
        "INFO     app: begins",
        "ERROR    app: broke",
        "    Traceback",
        "      line 1",
        "attempt 2",
        "INFO     app: begins again",
        "WARNING  app: slow",
    ]
    assert re.match(LINE, lines[1])


def test_only_what_is_asked_for(dsn: str, job: Job) -> None:
    assert "attempt 1" not in howdah("logs", str(job.id), "--attempt", "2", dsn=dsn).out
    assert "begins" not in howdah("logs", str(job.id), "--level", "WARNING", dsn=dsn).out
    assert "slow" in howdah("logs", str(job.id), "--level", "warning", dsn=dsn).out
    nothing = howdah("logs", str(job.id), "--level", "error", "--attempt", "2", dsn=dsn)
    assert (nothing.code, nothing.out) == (0, "")
    assert nothing.err == "no log lines are kept of this job, of level error or above, of attempt 2\n"


def test_more_than_a_page(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("x")
    (job,) = queue.claim(["x"])
    logged(queue, job, *(("INFO", f"line {n}") for n in range(1_234)))
    lines = howdah("logs", str(job.id), dsn=dsn).out.splitlines()
    assert [line.rsplit(" ", 1)[1] for line in lines[1:]] == [str(n) for n in range(1_234)]


def test_json_is_an_object_for_each_line(dsn: str, job: Job) -> None:
    outcome = howdah("logs", str(job.id), "--json", dsn=dsn)
    assert [(line["attempt"], line["level"], line["logger"], line["message"]) for line in outcome.lines] == [
        (1, "INFO", "app", "begins"),
        (1, "ERROR", "app", "broke\nTraceback\n  line 1"),
        (2, "INFO", "app", "begins again"),
        (2, "WARNING", "app", "slow"),
    ]


def test_a_job_without_lines_and_no_job(dsn: str, queue: JobQueue) -> None:
    silent = howdah("logs", str(queue.enqueue("x").id), dsn=dsn)
    assert (silent.code, silent.out, silent.err) == (0, "", "no log lines are kept of this job\n")
    missing = howdah("logs", str(uuid.uuid4()), dsn=dsn)
    assert (missing.code, missing.out) == (1, "")
    for argv in ([], ["nonsense"], [str(uuid.uuid4()), "--level", "loud"], [str(uuid.uuid4()), "--attempt", "last"]):
        assert howdah("logs", *argv, dsn=dsn).code == 2


def test_nothing_that_was_logged_is_obeyed(dsn: str, queue: JobQueue) -> None:
    hostile = HOSTILE.replace("\x00", "")
    queue.enqueue("x")
    (job,) = queue.claim(["x"])
    records = [
        ("INFO", hostile),
        (hostile[:100], {"logger": hostile, "message": hostile}),
        ("[red]LOUD[/]", "[bold]x[/bold] :smile:"),
        ("INFO", {hostile: hostile}),
        ("INFO", [hostile]),
        ("INFO", {"message": None, "at": hostile, "level": 1}),
    ]
    logged(queue, job, *records)
    shown, in_json = howdah("logs", str(job.id), dsn=dsn), howdah("logs", str(job.id), "--json", dsn=dsn)
    assert not dangers(shown.out + in_json.out)
    assert "[red]LOUD[/] app: [bold]x[/bold] :smile:" in shown.out
    assert [line["level"] for line in in_json.lines] == [level for level, _ in records]
    # What was a line of its own stays indented: none can be forged.
    assert all(re.match(rf"attempt 1$|{LINE}|    ", line) for line in shown.out.splitlines())


@contextlib.contextmanager
def following(dsn: str, *argv: str) -> Iterator[Talking]:
    process = subprocess.Popen(
        command("logs", "--follow", *argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"HOWDAH_DSN": dsn},
        preexec_fn=default_signals,
    )
    talking = Talking(process)
    try:
        yield talking
    finally:
        talking.close()


def test_they_are_followed_until_the_job_has_ended(dsn: str, queue: JobQueue, job: Job) -> None:
    with following(dsn, str(job.id)) as logs:
        logs.await_line("WARNING  app: slow")
        logged(queue, job, ("INFO", "goes on"))
        logs.await_line("INFO     app: goes on")
        queue.event(job, "no line")
        queue.complete(job)
        assert logs.ended() == 0
    assert logs.said.count("attempt 1") == logs.said.count("attempt 2") == logs.said.count("slow") == 1
    assert "no line" not in logs.said


def test_following_can_be_interrupted(dsn: str, queue: JobQueue, job: Job) -> None:
    with following(dsn, str(job.id), "--json") as logs:
        logs.await_line('"slow"')
        logs.signal(signal.SIGINT)
        assert logs.ended() == 130
    assert "Traceback" not in logs.lines[-1]
