"""Cases in which there is too much of something: for the time that a statement may take, or for looking at each of it."""

from __future__ import annotations

from typing import Final

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
from psycopg.conninfo import make_conninfo

from tests.faults.case import case
from tests.faults.contention import Db, buffers, connected, counted
from tests.faults.stage import Stage

TIMEOUT: Final = 400
A_ROW: Final = 0.01
"""Milliseconds that a statement may take, and seconds that every ended job does: so forty are too many, on any machine."""


@case(45, "small-timeout", checks="I1 I2 I3 I4 I5 I7")
def small_timeout(stage: Stage) -> None:
    """The login of the workers has a statement_timeout that is shorter than a full batch takes."""
    slow_down_ends(stage)
    for job_type in ("work", "flaky", "doomed", "reports"):
        stage.enqueue_many(job_type, stage.scaled(1_000, 60))
    stage.start(2, dsn=make_conninfo(stage.dsn, options=f"-c statement_timeout={TIMEOUT}"), concurrency=200)
    stage.fleet.await_drained()
    taken = stage.fleet.jobs("crashes > 0 OR interruptions > 0")
    assert not taken, f"{len(taken)} jobs were taken from workers that lived"


def slow_down_ends(stage: Stage) -> None:
    with connected(stage) as conn:
        conn.execute(
            "CREATE FUNCTION public.slow() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN PERFORM pg_catalog.pg_sleep({A_ROW}); RETURN NEW; END $$".encode()
        )
        conn.execute(
            "CREATE TRIGGER slow BEFORE INSERT ON howdah.archive_open FOR EACH ROW EXECUTE FUNCTION public.slow()"
        )
    stage.fault()


@case(55, "many", checks="I1 I2 I7", audited=False, handlers="handlers_many")
def many(stage: Stage) -> None:
    """Ten thousand types, as many priorities, a hundred thousand keys, and payloads of 200 MB: claims touch few pages, and a worker stays small."""
    types, priorities, keys = stage.scaled((10_000, 10_000, 100_000), (1_000, 2_000, 2_000))
    refused_by_size(stage, megabytes=stage.scaled(200, 20))
    add(stage, "howdah.enqueue('many ' || n - 1)", types)
    add(stage, "howdah.enqueue('many 1', p_priority => n)", priorities)
    add(stage, "howdah.enqueue('many 2', p_key => 'key ' || n)", keys)
    add(stage, f"howdah.enqueue('many 3', jsonb_build_object('n', n || repeat('x', {LARGEST})))", stage.scaled(8, 2))
    with connected(stage) as conn:
        # Above all those that are due: of these, none is.
        conn.execute(
            "INSERT INTO howdah.live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
            " SELECT howdah.new_id(), 'many 1', 1000000 + n, now() + '1 day', now(), now(), 3 FROM generate_series(1, %s) AS n",
            (priorities,),
        )
        conn.execute("VACUUM (ANALYZE) howdah.live")
        for ahead in (types, types - 1, 0):
            touched = [touched_by(conn, types, count, ahead) for count in (1, 100)]
            print(f"pages of claims of 1 and 100 among {types:,} types, of which {ahead:,} may wait: {touched}")
            assert max(touched) <= MOST_BUFFERS + 6 * types + priorities // 20, (
                f"a claim has touched {max(touched):,} pages"
            )
        conn.execute("DELETE FROM howdah.live WHERE run_at > now()")
    (worker,) = stage.start(environment={"MANY_TYPES": str(types)})
    stage.fleet.await_drained()
    megabytes = psutil.Process(worker.pid).memory_info().rss / 1e6
    print(f"the worker has {megabytes:.0f} MB")
    assert megabytes < MOST_MEGABYTES, f"the worker has come to use {megabytes:.0f} MB"
    stage.verdict = counted(stage)


MOST_BUFFERS: Final = 2_500
"""Besides a look at each type, and at a page of the index for each fifty or more priorities that are not due."""
MOST_MEGABYTES: Final = 400
LARGEST: Final = 10_000_000
"""Characters of data that are taken."""


def refused_by_size(stage: Stage, megabytes: int) -> None:
    """By every way in which plain SQL adds data, before a worker could have to hold it."""
    data = f"jsonb_build_object('n', repeat('x', {megabytes}000000))"
    small = stage.execute("INSERT INTO howdah.jobs (job_type) VALUES ('many 1') RETURNING id")[0]["id"]
    stage.acknowledged.append(small)
    for statement in (
        f"SELECT howdah.enqueue('many 1', {data})",
        f"SELECT howdah.enqueue_many('many 1', ARRAY['1', {data}])",
        f"INSERT INTO howdah.jobs (job_type, data) VALUES ('many 1', {data})",
        f"UPDATE howdah.jobs SET data = {data}",
    ):
        try:
            stage.execute(statement)
        except psycopg.Error as error:
            assert error.sqlstate == "JQ003", error
            stage.fault()
        else:
            raise AssertionError(f"{megabytes} MB were taken by {statement}")


def add(stage: Stage, call: str, count: int) -> None:
    added = stage.execute(f"SELECT job.id FROM generate_series(1, %s) AS n, LATERAL {call} AS job", count)
    stage.acknowledged += [row["id"] for row in added]
    stage.fault()


def touched_by(conn: Db, types: int, count: int, ahead: int) -> int:
    """By a claim of so many, of all types, of which some may wait; the second one of a connection, because the first reads
    catalogues, too."""
    statement = (
        "SELECT * FROM howdah.claim('prober', ARRAY(SELECT 'many ' || n FROM generate_series(1, %(types)s) AS n), %(n)s,"
        " p_prefetch_types => ARRAY(SELECT 'many ' || n FROM generate_series(1, %(ahead)s) AS n))"
    )
    for _ in range(2):
        with conn.transaction(force_rollback=True):
            needed = buffers(conn, statement, {"types": types - 1, "n": count, "ahead": ahead})
    return needed
