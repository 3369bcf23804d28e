"""The stream of events: each is read once, in order within its job, however late its transaction commits."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from tests.conftest import Connect, Db
from tests.sql.holding import Held, hold, record
from tests.sql.streaming import Rows, now, read, read_all


def names(events: Rows) -> list[str]:
    return [event["name"] for event in events]


@pytest.fixture
def jobs(db: Db) -> list[Held]:
    return hold(db, 5)


def test_without_a_position_it_begins_with_the_oldest(db: Db, jobs: list[Held]) -> None:
    for name in "abc":
        record(db, jobs[0], name=name)
    for nowhere in (None, ""):
        events, position = read(db, nowhere)
        assert names(events) == ["a", "b", "c"]
        assert read(db, position)[0] == []


def test_a_row_is_all_of_the_event(db: Db, jobs: list[Held]) -> None:
    db.execute("SELECT record_events(ARRAY[%s], ARRAY[%s], ARRAY['a'], ARRAY['{\"k\": 1}'::jsonb])", jobs[0])
    ((event,), _) = read(db)
    event.pop("position")
    row = db.execute("SELECT * FROM events").fetchone()
    assert row is not None
    row.pop("xid")
    assert event == row


def test_now_is_after_everything_that_has_been_committed(db: Db, jobs: list[Held]) -> None:
    record(db, jobs[0], name="before")
    position = now(db)
    assert read(db, position)[0] == []
    record(db, jobs[0], name="after")
    assert names(read(db, position)[0]) == ["after"]


def test_it_continues_after_the_position_of_the_last_row(db: Db, jobs: list[Held]) -> None:
    position: str | None = None
    for name in ("a", "b", "c"):
        record(db, jobs[0], name=name)
        events, position = read(db, position)
        assert names(events) == [name]


def test_each_row_has_the_position_behind_it(db: Db, jobs: list[Held]) -> None:
    start = now(db)
    for name in "abcdef":
        record(db, jobs[0], jobs[1], name=name)
    everything, _ = read(db, start)
    for place, event in enumerate(everything, start=1):
        rest, _ = read_all(db, event["position"], limit=4)
        assert [each["stream_no"] for each in rest] == [each["stream_no"] for each in everything[place:]]


def test_reading_on_from_a_row_returns_the_rest_and_in_the_same_call_what_has_come_since(
    db: Db, jobs: list[Held]
) -> None:
    start = now(db)
    record(db, *jobs, name="then")
    middle = read(db, start)[0][2]["position"]
    record(db, *jobs, name="since")
    events, position = read(db, middle)
    assert names(events) == ["then"] * 2 + ["since"] * 5
    assert read(db, position)[0] == []
    assert names(read(db, events[3]["position"])[0]) == ["since"] * 3
    assert names(read_all(db, middle, limit=2)[0]) == names(events)


def test_pages_are_as_long_as_one_asks_and_all_together_are_everything(db: Db, jobs: list[Held]) -> None:
    start = now(db)
    for _ in range(5):
        record(db, *jobs)
    for limit in (1, 2, 7, 25, 26):
        for after in (start, None):
            page, _ = read(db, after, limit=limit)
            assert len(page) == min(limit, 25)
            found, _ = read_all(db, after, limit=limit)
            assert [event["stream_no"] for event in found] == sorted({event["stream_no"] for event in found})
            assert len(found) == 25


@pytest.mark.parametrize("limit", [0, -1, None])
def test_a_page_of_nothing_is_refused(db: Db, limit: int | None) -> None:
    with pytest.raises(psycopg.Error, match="limit is") as caught:
        read(db, limit=limit)
    assert caught.value.sqlstate == "JQ001"


def test_only_the_types_and_kinds_that_one_asks_for(db: Db) -> None:
    (x,), (y,) = hold(db, job_type="x"), hold(db, job_type="y")
    start = now(db)
    record(db, x, y, name="e")
    record(db, x, y, name="INFO", kind="log")
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", x)
    for after in (start, None):
        of_x, position = read(db, after, job_types=["x"])
        assert names(of_x) == ["e", "INFO", "completed"]
        assert names(read(db, after, kinds=["log", "status"])[0]) == ["INFO", "INFO", "completed"]
        assert names(read(db, after, job_types=["y"], kinds=["event"])[0]) == ["e"]
        assert read(db, after, job_types=[])[0] == []
        assert read(db, position)[0] == []


# Transactions


def test_what_commits_late_is_read_late_but_is_read(db: Db, connect: Connect, jobs: list[Held]) -> None:
    slow, position = connect(autocommit=False), now(db)
    record(slow, jobs[0], name="slow")
    record(db, jobs[1], name="quick")
    events, position = read(db, position)
    assert names(events) == ["quick"]
    record(db, jobs[1], name="quick")
    within = read(db, position)[0][0]["position"]
    slow.commit()
    for after in (position, within):
        found = names(read(db, after)[0])
        assert sorted(found) == (["quick", "slow"] if after == position else ["slow"])
    events, position = read(db, position)
    assert len(events) == 2
    assert read(db, position)[0] == []


def test_what_is_rolled_back_is_not_read(db: Db, connect: Connect, jobs: list[Held]) -> None:
    doubtful, position = connect(autocommit=False), now(db)
    record(doubtful, jobs[0])
    events, position = read(db, position)
    doubtful.rollback()
    assert (events, read(db, position)[0]) == ([], [])
    assert record(db, jobs[0]) == [1]


def test_a_transaction_that_stays_open_and_has_nothing_to_do_with_it_holds_nothing_up(
    db: Db, connect: Connect, jobs: list[Held]
) -> None:
    bystander = connect(autocommit=False)
    bystander.execute("SELECT pg_current_xact_id()")
    position: str | None = now(db)
    for name in "abcde":
        record(db, jobs[0], name=name)
        events, position = read(db, position)
        assert names(events) == [name]
    bystander.rollback()
    assert read(db, position)[0] == []


def test_rows_of_one_transaction_are_read_together_and_have_positions_of_their_own(
    db: Db, connect: Connect, jobs: list[Held]
) -> None:
    writer, position = connect(autocommit=False), now(db)
    for name in "abcd":
        record(writer, jobs[0], name=name)
    writer.commit()
    events, _ = read(db, position)
    assert names(events) == ["a", "b", "c", "d"]
    assert names(read(db, events[1]["position"])[0]) == ["c", "d"]
    assert names(read_all(db, position, limit=3)[0]) == ["a", "b", "c", "d"]


def test_savepoints_are_part_of_their_transaction(db: Db, connect: Connect, jobs: list[Held]) -> None:
    writer, position = connect(autocommit=False), now(db)
    record(writer, jobs[0], name="a")
    for name, forced_back in (("b", False), ("undone", True), ("c", False)):
        with writer.transaction(force_rollback=forced_back):
            record(writer, jobs[0], name=name)
            with writer.transaction():
                record(writer, jobs[1], name=f"inner {name}")
        record(db, jobs[2], name="other")
        events, position = read(db, position)
        assert names(events) == ["other"]
    writer.commit()
    events, position = read(db, position)
    assert names(events) == ["a", "b", "inner b", "c", "inner c"]
    assert [event["seq"] for event in events] == [1, 2, 1, 3, 2]
    assert read(db, position)[0] == []


@pytest.mark.parametrize("busy", [True, False], ids=["others commit meanwhile", "alone"])
def test_what_a_transaction_has_written_itself_is_read_once_it_is_committed(
    db: Db, connect: Connect, jobs: list[Held], busy: bool
) -> None:
    """It may still roll back. And a reader that continues from its position must not miss what it wrote afterwards."""
    writer, start = connect(autocommit=False), now(db)
    record(writer, jobs[0], name="a")
    if busy:
        record(db, jobs[1], name="other")
    events, position = read(writer, start)
    taken = now(writer)
    assert names(events) == ["other"] * busy
    record(writer, jobs[0], name="b")
    if busy:
        record(db, jobs[1], name="other")
    events, position = read(writer, position)
    assert names(events) == ["other"] * busy
    writer.commit()
    assert names(read(db, position)[0]) == ["a", "b"]
    assert sorted(names(read(db, taken)[0])) == ["a", "b"] + ["other"] * busy


def test_a_snapshot_that_is_held_for_long_sees_the_stream_as_of_then(
    db: Db, connect: Connect, jobs: list[Held]
) -> None:
    record(db, jobs[0], name="a")
    old = connect(autocommit=False)
    old.commit()
    old.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    events, position = read(old)
    record(db, jobs[0], name="b")
    assert (names(events), read(old, position)[0]) == (["a"], [])
    old.rollback()
    assert names(read(old, position)[0]) == ["b"]


def test_while_many_write_as_fast_as_they_can_everything_is_read_once_and_in_order(
    db: Db, connect: Connect, jobs: list[Held]
) -> None:
    writers, position = [connect(autocommit=False) for _ in jobs], now(db)

    def write(writer: Db, job: Held) -> None:
        for n in range(100):
            for _ in range(n % 3 + 1):
                record(writer, job)
            writer.rollback() if n % 7 == 6 else writer.commit()

    found: Rows = []
    with ThreadPoolExecutor(len(jobs)) as pool:
        writing = [pool.submit(write, writer, job) for writer, job in zip(writers, jobs, strict=True)]
        while not all(each.done() for each in writing):
            events, position = read_all(db, position, limit=7)
            found += events
        for each in writing:
            each.result()
    events, position = read_all(db, position)
    found += events
    for job in jobs:
        kept = db.execute("SELECT count(*)::int AS n FROM events WHERE job_id = %s", (job.id,)).fetchall()[0]["n"]
        assert [event["seq"] for event in found if event["job_id"] == job.id] == list(range(1, kept + 1))


# Until


def test_nothing_is_read_that_was_not_there_yet(db: Db, connect: Connect, jobs: list[Held]) -> None:
    slow, start = connect(autocommit=False), now(db)
    record(slow, jobs[0], name="slow")
    record(db, jobs[1], name="a")
    record(db, jobs[2], name="b")
    until = now(db)
    slow.commit()
    record(db, jobs[1], name="c")
    for after in (start, None):
        for limit in (1, 2, 100):
            found, position = read_all(db, after, limit=limit, until=until)
            assert (names(found), position) == (["a", "b"], until)
    assert sorted(names(read(db, until)[0])) == ["c", "slow"]
    first = read(db, start, until=until)[0][0]["position"]
    assert names(read(db, first, until=until)[0]) == ["b"]


def test_resuming_in_the_middle_of_an_old_page_reads_on_until_then(db: Db, jobs: list[Held]) -> None:
    start = now(db)
    record(db, *jobs, name="a")
    middle = read(db, start)[0][1]["position"]
    record(db, *jobs, name="b")
    until = now(db)
    record(db, *jobs, name="c")
    for limit in (1, 3, 4, 100):
        found, position = read_all(db, middle, limit=limit, until=until)
        assert (names(found), position) == (["a"] * 3 + ["b"] * 5, until)


def test_the_stream_never_goes_back(db: Db, connect: Connect, jobs: list[Held]) -> None:
    slow = connect(autocommit=False)
    record(slow, jobs[4], name="slow")
    record(db, *jobs[:3], name="a")
    until = now(db)
    slow.commit()
    after_slow = now(db)
    record(db, *jobs[:3], name="b")
    for ahead in (after_slow, now(db)):
        assert read(db, ahead, until=until) == ([], ahead)
    within = read(db, until)[0][1]["position"]
    found, position = read_all(db, within, until=until)
    assert names(found) == ["b", "b"]
    assert read(db, position)[0] == []


def test_what_is_deleted_meanwhile_hides_nothing(db: Db, connect: Connect, jobs: list[Held]) -> None:
    """Not even if the highest numbers are deleted, too."""
    slow, start = connect(autocommit=False), now(db)
    record(slow, jobs[0], name="slow")
    record(db, jobs[1], name="gone")
    db.execute("SELECT complete(ARRAY[%s], ARRAY[%s])", jobs[1])
    events, position = read(db, start)
    assert names(events) == ["gone", "completed"]
    db.execute("DELETE FROM jobs WHERE id = %s", (jobs[1].id,))
    slow.commit()
    for after in (position, events[-1]["position"], start):
        for until in (None, now(db)):
            found, behind = read(db, after, until=until)
            assert names(found) == ["slow"]
            assert read(db, behind)[0] == []


def test_after_a_crash_transactions_may_reuse_ids_that_an_old_snapshot_seems_to_see(db: Db, jobs: list[Held]) -> None:
    """A transaction that was committed, but is not yet on the disk, is lost, and its id is used again."""
    start = now(db)
    record(db, *jobs, name="before")
    seen, n = now(db).split("@")
    last = int(seen.split(":")[1]) + 5
    ahead = f"{last}:{last}:@{n}"
    middle = f"{start}/{ahead}/{int(n) - 2}"
    assert (read(db, ahead)[0], names(read(db, middle)[0])) == ([], ["before"] * 2)
    for name in "abc":
        record(db, jobs[0], name=name)
    for limit in (1, 2, 100):
        assert names(read_all(db, ahead, limit=limit)[0]) == ["a", "b", "c"]
        assert names(read_all(db, middle, limit=limit)[0]) == ["before", "before", "a", "b", "c"]
    events, position = read(db, ahead, limit=2)
    record(db, jobs[0], name="d")
    assert names(read(db, position)[0]) == names(read(db, events[-1]["position"])[0]) == ["c", "d"]


# Positions that are none


@pytest.mark.parametrize(
    "position",
    ["x", "1", "1:1", "1:1:", "1:1:@", "1:1:@n", "@1", "1:2:3@1", "5:3:@1", "0:0:@1", "1:1:@1/1:1:@1", "1:1:/1:1:", "1:1:/1:1:/", "1:1:/1:1:/n", "/", "//", "1:1:/x/1", "1:1:/1:1:/1e3",
     "1:1:/1:1:/99999999999999999999", "99999999999999999999999:1:", " ", "1:1: ; DROP TABLE events"],
)  # fmt: skip
@pytest.mark.parametrize("option", ["after", "until"])
def test_a_position_that_is_none_is_refused(db: Db, position: str, option: str) -> None:
    with pytest.raises(psycopg.Error, match="not a position") as caught:
        read(db, **{option: position})
    assert caught.value.sqlstate == "JQ001"
    assert position in str(caught.value)


def test_a_position_of_another_database_is_refused(db: Db) -> None:
    far = "9000000000000:9000000000000:@9000000000000"
    for options in ({"after": far}, {"until": far}, {"after": f"1:1:@0/{far}/7"}, {"after": f"{far}/{far}/7"}):
        with pytest.raises(psycopg.Error, match="ahead of the database") as caught:
            read(db, **options)
        assert caught.value.sqlstate == "JQ008"


def test_events_that_came_with_a_dump_of_another_cluster_are_refused_until_they_are_numbered_anew(
    db: Db, connect: Connect, jobs: list[Held]
) -> None:
    """Once this cluster reaches their transaction ids, they would show up as new. For the renumbering, see test_restore."""
    start = now(db)
    record(db, jobs[0], name="restored")
    db.execute("UPDATE events SET xid = '9000000000000'")
    for after in (start, None, now(db)):
        with pytest.raises(psycopg.Error, match="another cluster") as caught:
            read(db, after)
        assert caught.value.sqlstate == "JQ009"
    db.execute("UPDATE events SET xid = '2'")
    assert names(read(db, start)[0]) == ["restored"]
    # Events of this very transaction are not foreign.
    other = connect(autocommit=False)
    record(other, jobs[1], name="own")
    assert names(read(other, start)[0]) == ["restored"]
