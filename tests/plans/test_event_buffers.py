"""What watchers and handlers ask for touches a bounded number of pages, however many events and jobs there are.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from howdah.db.statements import read_statement
from tests.conftest import Connect, Db
from tests.plans.test_claim_buffers import buffers
from tests.size import FULL
from tests.sql.holding import hold, record
from tests.sql.streaming import now, read

EACH = 1_000_000 if FULL else 50_000
# As many as there can be: sixteen that are closed, and the open one.
SEGMENTS = 17
# Each of them is looked into, by three pages of an index or so, and twice: for what is new, and for what was under way.
FEW = 150
# A hundred rows, from the segments' indexes, merged.
A_PAGE = 300


@pytest.fixture
def roomy(db: Db) -> Iterator[Db]:
    """Nothing yet; and afterwards nothing again."""
    db.execute("ALTER TABLE live SET (autovacuum_enabled = off)")
    yield db
    db.execute("TRUNCATE live, archive, archive_counts, events")
    db.execute("SELECT prune('0')")
    db.execute("ALTER TABLE live RESET (autovacuum_enabled)")


@pytest.fixture
def crowded(roomy: Db) -> Db:
    crowd(roomy, SEGMENTS)
    return roomy


def crowd(db: Db, segments: int) -> None:
    """So many events, in so many segments, of a thousand jobs, and as many jobs that wait."""
    for segment in range(segments):
        if segment:
            db.execute("SELECT rotate('0')")
        db.execute(
            "INSERT INTO events_open (at, xid, job_id, token, seq, attempt, job_type, kind, name)"
            " SELECT now(), (3 + n * 100 / %(each)s)::text::xid8,"
            "     ('00000000-0000-7000-8000-' || lpad((n %% 1000)::text, 12, '0'))::uuid, 1, n / 1000 + 1, 1, 'foreign', 'event', 'e'"
            " FROM generate_series(1 + %(segment)s * %(each)s / %(of)s, (%(segment)s + 1) * %(each)s / %(of)s) AS n",
            {"each": EACH, "segment": segment, "of": segments},
        )
    assert db.execute("SELECT count(*) AS n FROM segments").fetchone() == {"n": segments}
    db.execute(
        "INSERT INTO live (id, job_type, priority, run_at, first_due_at, created_at, max_attempts)"
        " SELECT new_id(), t.job_type, t.priority, now() + t.wait + n * interval '1 ms', now(), now(), 3"
        " FROM (VALUES ('foreign', 100, interval '-1 h'), ('mine', 100, '1 h'), ('mine', 30, '-1 h'))"
        "     AS t (job_type, priority, wait), generate_series(1, %s) AS n",
        (EACH // 3,),
    )


def used(connect: Connect, statement: str, *arguments: Any) -> dict[str, int]:
    """The buffers of a statement by a plan that was made before there are statistics, and by one that was made with them."""
    found = {}
    for known in ("without statistics", "with statistics"):
        conn = connect()
        # What a new connection reads of the catalog is not meant.
        conn.execute(statement.encode(), arguments)
        found[known] = buffers(conn, statement, *arguments)
        for table in ("live", "events"):
            conn.execute(f"ANALYZE {table}".encode())
    print(f"{statement}: {found}")
    return found


def test_what_is_new_is_found_without_a_look_at_what_is_old(crowded: Db, connect: Connect) -> None:
    held = hold(crowded, 10)
    slow = connect(autocommit=False)
    record(slow, held[0])
    position = now(crowded)
    slow.commit()
    record(crowded, *held)
    assert len(read(crowded, position)[0]) == 11
    for named in ("", ", p_job_types => ARRAY['x']", ", p_kinds => ARRAY['event']"):
        found = used(connect, f"SELECT * FROM read_events(%s{named})", position)
        assert max(found.values()) <= FEW, found
    assert max(used(connect, "SELECT stream_position()").values()) <= FEW
    nothing = used(connect, "SELECT * FROM read_events(%s)", now(crowded))
    assert max(nothing.values()) <= FEW, nothing


def test_a_watcher_that_began_while_there_was_nothing_reads_no_more_when_there_is_much(
    roomy: Db, connect: Connect
) -> None:
    """In one segment, because with a new one plans are made anew."""
    veteran = connect()
    for _ in range(7):
        read(veteran, now(veteran))
        read(veteran)
    crowd(roomy, 1)
    position = now(roomy)
    record(roomy, *hold(roomy, 10))
    # What it reads of the catalog again, because autovacuum has looked at the table meanwhile, is not meant.
    veteran.execute("SELECT * FROM read_events(%s)", (position,))
    assert buffers(veteran, "SELECT * FROM read_events(%s)", position) <= FEW
    assert buffers(veteran, "SELECT * FROM read_events(p_limit => 100)") <= A_PAGE


def test_a_page_of_what_is_old_is_read_along_its_order(crowded: Db, connect: Connect) -> None:
    oldest = "SELECT * FROM read_events(%s, p_limit => 100)"
    row = crowded.execute(
        "SELECT min(stream_no) + (max(stream_no) - min(stream_no)) / 2 AS middle FROM events"
    ).fetchone()
    assert row is not None
    middle = f"1:1:@0/{now(crowded)}/{row['middle']}"
    assert read(crowded, middle, limit=1)[0][0]["stream_no"] == row["middle"] + 1
    for after in (None, middle):
        found = used(connect, oldest, after)
        assert max(found.values()) <= A_PAGE, found


@pytest.mark.parametrize("after", [0, EACH // 1000 - 10])
@pytest.mark.parametrize("name", ["events", "last_events"])
def test_the_events_of_one_job_are_found_by_its_id(crowded: Db, connect: Connect, name: str, after: int) -> None:
    wanted = {"id": "'00000000-0000-7000-8000-000000000007'", "after": str(after), "kinds": "NULL", "limit": "20"}
    statement = read_statement("howdah", name).decode() % wanted
    assert max(used(connect, statement).values()) <= FEW


def test_handlers_find_their_jobs_by_the_primary_key(crowded: Db, connect: Connect) -> None:
    held = hold(crowded, 100)
    for function, more in (
        ("progress", ", array_fill(50, ARRAY[100])"),
        ("record_events", ", array_fill('e'::text, ARRAY[100])"),
        ("complete", ""),
    ):
        conn = connect()
        statement = f"SELECT * FROM {function}(%s, %s{more})"
        conn.execute(statement.encode(), ([job.id for job in held], [0] * 100))
        found = buffers(conn, statement, [job.id for job in held], [job.token for job in held])
        print(f"{function} of 100: {found}")
        # Each of them is found and written anew, and so are its entries in the indexes; each event has three.
        assert found <= 4_000, function
    conn = connect()
    for job in hold(crowded, 2):
        found = buffers(conn, "SELECT checkpoint(%s, %s, '1')", *job)
    assert found <= 50


def test_a_place_is_counted_along_the_lane(crowded: Db, connect: Connect) -> None:
    """Neither other types, nor those behind it are looked at."""
    line = "SELECT id FROM live WHERE job_type = 'mine' AND priority = %s ORDER BY run_at, id OFFSET %s LIMIT 1"
    for priority, place, most in (
        (100, 0, FEW),
        (100, 100, FEW),
        (30, 0, EACH // 100),
        (30, EACH // 3 - 1, EACH // 10),
    ):
        (job,) = crowded.execute(line, (priority, place)).fetchall()
        found = used(connect, "SELECT * FROM queue_position(%s)", job["id"])
        assert max(found.values()) <= most, (priority, place)
