"""The charts of a bench: scales on which everything has its place, and pictures that say what a reader needs."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from howdah.bench.plot import Bar, bar_panel, bars, document, line_panel, lines
from howdah.bench.scale import Scale, linear_ticks, log_ticks

_SVG = "{http://www.w3.org/2000/svg}"

MEASURED = st.floats(min_value=1e-6, max_value=1e12)
SIGNED = st.floats(min_value=-1e12, max_value=1e12).filter(lambda value: not value or abs(value) > 1e-6)
WORDS = st.text(min_size=1, max_size=20)
ROWS = st.lists(
    st.builds(
        lambda label, values, group: (label, sorted(values)[1], min(values), max(values), group),
        WORDS,
        st.tuples(MEASURED, MEASURED, MEASURED),
        st.sampled_from(["", "ours", "theirs"]),
    ),
    min_size=1,
    max_size=12,
)


def elements(picture: str, tag: str) -> list[ET.Element]:
    return list(ET.fromstring(picture).iter(f"{_SVG}{tag}"))


def texts(picture: str) -> list[str]:
    return [element.text or "" for element in elements(picture, "text")]


def placed(element: ET.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


# Scales


@given(SIGNED, SIGNED)
def test_linear_ticks_are_few_round_and_around_both(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assume(low == high or high - low > 1e-9 * max(abs(low), abs(high)))
    ticks = linear_ticks(low, high)
    assert ticks[0] <= low
    assert high <= ticks[-1]
    assert 2 <= len(ticks) <= 6
    steps = [after - before for before, after in pairwise(ticks)]
    assert steps == pytest.approx([steps[0]] * len(steps))
    assert f"{steps[0]:.0e}"[0] in "125"


@given(MEASURED, MEASURED)
def test_log_ticks_are_few_growing_and_around_both(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = log_ticks(low, high)
    assert ticks[0] <= low
    assert high <= ticks[-1]
    assert 2 <= len(ticks) <= 13
    assert all(before < after for before, after in pairwise(ticks))
    assert all(f"{tick:.0e}"[0] in "125" for tick in ticks)


def test_ticks_are_the_numbers_that_people_write() -> None:
    assert linear_ticks(0, 0.3) == [0, 0.1, 0.2, 0.3]
    assert linear_ticks(0, 41_234) == [0, 10_000, 20_000, 30_000, 40_000, 50_000]
    assert linear_ticks(0, 0) == [0, 0.2, 0.4, 0.6, 0.8, 1]


@pytest.mark.parametrize("minutes", [0.08, 1, 2, 10, 10.3, 47])
def test_an_axis_of_time_ends_with_the_time(minutes: float) -> None:
    scale = Scale.until(minutes, 100, 700)
    assert (scale.at(0), scale.at(minutes)) == (100, 700)
    assert 3 <= len(scale.ticks) <= 12
    assert scale.ticks[-1] <= minutes


def test_an_axis_without_any_time_is_still_one() -> None:
    assert Scale.until(0, 100, 700).at(0) == 100

    assert log_ticks(3, 70) == [2, 5, 10, 20, 50, 100]
    assert log_ticks(4.7, 45_000) == [1, 10, 100, 1_000, 10_000, 100_000]


@given(st.lists(MEASURED, min_size=1, max_size=20), st.booleans())
def test_every_value_has_its_place_on_the_scale_in_the_order_of_the_values(values: list[float], log: bool) -> None:
    scale = Scale.over(values, 100, 700, log=log)
    places = [scale.at(value) for value in sorted(values)]
    assert all(before <= after for before, after in pairwise(places))
    assert all(100 - 1e-6 <= place <= 700 + 1e-6 for place in places)
    assert scale.at(scale.ticks[0]) == 100
    assert scale.at(scale.ticks[-1]) == 700


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf]])
def test_a_scale_of_what_is_no_number_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        Scale.over(values, 0, 1)


def test_a_logarithmic_scale_has_no_zero() -> None:
    with pytest.raises(ValueError, match="no place for 0"):
        Scale.over([0, 5], 0, 1, log=True)


# Bars


@given(WORDS, WORDS, ROWS)
def test_bars_are_xml_with_every_label_and_inside_of_the_picture(title: str, unit: str, rows: list[Bar]) -> None:
    picture = bars(title, unit, rows)
    root = ET.fromstring(picture)
    width, height = placed(root, "width", "height")
    drawn = [rect for rect in root.iter(f"{_SVG}rect") if rect.find(f"{_SVG}title") is not None]
    assert len(drawn) == len(rows)
    for rect in drawn:
        x, y, wide, high = placed(rect, "x", "y", "width", "height")
        assert 0 <= x <= x + wide <= width
        assert 0 <= y <= y + high <= height
    groups = {group for *_, group in rows}
    assert sum(text in groups for text in texts(picture)) >= (len(groups - {""}) if len(groups) > 1 else 0)


def test_bars_say_what_a_reader_needs() -> None:
    picture = bars("Drain <one process>", "jobs/s", [("howdah & co", 41_234, 40_000, 44_000, "")])
    assert {"Drain <one process>", "howdah & co", "41,200", "jobs/s", "0", "50,000"} <= set(texts(picture))
    (said,) = (title.text for rect in elements(picture, "rect") for title in rect)
    assert said == "howdah & co: 41,200 jobs/s, from 40,000 to 44,000"
    assert ET.fromstring(picture).attrib["aria-label"] == "Drain <one process>"


def test_a_bar_ends_at_the_median_and_its_spread_goes_from_the_lowest_to_the_highest() -> None:
    picture = bars("t", "ms", [("a", 20, 10, 40, ""), ("b", 30, 30, 30, "")])
    spreads = [line for line in elements(picture, "line") if line.get("class") == "spread"]
    across = [placed(line, "x1", "x2") for line in spreads if line.attrib["y1"] == line.attrib["y2"]]
    ((low, high),) = across
    first, second = (rect for rect in elements(picture, "rect") if len(rect))
    left, wide = placed(first, "x", "width")
    unit = wide / 20
    assert (low - left) / unit == pytest.approx(10, abs=0.1)
    assert (high - left) / unit == pytest.approx(40, abs=0.1)
    assert placed(second, "width")[0] / unit == pytest.approx(30, abs=0.1)


def test_groups_have_colours_and_a_legend_where_there_are_several() -> None:
    alone = bars("t", "u", [("a", 1, 1, 1, "ours"), ("b", 2, 2, 2, "ours")])
    assert "ours" not in texts(alone)
    picture = bars("t", "u", [("a", 1, 1, 1, "ours"), ("b", 2, 2, 2, "theirs"), ("c", 2, 2, 2, "ours")])
    assert {"ours", "theirs"} <= set(texts(picture))
    a, b, c = (rect.attrib["class"] for rect in elements(picture, "rect") if len(rect))
    assert a == c != b


def test_colours_follow_light_and_dark() -> None:
    (style,) = elements(bars("t", "u", [("a", 1, 1, 1, "")]), "style")
    light, _, dark = (style.text or "").partition("@media(prefers-color-scheme:dark)")
    for name in ("text", ".paper", ".grid", ".spread", ".c0"):
        (by_day,), (by_night,) = (
            re.findall(rf"[}}{{]{re.escape(name)}{{([^}}]+)", f"}}{part}") for part in (light, dark)
        )
        assert by_day != by_night


def test_several_charts_stand_below_each_other_under_their_title() -> None:
    one, other = bar_panel("first", "u", [("a", 1, 1, 1, "")]), bar_panel("second", "u", [("b", 1, 1, 1, "")])
    picture = document("both", [one, other])
    moves = [element.attrib["transform"] for element in elements(picture, "g")]
    first, second = (float(move.partition(" ")[2].rstrip(")")) for move in moves)
    assert second == first + one.height
    assert float(ET.fromstring(picture).attrib["height"]) >= second + other.height
    assert {"both", "first", "second"} <= set(texts(picture))


# Lines


@given(
    st.dictionaries(WORDS, st.lists(st.tuples(MEASURED, MEASURED), min_size=1, max_size=8), min_size=1, max_size=10),
    st.booleans(),
    st.booleans(),
)
def test_lines_are_xml_with_every_point_inside_of_the_picture(
    series: dict[str, list[tuple[float, float]]], log_x: bool, log_y: bool
) -> None:
    picture = lines("t", "x", "y", series, log_x=log_x, log_y=log_y)
    width, height = placed(ET.fromstring(picture), "width", "height")
    dots = [placed(dot, "cx", "cy") for dot in elements(picture, "circle")]
    assert len(dots) == sum(map(len, series.values()))
    assert all(0 <= x <= width and 0 <= y <= height for x, y in dots)
    assert len(elements(picture, "polyline")) == len(series)


def test_lines_say_what_a_reader_needs() -> None:
    series = {"howdah": [(1.0, 45_000.0), (1e6, 44_000.0)], "another": [(1e6, 4.7), (1.0, 770.0)]}
    picture = lines("Backlog", "pending jobs", "jobs/s", series, log_x=True, log_y=True)
    assert {"Backlog", "pending jobs", "jobs/s", "howdah", "another", "1,000,000", "10"} <= set(texts(picture))
    up, down = (placed(dot, "cx", "cy") for dot in elements(picture, "circle")[2:])
    assert up[0] < down[0], "points are joined in the order of x"
    assert up[1] < down[1], "more is higher"


@pytest.mark.parametrize("empty", [lambda: bar_panel("t", "u", []), lambda: line_panel("t", "x", "y", {"a": []})])
def test_nothing_cannot_be_drawn(empty: object) -> None:
    assert callable(empty)
    with pytest.raises(ValueError, match="nothing to draw"):
        empty()


def test_no_name_breaks_the_picture() -> None:
    picture = bars("</title>\0<script>", "\x1b", [("]]>&<\ud800", 1, 1, 1, "")])
    assert ET.fromstring(picture.encode()).find(f"{_SVG}script") is None
    assert "]]>&<�" in texts(picture)
