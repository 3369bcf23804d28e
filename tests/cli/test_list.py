from __future__ import annotations

import re
from datetime import datetime
from unittest import mock

import pytest

from howdah import Job, JobQueue
from tests.cli.runner import Outcome, failed_job, howdah
from tests.clock import TestClock


@pytest.fixture
def jobs(queue: JobQueue) -> list[Job]:
    """One that failed, one that runs, one that waits and one for later, in this order."""
    failed = failed_job(queue, "send_invoice", ValueError("no such customer"), data={"user": 7}, priority=150)
    queue.enqueue("resize_photo", {"user": 8})
    (running,) = queue.claim(["resize_photo"])
    queue.start(running)
    queue.progress(running, 40, "decoding")
    waiting = queue.enqueue("reindex_page", {"user": 7}, priority=30)
    later = queue.enqueue("reindex_page", {"user": 9}, priority=30, delay=7_200, per="acme")
    return [failed, running, waiting, later]


def ids(outcome: Outcome) -> list[str]:
    assert outcome.code == 0
    return [line["id"] for line in outcome.lines]


@pytest.mark.parametrize("columns", ["80", "100", "120", "160", "200"])
def test_the_table_has_what_people_look_for_and_fits(dsn: str, jobs: list[Job], columns: str) -> None:
    outcome = howdah("list", dsn=dsn, COLUMNS=columns)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert max(map(len, lines)) <= int(columns)
    # The newest first, and every id whole.
    assert [line.split()[0] for line in lines if line[:1] == "0"] == [str(job.id) for job in reversed(jobs)]
    for expected in ("send_invoice", "failed", "no such customer", "running", "40%", "decoding", "1/3", "in 1h", "150"):
        assert expected in outcome.out


def test_a_long_error_is_cut_to_the_width(dsn: str, queue: JobQueue) -> None:
    failed_job(queue, "x", "long " * 1_000)
    for columns in (80, 160):
        lines = howdah("list", dsn=dsn, COLUMNS=str(columns)).out.rstrip().splitlines()
        assert all(len(line) <= columns for line in lines)
        assert lines[-1].endswith("…")


def test_a_long_type_is_never_lost(dsn: str, queue: JobQueue) -> None:
    job_type = "".join(chr(ord("a") + n % 26) for n in range(50))
    job = queue.enqueue(job_type)
    out = howdah("list", dsn=dsn, COLUMNS="80").out
    assert str(job.id) in out
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "".join(line[37:].split(" ")[0] for line in out.splitlines()[1:]) == job_type


def test_filters_narrow_it_down(dsn: str, jobs: list[Job]) -> None:
    failed, running, waiting, later = (str(job.id) for job in jobs)
    assert ids(howdah("list", "--json", dsn=dsn)) == [later, waiting, running, failed]
    assert ids(howdah("list", "--json", "--status", "failed", "--status", "running", dsn=dsn)) == [running, failed]
    assert ids(howdah("list", "--json", "--type", "send_invoice", "--type", "resize_photo", dsn=dsn)) == [
        running,
        failed,
    ]
    assert ids(howdah("list", "--json", "--per", "acme", dsn=dsn)) == [later]
    assert ids(howdah("list", "--json", "--data", '{"user": 7}', dsn=dsn)) == [waiting, failed]
    assert ids(howdah("list", "--json", "--data", "user=7", dsn=dsn)) == [waiting, failed]
    assert ids(howdah("list", "--json", "--data", "user=7", "--data", "no=where", dsn=dsn)) == []
    assert ids(howdah("list", "--json", "--data", 'user="7"', dsn=dsn)) == [], "which is text"
    assert ids(howdah("list", "--json", "--priority-at-least", "100", dsn=dsn)) == [running, failed]
    assert ids(howdah("list", "--json", "--priority-at-most", "99", dsn=dsn)) == [later, waiting]
    assert ids(howdah("list", "--json", "--since", "1h", "--until", "2100-01-01", "--limit", "1", dsn=dsn)) == [later]
    assert ids(howdah("list", "--json", "--until", "1h", dsn=dsn)) == []


def test_pages_follow_one_another(dsn: str, jobs: list[Job]) -> None:
    first = howdah("list", "--json", "--limit", "3", dsn=dsn)
    assert len(first.lines) == 3
    assert f"--before {jobs[1].id}" in first.err
    second = howdah("list", "--json", "--limit", "3", "--before", str(jobs[1].id), dsn=dsn)
    assert ids(second) == [str(jobs[0].id)]
    assert second.err == ""


