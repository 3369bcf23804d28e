"""What plain clients send: the seed's statements to the letter, and their natural variants, as Hypothesis draws them."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from tests.properties.plain_deviations import ENDED, HELD, PAUSED
from tests.sql import seed

JOBS: Final = 6
CLIENTS: Final = ("ann", "bob")
LIVE: Final = ("pending", *HELD)
LONG_AGO: Final = "2010-01-01 00:00:00+00"


@dataclasses.dataclass(frozen=True)
class Sql:
    """An expression, as opposed to a value that is bound."""

    text: str


@dataclasses.dataclass(frozen=True)
class Target:
    """A job that is chosen when the statement is sent: one in these statuses if there is any, else any."""

    statuses: tuple[str, ...]
    number: int


@dataclasses.dataclass(frozen=True)
class Taken:
    """The ids that the session's last SELECT returned."""


@dataclasses.dataclass(frozen=True)
class Read:
    """A column of the last row that the session has read: what an ORM writes back."""

    column: str


@dataclasses.dataclass(frozen=True, repr=False)
class Statement:
    """A statement and its values. An UPDATE is in parts, so that it can be written in several forms."""

    head: str
    values: tuple[Any, ...] = ()
    sets: tuple[tuple[str, str], ...] = ()
    where: str = ""
    returns: bool = False
    """Whether it returns rows without a RETURNING."""
    many: bool = False
    """Whether it may write or lock several jobs, in an undefined order."""
    on_plain: str | None = None
    """What the plain table is sent instead."""

    @property
    def text(self) -> str:
        sets = ", ".join(f"{column} = {value}" for column, value in self.sets)
        return f"{self.head} SET {sets} WHERE {self.where}" if sets else self.head

    def __repr__(self) -> str:
        return f"{' '.join(self.text.split())} {self.values or ''}"

    @property
    def verb(self) -> str:
        return self.head.split()[0]

    @property
    def is_control(self) -> bool:
        return self.verb in ("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")

    @property
    def names_error(self) -> bool:
        return "last_error = $" in self.text


BEGIN, COMMIT, ROLLBACK = Statement("BEGIN"), Statement("COMMIT"), Statement("ROLLBACK")


def update(sets: Mapping[str, Any], *conditions: tuple[Any, ...], many: bool = False) -> Statement:
    """Conditions are a text with a {} for each value, and the values."""
    values: list[Any] = []

    def bound(value: Any) -> str:
        if isinstance(value, Sql):
            return value.text
        values.append(value)
        return f"${len(values)}"

    written = tuple((column, bound(value)) for column, value in sets.items())
    where = " AND ".join(text.format(*map(bound, found)) for text, *found in conditions)
    return Statement("UPDATE jobs", tuple(values), written, where, many=many)


def insert(values: Mapping[str, Any]) -> Statement:
    places = ", ".join(f"${number}" for number in range(1, len(values) + 1))
    return Statement(f"INSERT INTO jobs ({', '.join(values)}) VALUES ({places})", tuple(values.values()))


def job_id(number: int) -> uuid.UUID:
    return uuid.UUID(int=number + 1)


def created_at(number: int) -> str:
    """A moment of its own for each job: without it, claims would have no order."""
    return f"2010-01-01 00:{number:02}:00+00"


# Jobs as they are added

numbers = st.integers(0, JOBS - 1)
# An INSERT of an ended job does not wait for writes of a live one that has its id. So they have ids of their own.
numbers_of_ended = st.integers(JOBS, JOBS + 1)
clients = st.sampled_from(CLIENTS)
types = st.sampled_from(["a", "a", "a", "a", "b", "b", PAUSED])
errors = st.sampled_from(["boom", "bust", "", None])
chosen = {
    "priority": st.sampled_from([30, 100, 150]),
    "data": st.sampled_from(["{}", '{"n": 1}', "[1, 2]"]),
    "max_attempts": st.sampled_from([1, 2, 3, 10, None]),
    "progress": st.sampled_from([0, 7, 100, None]),
    "current_stage": st.sampled_from(["begun", None]),
    "events_count": st.sampled_from([2, None, Sql("events_count + 1")]),
    "started_at": st.sampled_from([LONG_AGO, None, Sql("now()")]),
}


@st.composite
def new_jobs(draw: st.DrawFn, number: int, *statuses: str) -> Statement:
    status = draw(st.sampled_from(statuses or (LIVE if number < JOBS else ENDED)))
    values: dict[str, Any] = {"id": job_id(number), "job_type": draw(types), "created_at": created_at(number)}
    if status != "pending":
        values |= {"status": status, "attempts": draw(st.integers(0, 3))}
    if status in HELD:
        values |= {
            "worker_id": draw(clients | st.none()),
            "claimed_at": draw(st.sampled_from([LONG_AGO, LONG_AGO, None])),
        }
    values |= draw(st.fixed_dictionaries({}, optional=chosen | {"last_error": errors}))
    return insert({column: value for column, value in values.items() if not isinstance(value, Sql)})


