"""Whatever options calls of enqueue have: sent together, they add the same jobs, and return the same, as sent one by one."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import Exponential, Fixed, Job, JobQueue
from tests.clock import TestClock
from tests.conftest import Db
from tests.properties.examples import examples

SPANS = st.one_of(st.integers(1, 10_000), st.timedeltas(timedelta(milliseconds=1), timedelta(days=30)))
MOMENTS = st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1), timezones=st.just(timezone.utc))  # noqa: DTZ001
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),
        st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)),
    max_leaves=5,
)
DUE = st.one_of(st.just({}), st.builds(lambda at: {"run_at": at}, MOMENTS), st.builds(lambda s: {"delay": s}, SPANS))
EXPIRY = st.one_of(
    st.just({}), st.builds(lambda at: {"expires_at": at}, MOMENTS), st.builds(lambda s: {"expires_in": s}, SPANS)
)
OTHERS = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)),
        "max_attempts": st.integers(1, 2**31 - 1),
        "timeout": SPANS,
        "retry_policy": st.sampled_from([Fixed(3), Exponential(), {"kind": "linear", "delay": 1}]),
        "meta": st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=2),
    },
)
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["mail", "declared", "ordered"]),
        JSON,
        st.builds(lambda *parts: {k: v for part in parts for k, v in part.items()}, DUE, EXPIRY, OTHERS),
    ),
    min_size=3,
    max_size=12,
)


@settings(max_examples=examples(60))
@given(calls=CALLS)
def test_mixed_options_give_the_same_jobs_as_one_by_one(
    calls: list[Any], db: Db, queue: JobQueue, clock: TestClock
) -> None:
    db.execute(
        "SELECT declare_type('declared', p_priority => 7, p_max_attempts => 4, p_timeout => '1 min', p_expires_in => '1 day',"
        """ p_retry_policy => '{"kind": "fixed", "delay": 5}'), declare_type('ordered', p_ordered => true)"""
    )

    async def together() -> list[Job[Any]]:
        return await asyncio.gather(*(queue.aenqueue(name, data, **options) for name, data, options in calls))

    one_by_one = [queue.enqueue(name, data, **options) for name, data, options in calls]
    at_once = asyncio.run(together())
    assert [without_id(job) for job in at_once] == [without_id(job) for job in one_by_one]
    assert rows(db, at_once) == rows(db, one_by_one)
    assert [job.id for job in at_once] == sorted(job.id for job in at_once)
    (added,) = db.execute(
        "SELECT count(DISTINCT xmin::text) FROM live WHERE id = ANY (%s)", ([job.id for job in at_once],)
    )
    assert added["count"] == 2


def without_id(job: Job) -> dict[str, Any]:
    return {each.name: getattr(job, each.name) for each in dataclasses.fields(job) if each.name not in ("id", "_home")}


def rows(db: Db, jobs: list[Job]) -> list[dict[str, Any]]:
    """What is stored for these jobs, in their order."""
    found = db.execute("SELECT * FROM live WHERE id = ANY (%s)", ([job.id for job in jobs],)).fetchall()
    stored = {row.pop("id"): row for row in found}
    return [stored[job.id] for job in jobs]
