from __future__ import annotations

import uuid

import psycopg
import pytest

from howdah import JobQueue
from tests.cli.runner import failed_job, howdah


def test_everything_of_a_failed_job_can_be_read(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("send_invoice", {"invoice": {"number": 17}}, priority=150, key="k-17", timeout=90)
    for attempt in ("first", "second"):
        (claimed,) = queue.claim(["send_invoice"], worker_id="worker-a")
        queue.start(claimed)
        queue.progress(claimed, 40, "rendering")
        try:
            raise ValueError(f"the {attempt} went wrong")
        except ValueError as error:
            queue.fail(claimed, error, delay=0, give_up=attempt == "second")
    outcome = howdah("show", str(job.id), dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "send_invoice  failed",
        str(job.id),
        "150 (explicit)",
        "2 of 3",
        "40%, rendering",
        "k-17",
        "1m",
        '"number": 17',
        "attempt 1 failed",
        "(by worker-a)",
        "ValueError: the first went wrong",
        "ValueError: the second went wrong",
        "Traceback (most recent call last):",
        'raise ValueError(f"the {attempt} went wrong")',
    ):
        assert expected in outcome.out
    assert outcome.out.count("ValueError: the first went wrong") == 1


def test_the_result_of_a_completed_job(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    queue.complete(queue.claim(["x"])[0], {"sum": [1, 2], "name": "Jürgen"})
    outcome = howdah("show", str(job.id), dsn=dsn)
    assert "x  completed" in outcome.out
    assert '"name": "Jürgen"' in outcome.out
    assert "errors" not in outcome.out


def test_a_held_job_has_no_due_time(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE howdah.live SET run_at = 'infinity'")
    assert "never by itself" in howdah("show", str(job.id), dsn=dsn).out
    assert "held" in howdah("list", dsn=dsn).out
    assert howdah("show", str(job.id), "--json", dsn=dsn).lines[0]["run_at"] == "infinity"


def test_json_is_one_object(dsn: str, queue: JobQueue) -> None:
    job = failed_job(queue, "x", "broken", data=[1])
    (shown,) = howdah("show", str(job.id), "--json", dsn=dsn).lines
    assert (shown["id"], shown["data"], shown["last_error"]) == (str(job.id), [1], "broken")


def test_a_job_that_is_not_there_exits_with_1(dsn: str) -> None:
    missing = str(uuid.uuid4())
    outcome = howdah("show", missing, dsn=dsn)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("howdah: ")
    assert missing in outcome.err


@pytest.mark.parametrize("argv", [["show"], ["show", "not-an-id"]])
def test_a_wrong_id_exits_with_2(dsn: str, argv: list[str]) -> None:
    assert howdah(*argv, dsn=dsn).code == 2
