"""The schema and its tables."""

from __future__ import annotations

import psycopg
import pytest

from howdah import JobQueue
from howdah.db import statements
from howdah.doctor import storage
from howdah.doctor.storage import expected_indexes
from tests.doctor.conftest import Db, codes, found, only_finding, run_all
from tests.worker.processes import until


@pytest.fixture
def healthy_dsn(own_dsn: str) -> str:
    return own_dsn


def test_a_schema_that_is_not_there(healthy_dsn: str) -> None:
    with JobQueue(healthy_dsn, "elsewhere") as queue:
        finding = only_finding(queue, "schema-missing")
    assert finding.remedy.startswith("howdah migrate --schema elsewhere")


@pytest.mark.parametrize(
    ("change", "code", "remedy"),
    [
        ("version = version - 1", "schema-outdated", "howdah migrate"),
        ("digest = ''", "schema-outdated", "howdah migrate"),
        ("version = version + 1", "schema-newer", "pip install --upgrade howdah"),
        ("digest = '', howdah_version = '99.0'", "schema-newer", "pip install --upgrade howdah"),
    ],
)
def test_a_schema_of_another_version(db: Db, queue: JobQueue, change: str, code: str, remedy: str) -> None:
    db.execute(f"UPDATE schema_version SET {change}".encode())
    assert only_finding(queue, code).remedy.startswith(remedy)


def test_a_function_that_was_changed_by_hand(db: Db, queue: JobQueue) -> None:
    db.execute("ALTER FUNCTION snooze SET work_mem = '1MB'")
    finding = only_finding(queue, "schema-drift", ignore=())
    assert "function snooze is not what this Howdah installs" in finding.what
    assert finding.remedy.startswith("howdah migrate --reinstall")
    queue.migrate()
    assert codes(queue, ignore=()) == ["schema-drift"]
    queue.migrate(reinstall=True)
    assert codes(queue, ignore=()) == []


def test_views_and_triggers_that_were_changed_by_hand_are_made_anew(db: Db, queue: JobQueue) -> None:
    run_all(
        db,
        [
            "DROP TRIGGER plain_delete ON jobs",
            "CREATE OR REPLACE VIEW live_jobs AS SELECT * FROM (" + view_source(db, "live_jobs") + ") AS more",
            "DROP FUNCTION recover",
        ],
    )
    finding = only_finding(queue, "schema-drift", ignore=())
    assert finding.remedy.startswith("howdah migrate --reinstall")
    queue.migrate(reinstall=True)
    assert codes(queue, ignore=()) == []


def view_source(db: Db, view: str) -> str:
    row = db.execute("SELECT rtrim(pg_get_viewdef(%s::regclass), ';') AS source", (view,)).fetchone()
    assert row is not None
    return str(row["source"])


def test_what_a_check_needs_and_does_not_find_comes_back_by_the_remedy(db: Db, queue: JobQueue) -> None:
    db.execute("DROP FUNCTION lease_clock")
    diagnosis = queue.doctor()
    assert [finding.code for finding in diagnosis] == ["schema-drift"]
    assert {code for each in diagnosis.unseen for code in each.codes} >= {"type-unhandled", "worker-dead"}
    assert all(each.remedy.startswith("howdah migrate --reinstall") for each in diagnosis.unseen)
    queue.migrate(reinstall=True)
    assert codes(queue, ignore=()) == []


def test_a_table_that_was_changed_by_hand(db: Db, queue: JobQueue) -> None:
    run_all(db, ["ALTER TABLE live ALTER attempts DROP DEFAULT", "ALTER TABLE types DROP COLUMN max_crashes"])
    finding = only_finding(queue, "schema-drift", ignore=())
    assert finding.cause == "column live.attempts, column types.max_crashes"
    assert "howdah migrate --check" in finding.remedy


@pytest.mark.parametrize("index", ["live_lane", "live_key", "segments_open"])
def test_an_index_that_is_missing_is_made_again_by_the_remedy(db: Db, queue: JobQueue, index: str) -> None:
    db.execute(f"DROP INDEX {index}".encode())
    finding = only_finding(queue, "index-missing")
    assert finding.cause == f"index howdah.{index}"
    assert "CONCURRENTLY" in finding.remedy
    db.execute(finding.remedy.encode())
    assert codes(queue, ignore=()) == []


def test_an_index_that_is_not_as_it_was_made_is_exchanged_by_the_remedy(db: Db, queue: JobQueue) -> None:
    run_all(db, ["DROP INDEX live_key", "CREATE INDEX live_key ON live (job_type, key) WHERE key IS NOT NULL"])
    finding = only_finding(queue, "schema-drift", ignore=())
    assert "index live_key is not what this Howdah installs" in finding.what
    run_all(db, finding.remedy.split("; "))
    assert codes(queue, ignore=()) == []


def test_a_foreign_index_is_no_part_of_the_queue(db: Db, queue: JobQueue) -> None:
    db.execute("CREATE UNIQUE INDEX of_theirs ON live (job_type)")
    finding = only_finding(queue, "schema-drift", ignore=())
    assert "index of_theirs is not Howdah's" in finding.what
    assert "howdah migrate --check" in finding.remedy


