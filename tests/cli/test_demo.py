from __future__ import annotations

import contextlib
import os
import pty
import signal
import subprocess

import pytest

from howdah import JobQueue
from howdah.cli.demo.crew import Crew
from howdah.cli.demo.summary import KindSummary, high_priority_first
from howdah.cli.demo.workload import KINDS, share_out
from tests.cli.runner import command, howdah, schema_of_its_own


def in_a_terminal(*argv: str, **environment: str) -> tuple[int, str]:
    """The exit code of a process, and all that it drew on a terminal of 100 columns."""
    ours, theirs = pty.openpty()
    look = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen(command(*argv), stdout=theirs, env=os.environ | look | environment)
    os.close(theirs)
    drawn = b""
    # Linux says that the other end is closed by an error.
    with contextlib.suppress(OSError):
        while part := os.read(ours, 65_536):
            drawn += part
    os.close(ours)
    return process.wait(timeout=30), drawn.decode()


@pytest.mark.parametrize("jobs", [5, 12, 300, 5_000])
def test_every_priority_gets_its_share(jobs: int) -> None:
    shares = share_out(jobs)
    assert sum(shares.values()) == jobs
    assert all(count >= 1 for count in shares.values())
    assert list(shares) == list(KINDS)


def test_piped_it_tells_the_story_in_plain_lines(dsn: str) -> None:
    with schema_of_its_own(dsn, "howdah_demo"):
        outcome = howdah("demo", "--jobs", "40", "--seed", "7", dsn=dsn)
        assert (outcome.code, outcome.err) == (0, "")
        assert "\x1b" not in outcome.out
        rows = {line.split()[0]: line.split() for line in outcome.out.splitlines() if line}
        assert rows["EXPLICIT"][1:5] == ["6", "6", "0", "0"]
        assert rows["DISCOVERED"][1:5] == ["14", "13", "1", "0"]
        assert rows["BACKFILL"][1:5] == ["20", "19", "0", "1"]
        assert "40 of 40 ended" in outcome.out
        assert "howdah list --schema howdah_demo --status failed" in outcome.out
        with JobQueue(dsn, "howdah_demo") as queue:
            total = queue.stats().total
            assert (total.completed, total.failed, total.cancelled) == (38, 1, 1)
            (failed,) = queue.list(status="failed")
            assert failed.attempts == failed.max_attempts == len(failed.errors)


def test_in_a_terminal_it_is_drawn_live(dsn: str) -> None:
    with schema_of_its_own(dsn, "howdah_demo"):
        code, screen = in_a_terminal("demo", "--jobs", "40", HOWDAH_DSN=dsn)
    assert code == 0
    for expected in ("worker 1", "claimed", "EXPLICIT 150", "━", "40 of 40 ended"):
        assert expected in screen


def test_a_leftover_of_an_earlier_demo_disturbs_nothing(dsn: str) -> None:
    with schema_of_its_own(dsn, "howdah_demo") as schema, JobQueue(dsn, schema) as queue:
        queue.migrate()
        leftover = queue.enqueue("send_invoice:beef", priority=1_000)
        (summary,) = howdah("demo", "--jobs", "12", "--json", dsn=dsn).lines
        explicit, discovered, backfill = summary["priorities"]
        assert (explicit["completed"], discovered["failed"], backfill["cancelled"]) == (2, 1, 1)
        assert discovered["retries"] >= 2
        assert explicit["first_start_ms"] >= 0
        assert backfill["last_end_ms"] >= backfill["first_start_ms"]
        assert queue.get(leftover.id).status == "pending"


def test_nobody_elses_jobs_are_touched(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("send_invoice", priority=1_000)
    with schema_of_its_own(dsn, "howdah_demo"):
        assert howdah("demo", "--jobs", "5", dsn=dsn).code == 0
    assert queue.get(job.id) == job
    assert queue.stats().total.pending == 1


def test_interrupted_it_ends_cleanly_and_leaves_nothing_waiting(dsn: str) -> None:
    with schema_of_its_own(dsn, "howdah_demo") as schema:
        process = subprocess.Popen(
            command("demo", "--jobs", "300"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"HOWDAH_DSN": dsn},
            # Whoever runs the tests in the background may have taken it away.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert process.stdout is not None
        # The second line comes when a second of the show has passed.
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert (process.returncode, err) == (130, "howdah: interrupted\n")
        with JobQueue(dsn, schema) as queue:
            total = queue.stats().total
            assert (total.pending, total.claimed, total.running) == (0, 0, 0)


def test_a_worker_that_cannot_go_on_ends_the_show(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stumble(*_: object) -> None:
        raise ConnectionResetError("gone")

    monkeypatch.setattr(Crew, "_handle", stumble)
    with schema_of_its_own(dsn, "howdah_demo"), pytest.raises(ConnectionResetError):
        howdah("demo", "--jobs", "12", dsn=dsn)


def test_the_order_is_judged_by_starts_and_ends() -> None:
    def kind(first: int | None, last: int | None) -> KindSummary:
        return KindSummary("X", "x", 1, 1, 0, 0, 0, first, last)

    assert high_priority_first([kind(1, 5), kind(2, 6), kind(None, 7)])
    assert not high_priority_first([kind(1, 5), kind(2, 4)])
    assert not high_priority_first([kind(3, 5), kind(2, 6)])


@pytest.mark.parametrize("jobs", ["0", "4", "5001", "many"])
def test_a_wrong_number_of_jobs_exits_with_2(dsn: str, jobs: str) -> None:
    assert howdah("demo", "--jobs", jobs, dsn=dsn).code == 2
