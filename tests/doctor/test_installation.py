"""A whole installation: healthy, broken in five ways at once, and seen by a role with few rights."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from howdah import InvalidOption, JobQueue
from howdah.doctor import CATALOGUE
from howdah.doctor.examination import checks
from tests.doctor.conftest import Db, codes, run_all
from tests.worker.in_process import until as auntil
from tests.worker.in_process import working

UNCHECKED = {"schema-missing", "server-read-only", "clock-off", "pooler-in-transaction-mode"}
"""What is known before the checks begin."""


@pytest.fixture
def healthy_dsn(own_dsn: str) -> str:
    return own_dsn


def test_with_live_workers_under_load_there_are_no_findings(healthy_dsn: str, db: Db) -> None:
    async def scenario() -> None:
        async with JobQueue(healthy_dsn) as queue, JobQueue(healthy_dsn) as onlooker:

            @queue.job
            async def quick(n: int) -> int:
                if n % 10 == 0:
                    raise ValueError(n)
                return n

            @queue.job(ordered=True)
            async def in_order() -> None:
                await asyncio.sleep(0.01)

            @queue.periodic(every=1)
            @queue.job
            def beat() -> None: ...

            async with working(queue, name="a"), working(queue, name="b", threads=2):
                for _ in range(5):
                    await queue.aenqueue_many("quick", ({"n": n} for n in range(200)), max_attempts=2)
                    await queue.aenqueue("quick", {"n": 1}, delay=3_600)
                    await queue.aenqueue("in_order")
                    diagnosis = await onlooker.adoctor()
                    assert (diagnosis, diagnosis.unseen) == ([], [])
                await auntil(lambda: db.execute("SELECT 1 AS so FROM archive WHERE job_type = 'beat'").fetchone())
                assert await onlooker.adoctor() == []

    asyncio.run(scenario())


def test_five_things_at_once_are_these_five(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.enqueue("mial")
    run_all(
        db,
        [
            "UPDATE live SET run_at = now() - interval '1 hour', created_at = now() - interval '1 hour'",
            "DROP INDEX live_expiry",
            "SELECT register_worker('gone', gen_random_uuid())",
            "UPDATE workers SET heartbeat_at = now() - interval '1 hour'",
            "ALTER TABLE archive_counts SET UNLOGGED",
        ],
    )
    with psycopg.connect(healthy_dsn) as forgotten:
        forgotten.execute("SELECT pg_current_xact_id()")
        assert codes(queue, patience=timedelta(0), ignore=()) == [
            "index-missing",
            "table-unlogged",
            "type-unhandled",
            "xmin-held",
            "worker-dead",
        ]
        asked = queue.doctor(only=["xmin-held", "worker-dead"], ignore=["worker-dead"], patience=0)
        assert [finding.code for finding in asked] == ["xmin-held"]


def test_for_a_role_with_few_rights_the_diagnosis_lists_what_it_could_not_see(healthy_dsn: str, db: Db) -> None:
    db.execute("CREATE ROLE passer_by LOGIN")
    try:
        with JobQueue(make_conninfo(healthy_dsn, user="passer_by")) as queue:
            diagnosis = queue.doctor()
            assert diagnosis == []
            unseen = {code for each in diagnosis.unseen for code in each.codes}
            assert {"type-unhandled", "job-orphaned", "worker-dead", "xmin-held"} <= unseen
            assert diagnosis.healthy is None
            assert any(each.remedy == "GRANT pg_read_all_stats TO passer_by;" for each in diagnosis.unseen)
            assert any("GRANT howdah_viewer TO passer_by;" in each.remedy for each in diagnosis.unseen)
            assert all(each.because and each.remedy for each in diagnosis.unseen)

            run_all(
                db,
                [
                    "GRANT USAGE ON SCHEMA howdah TO passer_by",
                    "GRANT SELECT ON ALL TABLES IN SCHEMA howdah TO passer_by",
                    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA howdah TO passer_by",
                    "GRANT pg_read_all_stats TO passer_by",
                    "DROP FUNCTION snooze",
                ],
            )
            diagnosis = queue.doctor()
            # The comparison needs the right to make a schema; the names can be compared without it.
            assert [each.codes for each in diagnosis.unseen] == [("schema-drift",)]
            assert [(finding.code, finding.cause) for finding in diagnosis] == [("schema-drift", "function snooze")]
    finally:
        run_all(db, ["DROP OWNED BY passer_by", "DROP ROLE passer_by"])


def test_a_viewer_finds_what_the_owner_finds(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.migrate(roles=True)
    db.execute("CREATE ROLE watcher LOGIN IN ROLE howdah_viewer, pg_read_all_stats")
    try:
        for _ in range(20):
            queue.enqueue("work")
            queue.fail(queue.claim(["work"])[0], "broken", give_up=True)
        queue.enqueue("mial")
        queue.enqueue_many("held", ({} for _ in range(4)))
        queue.claim(["held"], batch_size=2, worker_id="gone")
        queue.claim(["held"], batch_size=2, worker_id="slow", lease=60)
        queue.schedules.set("nightly", "report", cron="0 3 * * *")
        ago, ours = "now() - interval '1 hour'", "own_write = NOT own_write"
        run_all(
            db,
            [
                f"UPDATE live SET run_at = {ago}, created_at = {ago}, claimed_at = CASE WHEN status = 'claimed' THEN {ago} END, {ours}",
                f"UPDATE live SET lease_until = {ago}, {ours} WHERE worker_id = 'slow'",
                f"UPDATE live SET lease_until = NULL, {ours} WHERE worker_id = 'gone'",
                "UPDATE segments SET opened_at = now() - interval '30 days'",
                f"UPDATE schedules SET next_run_at = {ago}",
                "SELECT register_worker('idle', gen_random_uuid())",
                f"UPDATE workers SET heartbeat_at = {ago}",
            ],
        )
        with JobQueue(make_conninfo(healthy_dsn, user="watcher")) as watcher:
            seen = codes(watcher)
            assert seen == codes(queue)
            assert {
                "type-unhandled",
                "job-orphaned",
                "lease-passed",
                "type-failing",
                "schedule-overdue",
                "worker-dead",
                "segments-late",
            } <= set(seen)
            # A job that was claimed lately shows that its type moves, though no worker holds it now.
            queue.fail(queue.claim(["mial"])[0], "broken", delay=0)
            db.execute(f"UPDATE live SET run_at = {ago}, {ours} WHERE job_type = 'mial'".encode())
            assert "type-unhandled" not in codes(watcher)
    finally:
        db.execute("DROP ROLE watcher")


def test_every_finding_that_is_listed_is_looked_for() -> None:
    looked_for = {code for check in checks() for code in check.codes}
    assert looked_for | UNCHECKED == set(CATALOGUE)
    assert not looked_for & UNCHECKED


def test_codes_that_are_none() -> None:
    with JobQueue("host=nowhere") as queue:
        with pytest.raises(InvalidOption, match="did you mean xmin-held"):
            queue.doctor(only=["xmin-hold"])
        with pytest.raises(InvalidOption, match="howdah doctor --list"):
            queue.doctor(ignore=["???"])
        with pytest.raises(InvalidOption, match="patience"):
            queue.doctor(patience=-1)