@st.composite
def inserts(draw: st.DrawFn) -> Statement:
    statement = draw(st.one_of(numbers, numbers, numbers_of_ended).flatmap(new_jobs))
    if draw(st.integers(0, 4)):
        return statement
    clause = draw(st.sampled_from(["ON CONFLICT DO NOTHING", "ON CONFLICT (id) DO UPDATE SET progress = 1"]))
    return dataclasses.replace(statement, head=f"{statement.head} {clause}", on_plain=statement.head)


@st.composite
def inserts_now(draw: st.DrawFn) -> Statement:
    """With the defaults of the seed's INSERT, created_at among them: two in one transaction would have no order."""
    return insert({"id": job_id(draw(numbers)), "job_type": draw(types)})


# Jobs as they are looked at and written


def targets(*statuses: str) -> st.SearchStrategy[Target]:
    return st.builds(Target, st.just(statuses), st.integers(0, 1))


pending, held, ended, any_job = targets("pending"), targets(*HELD), targets("completed", "failed"), targets()
now = Sql("now()")
IS_LIVE: Final = "status IN ('pending', 'claimed', 'running')"
IS_HELD: Final = ("status IN ('claimed', 'running')",)
FREE: Final = (
    "SELECT id FROM jobs WHERE status = 'pending' ORDER BY priority DESC, created_at LIMIT {} FOR UPDATE SKIP LOCKED"
)


@st.composite
def guarded(draw: st.DrawFn, target: st.SearchStrategy[Target]) -> list[tuple[Any, ...]]:
    """By the id, and perhaps by values that the client has read."""
    beliefs: list[list[tuple[Any, ...]]] = [
        [],
        [],
        [IS_HELD],
        [("worker_id = {}", "ann")],
        [("status = {}", "running")],
    ]
    return [("id = {}", draw(target)), *draw(st.sampled_from(beliefs))]


@st.composite
def claims(draw: st.DrawFn) -> Statement:
    client = draw(clients)
    sets = {
        "status": draw(st.sampled_from(HELD)),
        "worker_id": client,
        "claimed_at": now,
        "attempts": Sql("attempts + 1"),
    }
    kind = draw(st.sampled_from(["the seed's", "compare-and-set", "one", "some"]))
    if kind == "the seed's":
        named = draw(st.sampled_from([["a"], ["a", "b"], ["b", PAUSED]]))
        return Statement(seed.OWN_CLAIM, (client, named, draw(st.integers(1, 3))), returns=True)
    if kind == "compare-and-set":
        return update(sets, ("id = {}", draw(pending)), ("status = {}", "pending"))
    # Not IN (…): there, a plan may run the SELECT more than once, and so take more than its LIMIT.
    return update(
        sets, (f"id = ({FREE})" if kind == "one" else f"id = ANY (ARRAY({FREE}))", Sql("1" if kind == "one" else "2"))
    )


def claim_of_taken(client: str) -> Statement:
    """The second of two statements: it takes what the first one has locked."""
    sets = {"status": "claimed", "worker_id": client, "claimed_at": now, "attempts": Sql("attempts + 1")}
    return update(sets, ("id = ANY({})", Taken()))


@st.composite
def locks(draw: st.DrawFn) -> Statement:
    if draw(st.booleans()):
        return Statement(seed.SELECT_FOR_UPDATE, (["a", "b"], draw(st.integers(1, 2))), returns=True)
    strength = draw(st.sampled_from(["UPDATE", "UPDATE", "NO KEY UPDATE", "SHARE"]))
    patience = draw(st.sampled_from(["", " SKIP LOCKED", " NOWAIT"]))
    return Statement(f"SELECT * FROM jobs WHERE id = $1 FOR {strength}{patience}", (draw(any_job),), returns=True)


reads = st.builds(lambda job: Statement("SELECT * FROM jobs WHERE id = $1", (job,), returns=True), any_job)


@st.composite
def saves(draw: st.DrawFn) -> Statement:
    """A whole row, as an ORM writes what it has read, with something changed."""
    read = {column: Read(column) for column, _ in seed.COLUMNS if column != "id"}
    changes: dict[str, Any] = draw(
        st.sampled_from([{}, {"status": "completed"}, {"progress": 42}, {"status": "pending"}, {"status": "running"}])
    )
    return update(read | changes, ("id = {}", Read("id")))


@st.composite
def progress(draw: st.DrawFn) -> Statement:
    return update(draw(st.fixed_dictionaries({}, optional=chosen).filter(bool)), *draw(guarded(held)))


