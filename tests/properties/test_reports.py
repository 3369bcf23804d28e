"""The record of a job's progress stays sane, whatever a job reports and however unevenly."""

from __future__ import annotations

import dataclasses
import itertools
import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import Db
from tests.properties.examples import examples

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
# As progress calls it, one report upon the other.
FOLD = """
WITH RECURSIVE fold AS (
    SELECT 0 AS place, NULL::jsonb AS report
    UNION ALL
    SELECT f.place + 1, merged_progress(f.report, s.token, s.token::int, %(begin)s + s.started, %(begin)s + s.at, s.percent, s.done, s.total)
    FROM fold AS f
    JOIN unnest(%(tokens)s::bigint[], %(starteds)s::interval[], %(ats)s::interval[],
        %(percents)s::float8[], %(dones)s::float8[], %(totals)s::float8[])
        WITH ORDINALITY AS s (token, started, at, percent, done, total, place) ON s.place = f.place + 1
)
SELECT report FROM fold WHERE place > 0 ORDER BY place
"""


@dataclasses.dataclass(frozen=True)
class Said:
    """One report: so many milliseconds after the one before it, of the same attempt or of a new one."""

    gap: int
    percent: float | None = None
    done: float | None = None
    total: float | None = None
    anew: bool = False

    @property
    def moves(self) -> bool:
        return (self.percent, self.done, self.total) != (None, None, None)


def records(db: Db, said: list[Said]) -> tuple[list[float], list[int], list[dict[str, Any]]]:
    """The time of each report, its attempt, and the record after it."""
    ats = [timedelta(milliseconds=ms) for ms in itertools.accumulate(each.gap for each in said)]
    attempts = list(itertools.accumulate((int(each.anew) for each in said), initial=1))[1:]
    starteds = [ats[attempts.index(attempt)] - timedelta(seconds=3) for attempt in attempts]
    rows = db.execute(
        FOLD,
        {
            "begin": BEGIN,
            "tokens": attempts,
            "starteds": starteds,
            "ats": ats,
            "percents": [each.percent for each in said],
            "dones": [each.done for each in said],
            "totals": [each.total for each in said],
        },
    ).fetchall()
    return [(BEGIN + at).timestamp() for at in ats], attempts, [row["report"] for row in rows]


gaps = st.sampled_from([0, 0, 1, 250, 400, 1_000, 2_500, 10_000, 61_000, 4_000_000]) | st.integers(0, 100_000)
numbers = st.floats(-10, 110).map(lambda number: round(number, 3))
counts = st.sampled_from([0.0, 1.0, 1e18, -1e18]) | st.floats(0, 1000).map(lambda number: round(number, 3))
words = st.one_of(
    st.builds(Said, gaps, percent=numbers),
    st.builds(Said, gaps, percent=numbers, done=counts, total=counts),
    st.builds(Said, gaps, done=counts),
    st.builds(Said, gaps),
    st.builds(Said, gaps, percent=numbers, anew=st.booleans()),
)


def numbers_in(record: dict[str, Any]) -> list[object]:
    flat = [value for name, value in record.items() if name != "points"]
    return [*flat, *itertools.chain.from_iterable(record["points"])]


@settings(max_examples=examples(200))
@given(said=st.lists(words, min_size=1, max_size=120))
def test_the_record_of_anything_is_sane(db: Db, said: list[Said]) -> None:
    ats, attempts, found = records(db, said)
    moved: list[tuple[float, int]] = []
    for at, attempt, word, record in zip(ats, attempts, said, found, strict=True):
        if word.moves:
            moved.append((at, attempt))
        assert all(isinstance(value, (int, float)) and math.isfinite(value) for value in numbers_in(record)), record
        assert (record["at"], record["attempt"], record["token"]) == (pytest.approx(at, abs=0.0011), attempt, attempt)
        assert 0 <= record["percent"] <= 100
        assert record.get("rate", 0) >= 0
        assert record.get("pace", 0) >= 0
        assert record.get("eta", math.inf) >= record["at"] >= record["first"]
        assert record["stalls"] - record["at"] == pytest.approx(max(30, 5 * record["gap"]), abs=0.01)
        check_points(record, moved)


def check_points(record: dict[str, Any], moved: list[tuple[float, int]]) -> None:
    points = record["points"]
    assert len(points) <= 40
    assert all(0 <= percent <= 100 for _, percent, _ in points)
    for earlier, later in itertools.pairwise(points):
        assert earlier[0] < later[0] or (earlier[0] == later[0] and earlier[2] < later[2])
        assert earlier[2] <= later[2]
    assert bool(points) == bool(moved)
    for point, (at, attempt) in zip(points[:1] + points[-1:], moved[:1] + moved[-1:], strict=True):
        assert (point[0], point[2]) == (pytest.approx(at, abs=0.0011), attempt)


@settings(max_examples=examples(100))
@given(steps=st.lists(st.tuples(st.integers(1, 100_000), st.integers(0, 1_000)), min_size=2, max_size=60))
def test_a_rate_is_never_beyond_the_slowest_and_the_fastest_that_was_seen(db: Db, steps: list[tuple[int, int]]) -> None:
    dones = list(itertools.accumulate(done for _, done in steps))
    said = [Said(gap, done=float(done)) for (gap, _), done in zip(steps, dones, strict=True)]
    seen = [done / (gap / 1000) for gap, done in steps[1:]]
    _, _, found = records(db, said)
    assert "rate" not in found[0]
    for place, record in enumerate(found[1:], start=1):
        assert min(seen[:place]) - 0.001 <= record["rate"] <= max(seen[:place]) + 0.001


@settings(max_examples=examples(100))
@given(gaps=st.lists(st.integers(100, 400_000), min_size=2, max_size=40))
def test_the_expected_end_of_a_steady_job_is_right_however_unevenly_it_reports(db: Db, gaps: list[int]) -> None:
    """The percent that one sees are rounded to hundredths, so the end is right to a few of these."""
    whole = 2 * sum(gaps)
    ats = list(itertools.accumulate(gaps))
    said = [Said(gap, percent=100 * at / whole) for gap, at in zip(gaps, ats, strict=True)]
    _, _, found = records(db, said)
    end = BEGIN.timestamp() + whole / 1000
    for place, record in enumerate(found[1:], start=1):
        since = (ats[place] - ats[0]) / whole
        if since > 0.2:
            assert record["eta"] == pytest.approx(end, abs=0.05 * whole / 1000)


@settings(max_examples=examples(50))
@given(every=st.integers(1, 300_000), reports=st.integers(100, 400))
def test_the_points_are_spread_over_all_of_a_long_job(db: Db, every: int, reports: int) -> None:
    said = [Said(every, percent=100 * n / reports) for n in range(1, reports + 1)]
    _, _, found = records(db, said)
    points = found[-1]["points"]
    whole = points[-1][0] - points[0][0]
    widest = max(later[0] - earlier[0] for earlier, later in itertools.pairwise(points))
    assert widest <= max(whole / 9, 2 * every / 1000, 2)
