"""``stats``, ``recover`` and ``prune``."""

from __future__ import annotations

import re
from datetime import datetime

import psycopg

from howdah import JobQueue
from tests.cli.runner import failed_job, howdah, schema_of_its_own
from tests.clock import TestClock

DAY = 86_400
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}"
LET_LEASES_PASS = "UPDATE howdah.live SET lease_until = now() - interval '1 minute', own_write = NOT own_write"


def test_stats_count_by_type_and_in_total(dsn: str, queue: JobQueue) -> None:
    failed_job(queue, "a", "broken")
    queue.enqueue("a")
    queue.enqueue("b", delay=3_600)
    outcome = howdah("stats", dsn=dsn)
    assert outcome.code == 0
    header, a, b, total = (line.split() for line in outcome.out.splitlines())
    assert header[:8] == ["type", "pending", "claimed", "running", "completed", "failed", "cancelled", "later"]
    assert a[:8] == ["a", "1", "0", "0", "0", "1", "0", "0"]
    assert b == ["b", "1", "0", "0", "0", "0", "0", "1"]
    assert total[:8] == ["total", "2", "0", "0", "0", "1", "0", "1"]


def test_stats_count_what_has_stalled_where_there_is_room(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    queue.enqueue_many("a", ({} for _ in range(2)))
    for job in queue.claim(["a"]):
        queue.start(job)
    assert "stalled" not in howdah("stats", dsn=dsn).out
    queue.progress(job, 10)
    clock.advance(3_600)
    wide, narrow = howdah("stats", dsn=dsn, COLUMNS="100"), howdah("stats", dsn=dsn, COLUMNS="80")
    header, a, total = (line.split() for line in wide.out.splitlines())
    assert (header[-1], a[-1], total[-1], wide.err) == ("stalled", "1", "1", "")
    assert "stalled" not in narrow.out
    assert narrow.err == "1 running job has stalled: howdah list --stalled\n"
    assert all(len(line) <= 80 for line in narrow.out.splitlines())
    assert howdah("stats", "--json", dsn=dsn).lines[0]["types"]["a"]["stalled"] == 1


def test_stats_as_json(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("a")
    (stats,) = howdah("stats", "--json", dsn=dsn).lines
    assert stats["types"]["a"]["pending"] == stats["total"]["pending"] == 1
    assert stats["types"]["a"]["paused"] is False


def test_stats_of_an_empty_queue(dsn: str) -> None:
    outcome = howdah("stats", dsn=dsn)
    assert (outcome.code, outcome.out) == (0, "")
    assert "no jobs" in outcome.err


def test_the_sweep_prints_what_it_recovered_and_why(dsn: str, queue: JobQueue) -> None:
    assert howdah("recover", dsn=dsn).out == "nothing to recover\n"
    first, second = queue.enqueue("x"), queue.enqueue("y")
    queue.claim(["x", "y"], lease=0.001)
    with psycopg.connect(dsn) as conn:
        conn.execute(LET_LEASES_PASS)
    outcome = howdah("recover", dsn=dsn, COLUMNS="80")
    assert outcome.code == 0
    for expected in (str(first.id), str(second.id), "pending", "the lease of worker", "2 jobs recovered"):
        assert expected in outcome.out


def test_recover_as_json(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x", max_attempts=1)
    queue.claim(["x"])
    with psycopg.connect(dsn) as conn:
        conn.execute(LET_LEASES_PASS)
    (swept,) = howdah("recover", "--json", dsn=dsn).lines
    assert swept["count"] == 1
    assert (swept["jobs"][0]["id"], swept["jobs"][0]["status"]) == (str(job.id), "failed")


def test_recover_with_a_timeout_takes_what_was_claimed_before(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("x")
    queue.claim(["x"])
    assert howdah("recover", "--timeout", "10m", dsn=dsn).out.startswith("0 jobs recovered")
    outcome = howdah("recover", "--timeout", "0", dsn=dsn)
    assert (outcome.code, outcome.out) == (0, "1 job recovered: claimed longer ago than 0ms\n")
    assert howdah("recover", "--timeout", "0", "--json", dsn=dsn).lines == [{"count": 0, "jobs": None}]


def test_prune_drops_old_segments_and_names_the_session_in_the_way(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_prune") as schema, JobQueue(dsn, schema) as queue:
        queue.migrate()
        with TestClock(dsn, schema) as clock:
            failed_job(queue, "x", "broken")
            assert howdah("prune", "--schema", schema, dsn=dsn).out == "no segment of the archive is old enough\n"
            clock.advance(2 * DAY)
            with psycopg.connect(dsn, application_name="slow reader") as reader:
                reader.execute("SELECT count(*) FROM cli_prune.jobs")
                not_closed = howdah("prune", "--schema", schema, "--tries", "1", dsn=dsn)
            assert not_closed.code == 1
            assert not_closed.out.startswith("segment 1  kept: in use by pid")
            assert "slow reader" in not_closed.out
            assert howdah("prune", "--schema", schema, dsn=dsn).code == 0
            clock.advance(18 * DAY)
            with psycopg.connect(dsn, application_name="slow reader") as reader:
                reader.execute("SELECT count(*) FROM cli_prune.jobs")
                not_dropped = howdah("prune", "--schema", schema, "--tries", "1", dsn=dsn)
            assert not_dropped.code == 1
            assert re.match(rf"segment 1  {STAMP} to {STAMP}  kept: in use by pid", not_dropped.out)
            assert "slow reader" in not_dropped.out
            kept = howdah("prune", "--schema", schema, "--keep", "4w", "--json", dsn=dsn)
            assert (kept.code, kept.out) == (0, "")
            dropped = howdah("prune", "--schema", schema, dsn=dsn)
            assert dropped.code == 0
            assert re.fullmatch(rf"segment 1  {STAMP} to {STAMP}  dropped\n", dropped.out)
            assert not queue.list()


def test_prune_as_json_and_bad_input(dsn: str) -> None:
    with schema_of_its_own(dsn, "cli_prune") as schema, JobQueue(dsn, schema) as queue:
        queue.migrate()
        with TestClock(dsn, schema) as clock:
            failed_job(queue, "x", "broken")
            ended_at = clock.now
            clock.advance(20 * DAY)
            (pruned,) = howdah("prune", "--schema", schema, "--json", dsn=dsn).lines
            ends = {name: datetime.fromisoformat(pruned.pop(name)) for name in ("first_end", "last_end")}
            assert ends == {"first_end": ended_at, "last_end": ended_at}
            assert pruned == {"segment": 1, "dropped": True, "reason": None}
    for argv in (["--keep", "long"], ["--tries", "0"], ["--keep", "-1d"]):
        assert howdah("prune", *argv, dsn=dsn).code == 2