counts = st.builds(lambda job: update({"events_count": Sql("events_count + 1")}, ("id = {}", job)), any_job)


@st.composite
def operations(draw: st.DrawFn) -> Statement:
    """What an operator changes by hand, of a job or of several."""
    changes = {name: chosen[name] for name in ("priority", "max_attempts", "data")}
    others = {"attempts": st.sampled_from([0, 1, None]), "last_error": errors, "worker_id": clients | st.none()}
    sets = draw(st.fixed_dictionaries({}, optional=changes | others).filter(bool))
    if draw(st.integers(0, 3)):
        return update(sets, ("id = {}", draw(any_job)))
    return update(
        sets, ("job_type = {}", "a"), ("status = {}", draw(st.sampled_from(["pending", "running"]))), many=True
    )


@st.composite
def ends(draw: st.DrawFn) -> Statement:
    kind = draw(st.sampled_from(["the seed's Complete", "the seed's Fail", "complete", "fail", "give up", "cancel"]))
    if kind == "the seed's Complete":
        return Statement(seed.COMPLETE.strip(), (draw(held),))
    if kind == "the seed's Fail":
        return Statement(seed.FAIL.strip(), (draw(held), draw(errors)))
    if kind == "cancel":
        return update({"status": "cancelled", "completed_at": now}, ("id = {}", draw(any_job)))
    written: dict[str, dict[str, Any]] = {
        "complete": {"status": "completed", "progress": 100, "completed_at": now},
        "fail": {"status": "pending", "last_error": draw(errors), "worker_id": None, "claimed_at": None},
        "give up": {"status": "failed", "last_error": draw(errors)},
    }
    # What else a client writes that saves more than it has changed, perhaps of an older claim.
    also: dict[str, Any] = draw(
        st.sampled_from([{}, {}, {"attempts": 0}, {"attempts": Sql("attempts")}, {"worker_id": "bob"}])
    )
    return update(written[kind] | also, *draw(guarded(held)))


@st.composite
def recoveries(draw: st.DrawFn) -> Statement:
    if draw(st.booleans()):
        return Statement(seed.RECOVER_STALE_JOBS.strip(), (draw(st.sampled_from(["1 hour", "-1 hour"])),), many=True)
    sets: dict[str, Any] = {"status": "pending", "worker_id": None, "claimed_at": None}
    if draw(st.booleans()):
        sets |= {"last_error": draw(errors)}
    return update(sets, ("worker_id = {}", draw(clients)), IS_HELD, many=True)


@st.composite
def deletes(draw: st.DrawFn) -> Statement:
    if draw(st.booleans()):
        return Statement(f"DELETE FROM jobs WHERE id = $1 AND {IS_LIVE}", (draw(any_job),))
    return Statement("DELETE FROM jobs WHERE status = $1", ("pending",), many=True)


# Not in a longer transaction: an INSERT of the same id does not wait for the end of it.
deletes_of_ended = st.builds(lambda job: Statement("DELETE FROM jobs WHERE id = $1", (job,)), ended)


@st.composite
def mistakes(draw: st.DrawFn) -> Statement:
    """What a plain table refuses with an error; of live jobs, because ended ones do not change."""
    sets: dict[str, Any] = draw(
        st.sampled_from([{"status": "done"}, {"data": None}, {"current_stage": "x" * 101}, {"progress": Sql("1 / 0")}])
    )
    # Locked first, because a plain table looks at some mistakes before it waits for the row.
    live = f"SELECT id FROM jobs WHERE id = {{}} AND {IS_LIVE} FOR UPDATE"
    return update(sets, (f"id = ({live})", draw(any_job)))


@st.composite
def successions(draw: st.DrawFn) -> Statement:
    """Completes a job and adds another one, in one statement."""
    text = (
        "WITH done AS (UPDATE jobs SET status = 'completed', completed_at = now() WHERE id = $1"
        " AND status IN ('claimed', 'running') RETURNING *)"
        " INSERT INTO jobs (id, job_type, created_at) SELECT $2::uuid, job_type, $3::timestamptz FROM done RETURNING *"
    )
    number = draw(numbers)
    return Statement(text, (draw(held), job_id(number), created_at(number)), returns=True)


everything = st.one_of(
    reads, claims(), claims(), locks(), progress(), counts, operations(), ends(), ends(), recoveries(), deletes(), inserts(),
    mistakes(), successions(),
)  # fmt: skip
alone = st.one_of(everything, inserts_now(), deletes_of_ended)
"""What is sent only as a transaction by itself, and the rest."""
some_jobs = st.tuples(
    new_jobs(0, *HELD), new_jobs(1, "pending"), st.one_of(st.integers(2, JOBS - 1), numbers_of_ended).flatmap(new_jobs)
)
