"""``health``: which workers are live, which are ready, and the exit code."""

from __future__ import annotations

import asyncio
import socket
import uuid
from typing import Any

import psycopg
import pytest

from howdah import JobQueue, WorkerInfo
from tests.cli.runner import howdah
from tests.conftest import Db
from tests.worker.processes import until

HERE = socket.gethostname()


def register(db: Db, name: str, *, host: str = HERE, age: float = 0, claimed: bool = True, **columns: Any) -> None:
    """A worker whose last heartbeat is so many seconds old."""
    db.execute(
        "SELECT register_worker(p_worker_id => %s, p_incarnation => %s, p_host => %s, p_pid => 17, p_version => '1.0',"
        " p_capacity => 50, p_job_types => '{mail}', p_lease => '15 s')",
        (name, uuid.uuid4(), host),
    )
    db.execute(
        "UPDATE workers SET heartbeat_at = heartbeat_at - make_interval(secs => %s), running = 3, loop_lag = '2 ms',"
        " last_claim_at = CASE WHEN %s THEN started_at - interval '2 minutes' END WHERE worker_id = %s",
        (age, claimed, name),
    )


def test_the_verb_returns_the_values_of_the_last_heartbeat(db: Db, queue: JobQueue) -> None:
    register(db, "b", age=20, claimed=False)
    register(db, "a")
    alive, dead = queue.workers()
    assert (alive.worker_id, alive.alive, alive.ready) == ("a", True, True)
    assert (alive.host, alive.pid, alive.version, alive.capacity, alive.running) == (HERE, 17, "1.0", 50, 3)
    assert (alive.job_types, alive.lease.total_seconds()) == (["mail"], 15)
    assert (dead.worker_id, dead.alive, dead.ready) == ("b", False, False)
    assert 20 <= dead.age < 600
    assert 0 <= alive.age < 600
    assert isinstance(alive, WorkerInfo)

    async def awaited() -> list[WorkerInfo]:
        async with JobQueue(queue.dsn) as other:
            return await other.aworkers()

    assert [each.worker_id for each in asyncio.run(awaited())] == ["a", "b"]


def test_a_line_for_each_worker_of_this_host(dsn: str, db: Db) -> None:
    register(db, "mail")
    register(db, "reports", age=3_600)
    register(db, "fresh", claimed=False)
    register(db, "far", host="elsewhere")
    outcome = howdah("health", dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    header, *lines = outcome.out.splitlines()
    assert header.split() == ["worker", "state", "running", "last", "claim", "heartbeat", "loop", "lag"]
    rows = {line.split()[0]: line for line in lines}
    assert sorted(rows) == ["fresh", "mail", "reports"]
    assert "alive, ready" in rows["mail"]
    assert "3/50" in rows["mail"]
    assert "2m ago" in rows["mail"]
    assert "2ms" in rows["mail"]
    assert "dead" in rows["reports"]
    assert "60m ago" in rows["reports"] or "1h ago" in rows["reports"]
    assert "alive, not ready" in rows["fresh"]
    assert "never" in rows["fresh"]


@pytest.mark.parametrize("argv", [[], ["--host", HERE], ["--json"]])
def test_no_worker_on_this_host_exits_with_1_and_a_message(dsn: str, db: Db, argv: list[str]) -> None:
    register(db, "far", host="elsewhere")
    outcome = howdah("health", *argv, dsn=dsn)
    assert outcome.code == 1
    assert f"no worker of host {HERE} is known" in outcome.err + outcome.out
    for elsewhere in (["--any"], ["--host", "elsewhere"], ["--worker", "far"]):
        assert howdah("health", *elsewhere, dsn=dsn).code == 0


def test_one_live_worker_is_enough_unless_they_are_named(dsn: str, db: Db) -> None:
    register(db, "mail")
    register(db, "reports", age=60)
    assert howdah("health", dsn=dsn).code == 0
    assert howdah("health", "--worker", "mail", dsn=dsn).code == 0
    outcome = howdah("health", "--worker", "mail", "--worker", "reports", dsn=dsn)
    assert outcome.code == 1
    assert "reports is dead: its last heartbeat was 60s ago" in outcome.err or "1m ago" in outcome.err
    unknown = howdah("health", "--worker", "nobody", dsn=dsn)
    assert (unknown.code, unknown.out) == (1, "")
    assert "no worker named nobody is known" in unknown.err


def test_a_name_stands_for_all_processes_of_a_worker(dsn: str, db: Db) -> None:
    register(db, "mail.1")
    register(db, "mail.2")
    register(db, "mail.old", age=60)
    assert howdah("health", "--worker", "mail", dsn=dsn).code == 0
    register(db, "mail.2", age=60)
    outcome = howdah("health", "--worker", "mail", dsn=dsn)
    assert outcome.code == 1
    assert "mail.2 is dead" in outcome.err


def test_ready_asks_for_more_than_alive(dsn: str, db: Db) -> None:
    register(db, "mail", claimed=False)
    assert howdah("health", dsn=dsn).code == 0
    for argv, reason in (([], f"no worker of host {HERE} is ready"), (["--worker", "mail"], "mail is not ready")):
        outcome = howdah("health", "--ready", *argv, dsn=dsn)
        assert outcome.code == 1
        assert reason in outcome.err
    register(db, "mail")
    assert howdah("health", "--ready", dsn=dsn).code == 0


def test_the_age_of_a_heartbeat_can_be_judged_otherwise(dsn: str, db: Db) -> None:
    register(db, "mail", age=600)
    assert howdah("health", dsn=dsn).code == 1
    assert howdah("health", "--max-age", "1h", dsn=dsn).code == 0
    register(db, "mail", age=10)
    assert howdah("health", "--max-age", "5s", dsn=dsn).code == 1
    assert howdah("health", "--max-age", "soon", dsn=dsn).code == 2


def test_for_programs(dsn: str, db: Db) -> None:
    register(db, "mail")
    (answer,) = howdah("health", "--json", dsn=dsn).lines
    assert (answer["healthy"], answer["problem"]) == (True, None)
    (worker,) = answer["workers"]
    assert (worker["worker_id"], worker["alive"], worker["ready"], worker["lease"]) == ("mail", True, True, 15)


def test_a_session_that_keeps_locks_of_the_queue_is_named_and_kills_no_container(dsn: str, db: Db) -> None:
    register(db, "mail")
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock('howdah.live'::regclass::oid::int, 3)")
        # For a moment it may be one of ours, as a producer is.
        until(lambda: howdah("health", dsn=dsn).err, "it is not")
        outcome = howdah("health", dsn=dsn)
        assert (outcome.code, len(outcome.out.splitlines())) == (0, 2)
        assert f"SELECT pg_terminate_backend({holder.info.backend_pid});" in outcome.err
        (answer,) = howdah("health", "--json", dsn=dsn).lines
        assert answer["healthy"] is True
        assert f"pid {holder.info.backend_pid} " in answer["warnings"][0]
    assert howdah("health", dsn=dsn).err == ""


def test_an_unreachable_database_is_an_outage_and_no_dead_worker() -> None:
    assert howdah("health", dsn="postgresql://127.0.0.1:1/jobs").code == 4
