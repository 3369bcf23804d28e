"""The charts of the benchmarks: they have the texts that a reader needs. Their look is matplotlib's."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from benchmarks.charts import bars, lines

from benchmarks import plots

_SVG = "{http://www.w3.org/2000/svg}"


def texts(picture: str) -> set[str]:
    return {"".join(element.itertext()).strip() for element in ET.fromstring(picture).iter(f"{_SVG}text")}


def test_bars_have_a_title_labels_values_and_a_unit() -> None:
    picture = bars("Drain <one process>", "jobs/s", [("howdah & co", 41_234, 40_000, 44_000, "")])
    assert {"Drain <one process>", "howdah & co", "41,200", "jobs/s"} <= texts(picture)


def test_groups_have_a_legend_where_there_are_several() -> None:
    assert "ours" not in texts(bars("t", "u", [("a", 1, 1, 1, "ours"), ("b", 2, 2, 2, "ours")]))
    assert {"ours", "theirs"} <= texts(bars("t", "u", [("a", 1, 1, 1, "ours"), ("b", 2, 2, 2, "theirs")]))


def test_lines_have_a_title_labels_and_names() -> None:
    series = {"howdah": [(1.0, 45.0), (2.0, 44.0)], "another": [(2.0, 4.7), (1.0, 7.0)]}
    assert {"Backlog", "pending jobs", "jobs/s", *series} <= texts(lines("Backlog", "pending jobs", "jobs/s", series))


def test_the_same_figures_make_the_same_picture() -> None:
    rows = [("a", 20.0, 10.0, 40.0, "")]
    assert bars("t", "ms", rows) == bars("t", "ms", rows)


def test_every_stored_result_can_be_drawn() -> None:
    for name, draw in plots.RESULTS.items():
        result = json.loads((plots.HERE / "results" / f"{name}.json").read_text())
        assert all(texts(picture) for _, picture in draw(result))
