"""A value that Howdah never writes, in any column that holds JSON, spoils nothing for other jobs and workers.

A newer version may have written it, a restored dump, or a user by SQL.
"""

from __future__ import annotations

import json
import uuid
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.types.json import Jsonb

from howdah import JobQueue
from tests.cli.runner import howdah
from tests.conftest import EMPTY, Db
from tests.properties.examples import examples

NUMBERS = st.one_of(st.integers(), st.sampled_from([10**30, -1, 0, 1, 2**31, 2**63, 1e300, 1.5, 10**400, 1e-320]))
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, st.text("ab1-:", max_size=5), st.just("2026-02-30T25:00:00"))
KEYS = st.sampled_from(
    [
        "x",
        "per_second",
        "run",
        "wait",
        "token",
        "at",
        "seq",
        "stalls",
        "percent",
        "points",
        "told",
        "step",
        "gap",
        "first",
        "eta",
        "attempt",
        "kind",
        "error",
        "delay",
        "factor",
        "worker",
        "started_at",
        "run_at",
        "schedules",
        "message",
        "redacted",
        "moved",
    ]
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=12
)
# Nearly right, which is worse.
REPORT = st.fixed_dictionaries(
    {
        "token": st.just(1) | JSON,
        "at": NUMBERS | JSON,
        "attempt": st.just(1) | JSON,
        "stalls": NUMBERS | JSON,
        "seq": NUMBERS | JSON,
    },
    optional={
        "points": st.lists(st.lists(NUMBERS | JSON, max_size=4), max_size=45),
        "told": st.lists(NUMBERS | JSON, max_size=3),
    },
)
ERRORS = st.lists(
    st.fixed_dictionaries({"attempt": NUMBERS | JSON, "at": JSON, "kind": JSON, "error": JSON}) | JSON, max_size=3
)
PACE = st.fixed_dictionaries(
    {"x": st.fixed_dictionaries({"per_second": NUMBERS | JSON}, optional={"run": JSON, "newer": JSON}) | JSON}
)
POLICY = st.fixed_dictionaries(
    {"kind": st.sampled_from(["none", "fixed", "exponential", "linear"]) | JSON, "delay": NUMBERS | JSON},
    optional={"max": NUMBERS | JSON},
)
COLUMNS = {
    "workers.throughput": PACE | JSON,
    "workers.meta": JSON,
    "live.progress_report": REPORT | JSON,
    "live.meta": JSON,
    "live.errors": ERRORS | JSON,
    "live.checkpoint": JSON,
    "live.retry_policy": POLICY | JSON,
    "live.result": JSON,
    "events.data": JSON,
    "types.retry_policy": POLICY | JSON,
    "schedules.data": JSON,
    "schedules.retry_policy": POLICY | JSON,
}


def scene(db: Db, queue: JobQueue) -> dict[str, uuid.UUID]:
    """Two workers, and jobs in each state; of each state one that will be spoilt, and one that will not."""
    for name in ("good", "bad"):
        db.execute("SELECT register_worker(%s, gen_random_uuid(), '1 hour', ARRAY['x'], p_capacity => 2)", (name,))
    jobs = {
        f"{status} {which}": queue.enqueue("x").id
        for status in ("running", "failing", "stalled", "pending")
        for which in ("good", "bad")
    }
    held = queue.claim(["x"], 6)
    for job in held:
        queue.start(job)
        queue.progress(job, 10)
        queue.event(job, "said", {"what": 1})
    db.execute(
        'SELECT declare_type(\'x\', p_fail_stalled => true, p_retry_policy => \'{"kind": "fixed", "delay": 5}\')'
    )
    queue.schedules.set("good", "x", cron="0 3 * * *")
    queue.schedules.set("bad", "x", cron="0 3 * * *")
    return jobs


def spoil(db: Db, column: str, value: Any, jobs: dict[str, uuid.UUID]) -> None:
    table, name = column.split(".")
    bad = [id for job, id in jobs.items() if job.endswith("bad")]
    where, among = {
        "workers": ("worker_id = 'bad'", None),
        "live": ("id = ANY (%s)", bad),
        "events": ("job_id = ANY (%s)", bad),
        "types": ("job_type = 'x'", None),
        "schedules": ("name = 'bad'", None),
    }[table]
    own = ", own_write = NOT own_write" if table == "live" else ""
    db.execute(
        f"UPDATE {table} SET {name} = %s{own} WHERE {where}".encode(), [Jsonb(value), *([among] if among else [])]
    )


def look(queue: JobQueue, jobs: dict[str, uuid.UUID]) -> None:
    """Everything that reads."""
    assert {worker.worker_id for worker in queue.workers()} == {"good", "bad"}
    assert {job.id for job in queue.list()} >= set(jobs.values())
    assert {job.id for job in queue.list(brief=True)} >= set(jobs.values())
    assert queue.stats()["x"].pending + queue.stats()["x"].running >= 2
    for id in jobs.values():
        job = queue.get(id)
        repr((job.record, job.errors, job.meta, job.retry_policy, job.resumed))
        queue.queue_position(id)
        queue.events(id)
        watching = queue.watch(id)
        next(watching)
        watching.close()
    assert {schedule.name for schedule in queue.schedules.list()} == {"good", "bad"}
    assert queue.doctor(only=["type-stuck", "schedule-left-code", "worker-dead", "job-orphaned"]).unseen == []


