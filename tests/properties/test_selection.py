"""A selection has the jobs that a plain filter in Python has, whatever they are and however small the batches."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import JobQueue
from howdah.model.job import FINAL_STATUSES, STATUSES
from howdah.verbs import selection as selections
from tests.conftest import Db
from tests.properties.examples import examples

TYPES = ("mail", "text", "Mail")
KEYS = ("a", "A", "b%")
# Few, so that a key has more jobs than the window of a small batch in some examples, and fewer in others.
FLOW_KEYS = ("acme", "Acme", "")
PARTS = ("time", "Time", "out", "%", "_", "\\", "'", "ä")
MINUTE = 60

ages = st.integers(0, 3)
errors = st.none() | st.lists(st.sampled_from(PARTS), min_size=1, max_size=3).map("".join)


@dataclasses.dataclass(frozen=True)
class Made:
    """A job as it is put into the tables. Ages are minutes."""

    job_type: str
    status: str
    key: str | None
    flow_key: str | None
    error: str | None
    created: int
    ended: int

    @property
    def age(self) -> int:
        return self.ended if self.status in FINAL_STATUSES else self.created


@dataclasses.dataclass(frozen=True)
class Filters:
    job_type: list[str] | None
    status: list[str] | None
    key: str | None
    per: str | None
    error: str | None
    older_than: int | None

    def select(self, job: Made) -> bool:
        return (
            (self.job_type is None or job.job_type in self.job_type)
            and (self.status is None or job.status in self.status)
            and (self.key is None or job.key == self.key)
            and (self.per is None or job.flow_key == self.per)
            and (self.error is None or (job.error is not None and self.error in job.error))
            and (self.older_than is None or job.age >= self.older_than)
        )

    @property
    def arguments(self) -> dict[str, Any]:
        given = dataclasses.asdict(self)
        return {**given, "older_than": None if self.older_than is None else self.older_than * MINUTE}


jobs = st.lists(
    st.builds(
        Made,
        st.sampled_from(TYPES),
        st.sampled_from(STATUSES),
        st.none() | st.sampled_from(KEYS),
        st.none() | st.sampled_from(FLOW_KEYS),
        errors,
        ages,
        ages,
    ),
    max_size=25,
    # Live jobs have distinct keys.
    unique_by=lambda job: (job.job_type, job.key) if job.key and job.status not in FINAL_STATUSES else object(),
)
filters = st.builds(
    Filters,
    st.none() | st.lists(st.sampled_from(TYPES), max_size=2),
    st.none() | st.lists(st.sampled_from(STATUSES), max_size=3),
    st.none() | st.sampled_from(KEYS),
    st.none() | st.sampled_from(FLOW_KEYS),
    st.none() | st.sampled_from(PARTS),
    st.none() | ages,
)
VERBS: dict[str, set[str]] = {
    "cancel": {"pending", "claimed", "running"},
    "delete": set[str](STATUSES) - {"running"},
    "reprioritise": {"pending"},
    "retry": {"failed"},
}


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "BATCH", 1)


def put(db: Db, made: list[Made]) -> dict[uuid.UUID, Made]:
    for table in ("live", "archive", "archive_counts", "events"):
        db.execute(f"DELETE FROM {table}".encode())
    ids = {uuid.uuid4(): job for job in made}
    for job_id, job in ids.items():
        columns = {
            "id": job_id,
            "job_type": job.job_type,
            "status": job.status,
            "key": job.key,
            "flow_key": job.flow_key,
            "last_error": job.error,
            "priority": 100,
            "max_attempts": 3,
        }
        times = ("run_at", "first_due_at", "created_at")
        ended = job.status in FINAL_STATUSES
        table = "archive_open" if ended else "live"
        if ended:
            columns |= dict.fromkeys(("token", "crashes", "interruptions", "progress", "events_count", "attempts"), 1)
        names = [*columns, *times, *(["finished_at"] if ended else [])]
        values = [*(f"%({name})s" for name in columns), *["clock() - %(created)s" for _ in times]]
        values += ["clock() - %(ended)s"] if ended else []
        db.execute(
            f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(values)})".encode(),
            {**columns, "created": timedelta(minutes=job.created), "ended": timedelta(minutes=job.ended)},
        )
    return ids


@settings(max_examples=examples(150))
@given(made=jobs, wanted=filters)
def test_a_count_is_that_of_a_plain_filter(db: Db, queue: JobQueue, made: list[Made], wanted: Filters) -> None:
    put(db, made)
    count = queue.select(**wanted.arguments).count()
    assert count.groups == Counter((job.job_type, job.status) for job in made if wanted.select(job))
    assert count == sum(map(wanted.select, made))


@settings(max_examples=examples(150))
@given(made=jobs, wanted=filters, verb=st.sampled_from(sorted(VERBS)))
def test_a_verb_changes_what_a_plain_filter_has(
    db: Db, queue: JobQueue, made: list[Made], wanted: Filters, verb: str
) -> None:
    # A retry must not fail because of a key: that is another test's.
    ids = put(db, [dataclasses.replace(job, key=None) if verb == "retry" else job for job in made])
    fitting = None if wanted.status is None else [each for each in wanted.status if each in VERBS[verb]]
    wanted = dataclasses.replace(wanted, status=fitting)
    selection = queue.select(**wanted.arguments, everything=wanted == Filters(None, None, None, None, None, None))
    expected = {id for id, job in ids.items() if wanted.select(job) and job.status in VERBS[verb]}
    assert selection.count(verb) == len(expected)  # type: ignore[arg-type]
    changed = getattr(selection, verb)(*([7] if verb == "reprioritise" else []))
    assert (changed, changed.unchanged, changed.skipped) == (len(expected), 0, 0)
    rows = db.execute("SELECT id, status, priority, cancel_requested_at FROM job_details").fetchall()
    now = {row["id"]: row for row in rows}
    for job_id, job in ids.items():
        row = now.get(job_id)
        is_changed = row is None or (row["status"], row["priority"], row["cancel_requested_at"]) != (
            job.status,
            100,
            None,
        )
        assert is_changed is (job_id in expected), job