def test_every_index_that_is_installed_is_looked_for(db: Db) -> None:
    """Those of segments come and go with them."""
    rows = db.execute(
        "SELECT x.relname FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid"
        " WHERE x.relnamespace = 'howdah'::regnamespace AND NOT i.indisprimary"
        " AND i.indrelid NOT IN ('archive_open'::regclass, 'events_open'::regclass,"
        " 'archive_next'::regclass, 'events_next'::regclass)"
    ).fetchall()
    assert sorted(row["relname"] for row in rows) == expected_indexes()


def test_indexes_whose_making_has_failed(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.enqueue_many("work", ({} for _ in range(2)))
    with pytest.raises(psycopg.errors.UniqueViolation):
        db.execute("CREATE UNIQUE INDEX CONCURRENTLY of_theirs ON live (job_type)")
    finding = only_finding(queue, "index-invalid")
    assert finding.remedy == "DROP INDEX CONCURRENTLY howdah.of_theirs;"
    db.execute(finding.remedy.encode())
    db.execute("DROP INDEX live_held")
    made = statements.source("tables/0001_jobs").split("CREATE INDEX live_held")[1].split(";")[0]
    with psycopg.connect(healthy_dsn) as other, psycopg.connect(healthy_dsn, autocommit=True) as maker:
        # It waits for the transactions that were there before it, and loses its patience.
        other.execute("LOCK TABLE howdah.live IN ROW EXCLUSIVE MODE")
        maker.execute("SET lock_timeout = '1s'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            maker.execute(f"CREATE INDEX CONCURRENTLY live_held{made}".encode())
    finding = only_finding(queue, "index-invalid", ignore=())
    assert finding.remedy == "REINDEX INDEX CONCURRENTLY howdah.live_held;"
    db.execute(finding.remedy.encode())
    assert codes(queue) == []


def test_a_table_that_a_crash_would_empty(db: Db, queue: JobQueue) -> None:
    db.execute("ALTER TABLE live SET UNLOGGED")
    finding = only_finding(queue, "table-unlogged")
    assert "ALTER TABLE howdah.live SET LOGGED;" in finding.remedy


def test_a_table_that_autovacuum_leaves_out(db: Db, queue: JobQueue) -> None:
    db.execute("ALTER TABLE workers SET (autovacuum_enabled = false)")
    (first, second) = found(queue, ignore=())
    assert (first.code, second.code) == ("schema-drift", "autovacuum-off")
    db.execute(second.remedy.encode())
    assert codes(queue, ignore=()) == []


def test_dead_rows_that_vacuum_has_not_removed(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    queue.enqueue_many("work", ({} for _ in range(12_000)))
    db.execute("DELETE FROM live")
    counted = "SELECT n_dead_tup AS n FROM pg_stat_all_tables WHERE relid = 'howdah.live'::regclass"
    until(lambda: (db.execute(counted).fetchone() or {"n": 0})["n"] >= 12_000, "they are counted")
    assert codes(queue) == []
    finding = only_finding(queue, "vacuum-behind", patience=0)
    assert "howdah.live has 12,000 dead rows beside 0 live ones" in finding.what
    db.execute(finding.remedy.partition(";")[0].encode())
    until(lambda: not codes(queue, patience=0), "the vacuum is counted")


def test_unused_room_of_the_live_table(db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LARGE", 2**18)
    queue.enqueue_many("work", ({"n": n} for n in range(5_000)))
    assert codes(queue) == [], "there are jobs in it"
    # The last one keeps the file from being cut off behind it.
    last = queue.enqueue("last", delay=3_600)
    run_all(db, ["DELETE FROM live WHERE job_type = 'work'", "VACUUM live"])
    finding = only_finding(queue, "live-bloated")
    assert "howdah.live takes 1 MB for 1 job" in finding.what
    assert finding.remedy.startswith("VACUUM FULL howdah.live;")
    db.execute(finding.remedy.partition(";")[0].encode())
    assert codes(queue) == []
    assert queue.get(last.id).status == "pending"


def test_indexes_are_made_small_again_while_the_queue_runs(
    db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LARGE", 2**18)
    queue.enqueue_many("work", ({} for _ in range(5_000)))
    db.execute("DELETE FROM live")
    # The heap is cut off, because nothing is left at its end; of indexes, pages are only used again.
    db.execute("VACUUM (TRUNCATE) live")
    finding = only_finding(queue, "live-bloated")
    assert finding.remedy.startswith("REINDEX TABLE CONCURRENTLY howdah.live;")
    db.execute(finding.remedy.partition(";")[0].encode())
    assert codes(queue) == []


def test_room_that_a_segment_of_the_archive_has_needed_is_needed_again(
    db: Db, queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "LARGE", 2**18)
    queue.enqueue_many("work", ({"n": n} for n in range(3_000)))
    queue.enqueue("last", delay=3_600)
    jobs = queue.claim(["work"], batch_size=3_000)
    db.execute(
        "SELECT count(*) FROM complete(p_ids => %s, p_tokens => %s)", ([j.id for j in jobs], [j.token for j in jobs])
    )
    db.execute("VACUUM live")
    size = db.execute("SELECT pg_relation_size('live') AS octets").fetchone()
    assert size is not None
    assert size["octets"] > 2**18
    assert codes(queue) == []


def test_a_table_that_cannot_be_frozen(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    with psycopg.connect(healthy_dsn) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT")
        reader.execute("SELECT count(*) FROM howdah.live")
        db.execute("SET synchronous_commit = off")
        db.execute("DO $$ BEGIN FOR n IN 1 .. 210000 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$")
        findings = found(queue, patience=0)
        assert [finding.code for finding in findings] == ["wraparound-near", "xmin-held"]
        assert findings[0].details["transactions"] > 200_000
    for name in ("healthy", "postgres"):
        with psycopg.connect(healthy_dsn, dbname=name, autocommit=True) as conn:
            conn.execute("VACUUM (FREEZE)")
    db.execute("VACUUM (FREEZE)")
    assert codes(queue) == []


def end_one(queue: JobQueue) -> None:
    queue.enqueue("work")
    (job,) = queue.claim(["work"])
    queue.complete(job)


def test_a_segment_that_was_not_closed_when_it_was_time(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    open_for = "UPDATE segments SET opened_at = now() - make_interval(hours => %s)"
    db.execute(open_for, (1_000,))
    assert codes(queue) == [], "nothing has ended"
    end_one(queue)
    db.execute(open_for, (2 * 28 - 1,))
    assert codes(queue) == [], "workers do not look all the time"
    db.execute(open_for, (2 * 28 + 2,))
    finding = only_finding(queue, "segments-late")
    assert finding.severity == "warning"
    assert "the open segment of the archive should have been closed 30h ago" in finding.what
    assert "no worker has run lately" in finding.cause
    assert finding.remedy.startswith("howdah prune")
    with psycopg.connect(healthy_dsn, application_name="forgotten report") as reader:
        reader.execute("SELECT count(*) FROM howdah.jobs")
        assert [segment.dropped for segment in queue.prune(tries=1)] == [False]
        finding = only_finding(queue, "segments-late")
        assert finding.cause == f"pid {reader.info.backend_pid} (forgotten report)"
    assert queue.prune() == []
    assert codes(queue) == []


def test_a_segment_that_was_not_dropped_when_it_was_time(healthy_dsn: str, db: Db, queue: JobQueue) -> None:
    last_end = "UPDATE segments SET last_end = now() - make_interval(hours => %s) WHERE closed_at IS NOT NULL"
    for _ in range(2):
        end_one(queue)
        run_all(db, ["SELECT rotate('0')", "SELECT bound_segments()"])
    assert codes(queue) == []
    db.execute(last_end, (14 * 24,))
    assert codes(queue) == [], "workers do not look all the time"
    db.execute(last_end, (14 * 24 + 1,))
    finding = only_finding(queue, "segments-late")
    assert "2 segments should have been dropped" in finding.what
    assert "closed" not in finding.what
    assert "no worker has run lately" in finding.cause
    assert finding.details["overdue"] == 2
    with psycopg.connect(healthy_dsn, application_name="forgotten report") as reader:
        reader.execute("SELECT count(*) FROM howdah.archive_1")
        assert [segment.dropped for segment in queue.prune(tries=1)] == [False, True]
        finding = only_finding(queue, "segments-late")
        assert "1 segment should have been dropped" in finding.what
        assert finding.cause == f"pid {reader.info.backend_pid} (forgotten report)"
    assert [segment.dropped for segment in queue.prune()] == [True]
    assert codes(queue) == []


def test_segments_are_late_by_the_setting(db: Db, queue: JobQueue) -> None:
    end_one(queue)
    run_all(db, ["SELECT rotate('0')", "SELECT bound_segments()"])
    end_one(queue)
    run_all(
        db,
        [
            "UPDATE segments SET opened_at = now() - interval '2 hours'",
            "UPDATE segments SET last_end = now() - interval '2 hours' WHERE closed_at IS NOT NULL",
        ],
    )
    assert codes(queue) == []
    db.execute("UPDATE settings SET archive_retention = '1 hour'")
    finding = only_finding(queue, "segments-late")
    assert "should have been closed 105m ago and 1 segment should have been dropped" in finding.what
    queue.prune()
    assert codes(queue) == []


def test_segments_are_compared_with_the_open_one_of_a_fresh_installation(db: Db, queue: JobQueue) -> None:
    for _ in range(3):
        end_one(queue)
        run_all(db, ["SELECT rotate('0')", "SELECT bound_segments()"])
    assert codes(queue, ignore=()) == []
    run_all(
        db,
        [
            "DROP INDEX archive_1_id",
            "ALTER TABLE archive_2 ADD COLUMN mine int",
            "ALTER TABLE archive_3 DISABLE TRIGGER archive_deleted",
            "DROP INDEX events_4_xid",
        ],
    )
    finding = only_finding(queue, "schema-drift", ignore=())
    assert set(finding.cause.split(", ")) == {
        "index archive_1.id",
        "column archive_2.mine",
        "trigger archive_3.archive_deleted",
        "index events_open.xid",
    }