def go_on(db: Db, queue: JobQueue, jobs: dict[str, uuid.UUID]) -> None:
    """Everything that writes: for those that were spoilt too."""
    tokens = {row["id"]: row["token"] for row in db.execute("SELECT id, token FROM live").fetchall()}

    def fence(*names: str) -> tuple[list[uuid.UUID], list[int]]:
        ids = [jobs[f"{name} {which}"] for name in names for which in ("good", "bad")]
        return ids, [tokens[id] for id in ids]

    ids, held = fence("running")
    told = "SELECT seq FROM record_events(%s, %s, '{e,e}', p_numbers => '{7,7}')"
    assert len(db.execute(told.encode(), (ids, held)).fetchall()) == 2
    for percent in (20, 30):
        assert (
            len(
                db.execute("SELECT progress(%s, %s, ARRAY[%s, %s]::float8[])", (ids, held, percent, percent)).fetchall()
            )
            == 2
        )
    assert all(
        row["checkpoint"]
        for id, token in zip(ids, held, strict=True)
        for row in db.execute("SELECT checkpoint(%s, %s, '1')", (id, token))
    )
    assert len(db.execute("SELECT complete(%s, %s)", (ids, held)).fetchall()) == 2
    assert len(db.execute("SELECT fail(%s, %s, '{no,no}')", fence("failing")).fetchall()) == 2
    db.execute(
        "UPDATE live SET deadline_at = now() - interval '1 s', own_write = NOT own_write WHERE status = 'running'"
    )
    assert {recovered.id for recovered in queue.recover()} == set(fence("stalled")[0])
    assert len(queue.claim(["x"], 10)) >= 2
    ended, _ = fence("running")
    assert len(db.execute("SELECT retry(%s)", (ended,)).fetchall()) == 2


@pytest.mark.parametrize("column", COLUMNS)
def test_what_is_not_understood_in_one_place_spoils_nothing_elsewhere(db: Db, queue: JobQueue, column: str) -> None:
    @settings(max_examples=examples(24))
    @given(COLUMNS[column])
    def check(value: Any) -> None:
        db.execute(EMPTY)
        jobs = scene(db, queue)
        spoil(db, column, value, jobs)
        look(queue, jobs)
        go_on(db, queue, jobs)
        look(queue, {name: id for name, id in jobs.items() if name.endswith("good")})

    check()


BAD_PACES = [
    '"fast"',
    "[1]",
    '{"x": 1}',
    '{"x": {"per_second": "many"}}',
    '{"x": {"per_second": -1}}',
    '{"x": {"per_second": 1, "run": null}}',
]


@pytest.mark.parametrize("pace", BAD_PACES)
def test_a_malformed_throughput_is_refused_and_a_stored_one_does_no_harm(
    db: Db, queue: JobQueue, dsn: str, pace: str
) -> None:
    beat = (
        "SELECT heartbeat('bad', w.incarnation, p_throughput => %s::jsonb) FROM workers AS w WHERE w.worker_id = 'bad'"
    )
    jobs = scene(db, queue)
    with pytest.raises(psycopg.Error, match="throughput must map") as raised:
        db.execute(beat.encode(), (pace,))
    assert raised.value.sqlstate == "JQ001"
    db.execute("UPDATE workers SET throughput = %s WHERE worker_id = 'bad'", (pace,))
    db.execute(
        'UPDATE workers SET last_claim_at = now(), throughput = \'{"x": {"per_second": 2, "newer": {}}}\' WHERE worker_id = \'good\''
    )
    assert {worker.worker_id: dict(worker.throughput) for worker in queue.workers()}["good"]["x"].per_second == 2
    assert howdah("health", "--worker", "good", dsn=dsn).code == 0
    placed = queue.queue_position(jobs["pending bad"])
    assert placed is not None
    assert placed.per_second in (2, 3)  # what can be read of it counts


def test_what_a_newer_worker_measures_besides_is_kept(db: Db, queue: JobQueue) -> None:
    scene(db, queue)
    pace = json.dumps({"x": {"per_second": 2, "run": 0.1, "wait": 0.2, "percentiles": {"p99": [1, 2]}}})
    db.execute(
        "SELECT heartbeat('bad', w.incarnation, p_throughput => %s::jsonb) FROM workers AS w WHERE w.worker_id = 'bad'",
        (pace,),
    )
    assert {worker.worker_id: worker.throughput for worker in queue.workers()}["bad"]["x"].wait == 0.2


