"""Rates, means and the order of rows."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console
from rich.text import Text

from howdah import Stats, TypeStats
from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.top import cells, details, jobs, plain
from howdah.cli.commands.top.cells import Column, ordered
from howdah.cli.commands.top.job_types import joint_throughput
from howdah.cli.commands.top.plain import address
from howdah.cli.commands.top.snapshot import RUNNING, WINDOW, Rates, Snapshot
from howdah.model.worker_info import Throughput
from tests.cli.sample import job, moment, record


def snapshot(clock: float, **ended: int) -> Snapshot:
    stats = Stats({name: TypeStats(completed=count) for name, count in ended.items()})
    return Snapshot(now(), clock, stats, (), RUNNING, (), False)


def test_a_rate_needs_two_snapshots_and_is_the_mean_of_some_seconds() -> None:
    rates = Rates()
    rates.add(snapshot(100, mail=1_000))
    assert (rates.of("mail"), rates.total) == (None, None)
    rates.add(snapshot(102, mail=1_010, report=4))
    assert (rates.of("mail"), rates.of("report"), rates.of("nothing")) == (5, 2, 0)
    assert rates.total == 7
    rates.add(snapshot(103 + WINDOW, mail=1_010, report=4))
    rates.add(snapshot(104 + WINDOW, mail=1_010, report=4))
    assert rates.total == 0


def test_counts_that_were_dropped_are_no_negative_rate() -> None:
    rates = Rates()
    rates.add(snapshot(0, mail=1_000))
    rates.add(snapshot(1, mail=10))
    assert rates.of("mail") == 0


def test_joint_averages_are_weighted_by_throughput() -> None:
    assert joint_throughput([]) is None
    assert joint_throughput([Throughput(1, 4, 8), Throughput(3, 8, 0)]) == Throughput(4, 7, 2)
    assert joint_throughput([Throughput(0, 4, 8), Throughput(0, 8, 0)]) == Throughput(0, 6, 4)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("number", [False, True])
def test_what_has_no_value_comes_last_in_either_direction(backwards: bool, number: bool) -> None:
    column: Column[int | None] = Column("n", lambda _: Text(), lambda n: n, number)
    expected = [3, 2, 1] if number is not backwards else [1, 2, 3]
    assert ordered([None, 2, 1, None, 3], column, backwards=backwards) == [*expected, None, None]


@pytest.mark.parametrize(
    ("value", "shown"), [(None, ""), (0, "0"), (0.001, "<0.01"), (0.25, "0.25"), (7.49, "7.5"), (12_345.6, "12,346")]
)
def test_rates_have_the_digits_that_help(value: float | None, shown: str) -> None:
    assert cells.per_second(value).plain == shown


@pytest.mark.parametrize("percent", [0, 0.4, 33.3, 50, 99.99, 100, 250, -3])
def test_a_bar_is_as_wide_as_another(percent: float) -> None:
    assert cells.bar(percent, "").cell_len == cells.bar(50, "").cell_len
    assert ("100%" in cells.bar(percent, "").plain) == (percent >= 100)


@pytest.mark.parametrize(
    ("dsn", "shown"),
    [
        ("postgresql://ann:s3cret@db.example.org:5433/jobs", "ann@db.example.org:5433/jobs"),
        ("postgresql://ann:s3:cr%40et@h1,h2/jobs", "ann@h1,h2/jobs"),
        ("host=db dbname=jobs user=ann password='s3 cret'", "ann@db/jobs"),
        ("dbname=jobs", "jobs"),
        ("", "/"),
    ],
)
def test_the_address_has_no_secret(dsn: str, shown: str) -> None:
    assert address(dsn) == shown


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"record": record(50, rate=2.0, finishes_at=moment(9))}, ("████····  50%", "2/s", "9.0s")),
        ({"record": record(50, rate=2.0, finishes_at=moment(-1))}, ("████····  50%", "2/s", "")),
        ({"record": record(50, rate=2.0, finishes_at=moment(9)), "stalled": True}, ("████····  50%", "", "")),
        ({"record": record(0)}, ("········   0%", "", "")),
        ({}, ("", "", "")),
    ],
    ids=["it goes on", "it is late", "it has stalled", "it has begun", "it shows nothing"],
)
def test_of_a_job_only_what_is_known_is_shown(changes: dict[str, Any], shown: tuple[str, ...]) -> None:
    row = jobs.Row(job(**changes), moment())
    cells = {column.title: column.cell(row).plain for column in jobs.COLUMNS["running"]}
    assert (cells["done"], cells["rate"], cells["left"]) == shown


def test_an_error_of_several_lines_is_one_among_the_facts() -> None:
    console = Console(width=80)
    with console.capture() as shown:
        console.print(details.describe(details.Known(job(last_error="too bad\nbecause of this"), None, [])))
    assert [line.split() for line in shown.get().splitlines() if "bad" in line] == [["last", "error", "too", "bad"]]


def test_a_colour_ends_where_its_word_does() -> None:
    for made, word in ((cells.bar(50, "red"), "████····"), (plain.totals(snapshot(1, mail=7), Rates()), "7")):
        assert not made.style
        assert [made.plain[span.start : span.end] for span in made.spans if span.style in ("red", "green")] == [word]
