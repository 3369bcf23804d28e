from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from howdah import JobQueue, Priority
from tests.cli.runner import Outcome, howdah


def test_it_prints_the_id_and_nothing_else(dsn: str, queue: JobQueue) -> None:
    outcome = howdah("enqueue", "send_invoice", '{"invoice": 17}', dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    job = queue.get(outcome.out.strip())
    assert (job.job_type, job.data, job.status, job.priority) == ("send_invoice", {"invoice": 17}, "pending", 100)


def test_every_option_reaches_the_job(dsn: str, queue: JobQueue) -> None:
    options = ("--priority", "backfill", "--delay", "2h", "--max-attempts", "7", "--key", "nightly", "--timeout", "5m")
    outcome = howdah("enqueue", "reindex", *options, dsn=dsn)
    job = queue.get(outcome.out.strip())
    assert job.priority == Priority.BACKFILL
    assert job.run_at - job.created_at == timedelta(hours=2)
    assert (job.max_attempts, job.key, job.timeout, job.data) == (7, "nightly", timedelta(minutes=5), {})


def test_run_at_takes_a_moment_and_priority_any_number(dsn: str, queue: JobQueue) -> None:
    outcome = howdah("enqueue", "x", "--run-at", "2040-01-02T03:04+00:00", "--priority", "-5", dsn=dsn)
    job = queue.get(outcome.out.strip())
    assert job.run_at == datetime(2040, 1, 2, 3, 4, tzinfo=timezone.utc)
    assert job.priority == -5


def test_pairs_are_json_where_they_can_be(dsn: str, queue: JobQueue) -> None:
    pairs = (
        "--data",
        "invoice=17",
        "--data",
        "to=ann@example.org",
        "--data",
        "tags=[1, 2]",
        "--data",
        "eq=a=b",
        "--data",
        "none=",
    )
    job = queue.get(howdah("enqueue", "x", *pairs, dsn=dsn).out.strip())
    assert job.data == {"invoice": 17, "to": "ann@example.org", "tags": [1, 2], "eq": "a=b", "none": ""}


def test_data_takes_json_too_as_a_filter_does(dsn: str, queue: JobQueue) -> None:
    job = queue.get(howdah("enqueue", "x", "--data", '{"card": "4111", "eq": "a=b"}', dsn=dsn).out.strip())
    assert job.data == {"card": "4111", "eq": "a=b"}


def test_a_dash_reads_the_data_from_standard_input(dsn: str, queue: JobQueue) -> None:
    job = queue.get(howdah("enqueue", "x", "-", dsn=dsn, stdin='{\n  "a": [1]\n}\n').out.strip())
    assert job.data == {"a": [1]}


def test_a_key_that_is_taken_gives_the_job_that_has_it(dsn: str) -> None:
    first = howdah("enqueue", "x", "--key", "k", dsn=dsn)
    second = howdah("enqueue", "x", "--key", "k", dsn=dsn)
    assert second.code == 0
    assert second.out == first.out
    assert "not added" in second.err
    (as_json,) = howdah("enqueue", "x", "--key", "k", "--json", dsn=dsn).lines
    assert as_json["created"] is False
    assert as_json["id"] == first.out.strip()


def test_json_is_the_whole_job(dsn: str) -> None:
    (job,) = howdah("enqueue", "x", '{"a": "ü"}', "--json", "--timeout", "90s", dsn=dsn).lines
    assert job["created"] is True
    assert (job["job_type"], job["data"], job["percent"], job["timeout"]) == ("x", {"a": "ü"}, 0, 90.0)
    assert datetime.fromisoformat(job["created_at"]).utcoffset() == timedelta(0)


def test_many_takes_a_job_from_each_line_in_their_order(dsn: str, queue: JobQueue) -> None:
    lines = "".join(f'{{"n": {n}}}\n' for n in range(2_500)) + "\n"
    outcome = howdah("enqueue", "bulk", "--many", "--priority", "30", dsn=dsn, stdin=lines)
    assert outcome == Outcome(0, out="2,500 jobs of type bulk enqueued\n", err="")
    assert queue.stats()["bulk"].pending == 2_500
    assert [job.data["n"] for job in queue.claim(["bulk"], 3)] == [0, 1, 2]


def test_many_reads_a_file_too(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "jobs.jsonl"
    file.write_text("1\n2\n3", encoding="utf-8")
    assert howdah("enqueue", "bulk", str(file), "--many", "--json", dsn=dsn).lines == [{"enqueued": 3}]


@pytest.mark.parametrize("bad", ["{oops", "NaN", '"\\u0000"', "[" * 100_000, "9" * 5_000, '"\\ud800"'])
def test_a_bad_line_among_many_enqueues_nothing(dsn: str, queue: JobQueue, bad: str) -> None:
    outcome = howdah("enqueue", "bulk", "--many", dsn=dsn, stdin=f"1\n2\n{bad}\n4\n")
    assert outcome.code == 2
    assert "line 3" in outcome.err or "item 2" in outcome.err
    assert "Traceback" not in outcome.err
    assert not queue.stats()


@pytest.mark.parametrize(
    "argv",
    [
        ["enqueue"],
        ["enqueue", ""],
        ["enqueue", "x" * 51],
        ["enqueue", "x\n"],
        ["enqueue", "x", "{nope"],
        ["enqueue", "x", "NaN"],
        ["enqueue", "x", "1", "--data", "a=1"],
        ["enqueue", "x", "--data", "no-pair"],
        ["enqueue", "x", "--data", '{"a": "b=c"'],
        ["enqueue", "x", "--data", '{"a": "b=c"}', "--data", "b=c"],
        ["enqueue", "x", "--data", "=c"],
        ["enqueue", "x", "--priority", "urgent"],
        ["enqueue", "x", "--priority", "99999999999"],
        ["enqueue", "x", "--delay", "soon"],
        ["enqueue", "x", "--delay", "1h", "--run-at", "2040-01-01"],
        ["enqueue", "x", "--run-at", "tomorrow"],
        ["enqueue", "x", "--max-attempts", "0"],
        ["enqueue", "x", "--timeout", "0"],
        ["enqueue", "x", "--key", ""],
        ["enqueue", "x", "--many", "--key", "k"],
        ["enqueue", "x", "no/such/file", "--many"],
        ["enqueue", "x", "--prio", "5"],
        ["enqueue", "x", '"' + "y" * 70_000 + '"'],
    ],
)
def test_a_wrong_call_exits_with_2_and_enqueues_nothing(dsn: str, queue: JobQueue, argv: list[str]) -> None:
    outcome = howdah(*argv, dsn=dsn)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "howdah" in outcome.err
    assert "Traceback" not in outcome.err
    assert not queue.stats()