@pytest.mark.parametrize(
    "call",
    [
        "heartbeat('bad', w.incarnation, p_loop_lag => '170000000 years')",
        "heartbeat('bad', w.incarnation, p_running => -5)",
        "register_worker('bad', w.incarnation, p_meta => '[1]')",
        "register_worker('bad', w.incarnation, p_capacity => -2147483648)",
        "register_worker('bad', w.incarnation, p_job_types => '{x,NULL}')",
        "register_worker('bad', w.incarnation, p_job_types => '{{x,y},{z,z}}')",
        "enqueue('x', p_meta => '\"tag\"')",
        "enqueue_many('x', ARRAY['1']::jsonb[], p_meta => '7')",
        "enqueue('x', p_retry_policy => '{\"kind\": \"newer\"}')",
        "declare_type('x', p_retry_policy => '[]')",
    ],
)
def test_what_would_not_be_understood_is_refused_at_the_door(db: Db, queue: JobQueue, call: str) -> None:
    scene(db, queue)
    with pytest.raises(psycopg.Error, match=r"\w") as raised:
        db.execute(f"SELECT {call} FROM workers AS w WHERE w.worker_id = 'bad'".encode())
    assert raised.value.sqlstate == "JQ001"


def test_a_pace_too_small_for_a_float_is_a_slow_one(db: Db, queue: JobQueue) -> None:
    jobs = scene(db, queue)
    pace = '{"x": {"per_second": 1e-400, "run": 1e-400}}'
    db.execute(
        "SELECT heartbeat('bad', w.incarnation, p_throughput => %s::jsonb) FROM workers AS w WHERE w.worker_id = 'bad'",
        (pace,),
    )
    placed = queue.queue_position(jobs["pending bad"])
    assert placed is not None
    assert placed.per_second is not None
    assert 0 < placed.per_second < 1e-200


@pytest.mark.parametrize("number", [10**400, 10**4_000, 1e-320])
@pytest.mark.parametrize("name", ["at", "stalls", "percent"])
def test_a_number_beyond_all_floats_in_a_report_does_not_break_the_list(
    db: Db, queue: JobQueue, name: str, number: float
) -> None:
    jobs = scene(db, queue)
    bad = jobs["running bad"]
    report = {"at": 1, "stalls": 1, name: number}
    statement = "UPDATE live SET progress_report = progress_report || %s, own_write = NOT own_write WHERE id = %s"
    db.execute(statement, (Jsonb(report), bad))
    look(queue, jobs)


def test_types_of_a_worker_that_are_none_are_left_out(db: Db, queue: JobQueue) -> None:
    scene(db, queue)
    db.execute("UPDATE workers SET job_types = '{x,NULL}' WHERE worker_id = 'bad'")
    assert [worker.job_types for worker in queue.workers()] == [["x"], ["x"]]


def test_texts_about_a_worker_are_cut(db: Db, queue: JobQueue) -> None:
    db.execute(
        "SELECT register_worker('x', gen_random_uuid(), p_host => repeat('h', 1000), p_version => repeat('v', 1000))"
    )
    (worker,) = queue.workers()
    assert (worker.host, worker.version) == ("h" * 255, "v" * 255)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_moment_that_utc_does_not_have_is_none(dsn: str, db: Db, queue: JobQueue, moment: str) -> None:
    bad = queue.enqueue("x")
    errors = [{"attempt": 1, "at": moment, "kind": "failed", "error": "x"}]
    db.execute("UPDATE live SET errors = %s, own_write = NOT own_write", (Jsonb(errors),))
    assert queue.get(bad).errors == ()
    assert howdah("list", "--json", dsn=dsn).code == 0


@pytest.mark.parametrize("column", ["heartbeat_at", "fresh_since", "registered_at", "started_at", "last_claim_at"])
@pytest.mark.parametrize("moment", ["infinity", "-infinity", "294275-01-01"])
def test_a_time_of_a_worker_that_cannot_be_calculated_with_is_refused(
    db: Db, queue: JobQueue, column: str, moment: str
) -> None:
    scene(db, queue)
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute(f"UPDATE workers SET {column} = %s WHERE worker_id = 'bad'".encode(), (moment,))


def test_a_lease_of_more_than_a_hundred_years_is_refused(db: Db, queue: JobQueue) -> None:
    scene(db, queue)
    with pytest.raises(psycopg.errors.CheckViolation):
        db.execute("UPDATE workers SET lease = '178000000 years' WHERE worker_id = 'bad'")


@pytest.mark.parametrize("done", [5e-324, -5e-324, 1e-210])
def test_a_count_too_small_for_a_quotient_does_not_spoil_a_batch(db: Db, queue: JobQueue, done: float) -> None:
    jobs = scene(db, queue)
    ids = [jobs["running good"], jobs["running bad"]]
    tokens = [queue.get(id).token for id in ids]
    told = "SELECT id FROM progress(%s, %s, ARRAY[50, NULL]::float8[], NULL, ARRAY[NULL, %s]::float8[], ARRAY[NULL, 1e18]::float8[])"
    assert len(db.execute(told.encode(), (ids, tokens, done)).fetchall()) == 2
    assert [queue.get(id).percent for id in ids] == [50, 0]