def test_a_search_that_stopped_early_shows_a_note(dsn: str, jobs: list[Job]) -> None:
    with mock.patch("howdah.cli.commands.listing.SCAN_LIMIT", 2):
        outcome = howdah("list", "--json", "--type", "send_invoice", dsn=dsn)
        assert (outcome.code, outcome.out) == (0, "")
        assert "Only 2 jobs were searched" in outcome.err
        assert f"--before {jobs[2].id}" in outcome.err
        assert ids(howdah("list", "--json", "--type", "send_invoice", "--all", dsn=dsn)) == [str(jobs[0].id)]


def test_all_pages_at_once_with_one_header(dsn: str, jobs: list[Job]) -> None:
    assert len(howdah("list", "--json", "--all", "--limit", "2", dsn=dsn).lines) == 4
    outcome = howdah("list", "--all", "--limit", "1", dsn=dsn)
    assert outcome.err == ""
    assert outcome.out.count("status") == 1
    assert all(str(job.id) in outcome.out for job in jobs)


def test_ids_alone_are_what_retry_and_cancel_read(dsn: str, queue: JobQueue, jobs: list[Job]) -> None:
    outcome = howdah("list", "--ids", "--all", "--limit", "1", dsn=dsn)
    assert outcome.out.splitlines() == [str(job.id) for job in reversed(jobs)]
    assert howdah("list", "--ids", "--json", "--limit", "1", dsn=dsn).out == f'"{jobs[-1].id}"\n'
    failed = howdah("list", "--ids", "--status", "failed", dsn=dsn)
    assert howdah("retry", "-", dsn=dsn, stdin=failed.out).code == 0
    assert queue.get(jobs[0]).status == "pending"
    assert howdah("list", "--ids", "--status", "failed", dsn=dsn).err == "no jobs match\n"


def test_what_has_stalled_is_marked_and_can_be_asked_for(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    for job_type in ("silent", "busy", "waiting"):
        queue.enqueue(job_type)
    silent, busy = queue.claim(["silent", "busy"])
    for job in (silent, busy):
        queue.start(job)
        queue.progress(job, 10, "decoding")
    clock.advance(3_600)
    queue.progress(busy, 20)
    assert ids(howdah("list", "--stalled", "--json", dsn=dsn)) == [str(silent.id)]
    for columns in ("80", "200"):
        lines = howdah("list", dsn=dsn, COLUMNS=columns).out.splitlines()
        assert max(map(len, lines)) <= int(columns)
        (marked,) = [line for line in lines if "stalled for" in line]
        assert marked.rstrip().endswith("decoding")
    assert howdah("list", "--stalled", "--status", "pending", dsn=dsn).err == "no jobs match\n"


def test_the_note_has_the_expected_end(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue("x")
    (job,) = queue.claim(["x"])
    queue.start(job)
    for percent in (0, 10):
        queue.progress(job, percent, "[bold]decoding[/bold]")
        clock.advance(600)
    assert re.search(r"done in 1h, \[bold\]decoding\[/bold\]", howdah("list", dsn=dsn).out)


def test_json_has_every_field(dsn: str, jobs: list[Job]) -> None:
    job = howdah("list", "--json", "--status", "failed", dsn=dsn).lines[0]
    assert (job["status"], job["data"], job["attempts"], job["percent"]) == ("failed", {"user": 7}, 1, 0)
    assert job["errors"][0]["error"] == "ValueError: no such customer"
    assert datetime.fromisoformat(job["finished_at"]).tzinfo is not None
    assert "created" not in job


def test_an_empty_list_prints_a_note_to_stderr(dsn: str) -> None:
    outcome = howdah("list", dsn=dsn)
    assert (outcome.code, outcome.out) == (0, "")
    assert "no jobs match" in outcome.err


@pytest.mark.parametrize(
    "argv",
    [
        ["--status", "lost"],
        ["--data", "{nope"],
        ["--since", "yesterday"],
        ["--limit", "0"],
        ["--limit", "many"],
        ["--before", "x"],
        ["--type", ""],
        ["--priority-at-least", "high"],
    ],
)
def test_a_wrong_filter_exits_with_2(dsn: str, argv: list[str]) -> None:
    outcome = howdah("list", *argv, dsn=dsn)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_a_task_of_django_is_named(dsn: str, queue: JobQueue) -> None:
    failed_job(queue, "mail", ValueError("no such customer"), meta={"task": "shop.tasks.notify"})
    queue.enqueue("mail", {"args": [], "kwargs": {}}, meta={"task": "shop.tasks.confirm"})
    queue.enqueue("mail", {"task": "shop.tasks.export", "args": [], "kwargs": {}})
    for columns in ("80", "200"):
        out = howdah("list", dsn=dsn, COLUMNS=columns).out
        for expected in ("shop.tasks.confirm\n", "shop.tasks.export\n", "shop.tasks.notify: ValueError: no such"):
            assert expected in re.sub(" +\n", "\n", out)
