"""No job is ever made under the id of another, live or ended, whatever the id looks like and by whatever door it comes."""

from __future__ import annotations

import time
import uuid

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EMPTY, Db
from tests.properties.examples import examples

DAY = 86_400_000


def version_7(age: int, low: int) -> uuid.UUID:
    """One that was made so many milliseconds ago, or will be."""
    made = int(time.time() * 1000) - age
    return uuid.UUID(int=(made << 80) | (7 << 76) | (low >> 62 << 64) | (2 << 62) | (low & (1 << 62) - 1))


IDS = st.one_of(
    st.uuids(version=4),
    st.builds(version_7, st.integers(-3 * DAY, 3 * DAY), st.integers(0, (1 << 74) - 1)),
    st.builds(version_7, st.integers(-2_000, 2_000), st.integers(0, (1 << 74) - 1)),
    st.sampled_from([uuid.UUID(int=0), uuid.UUID(int=(1 << 128) - 1)]),
)
DOORS = {
    "enqueue": "SELECT created FROM enqueue('second', p_id => %(id)s)",
    "enqueue with a key": "SELECT created FROM enqueue('second', p_id => %(id)s, p_key => 'k')",
    "a plain INSERT": "INSERT INTO jobs (id, job_type) VALUES (%(id)s, 'second') RETURNING true AS created",
    "a plain INSERT of many": (
        "INSERT INTO jobs (id, job_type) VALUES (gen_random_uuid(), 'other'), (%(id)s, 'second'), (NULL, 'other') RETURNING true AS created"
    ),
    "a plain INSERT that hides it": (
        "INSERT INTO jobs (id, job_type, data) VALUES (%(id)s, 'second', '{}'),"
        " (NULL, 'other', to_jsonb(set_config('jobs.id_was_given', '', true))) RETURNING true AS created"
    ),
    "a plain INSERT of an ended job": (
        "INSERT INTO jobs (id, job_type, status) VALUES (%(id)s, 'second', 'failed') RETURNING true AS created"
    ),
}


def make(db: Db, first: str, id: uuid.UUID, life: str) -> None:
    """A job under this id, in the table that its status names."""
    if first == "a plain INSERT":
        db.execute("INSERT INTO jobs (id, job_type) VALUES (%s, 'first')", (id,))
    else:
        assert db.execute("SELECT created FROM enqueue('first', p_id => %s)", (id,)).fetchall() == [{"created": True}]
    if life == "pending":
        return
    db.execute("SELECT complete(array_agg(c.id), array_agg(c.token)) FROM claim('w', ARRAY['first']) AS c")
    for _ in range(("ended", "in a closed segment", "in an older segment").index(life)):
        db.execute("SELECT rotate('0')")
        db.execute(
            "SELECT complete(array_agg(c.id), array_agg(c.token)) FROM enqueue('x'), claim('w', ARRAY['x']) AS c"
        )


@pytest.mark.parametrize("door", DOORS)
def test_an_id_is_that_of_one_job(db: Db, door: str) -> None:
    @settings(max_examples=examples(60))
    @given(
        IDS,
        st.sampled_from(["enqueue", "a plain INSERT"]),
        st.sampled_from(["pending", "ended", "in a closed segment", "in an older segment"]),
    )
    def check(id: uuid.UUID, first: str, life: str) -> None:
        db.execute(f"{EMPTY}; SELECT howdah.prune('0')".encode())
        make(db, first, id, life)
        before = db.execute("SELECT * FROM job_details WHERE id = %s", (id,)).fetchall()
        assert len(before) == 1
        try:
            created = [row["created"] for row in db.execute(DOORS[door].encode(), {"id": id}).fetchall()]
        except psycopg.errors.UniqueViolation:
            created = [False]
        assert created == [False]
        assert db.execute("SELECT * FROM job_details WHERE id = %s", (id,)).fetchall() == before
        assert db.execute("SELECT count(*) AS n FROM jobs WHERE job_type IN ('second', 'other')").fetchone() == {"n": 0}

    check()
