"""The pictures of the docs: what draws them, that they are whole, and that the commands still look like them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pyte
import pytest
from docs.screens.make import EXPECTED
from docs.screens.picture import CELL_HEIGHT, CELL_WIDTH, svg
from pyte.screens import Char
from textual.binding import Binding

from howdah import JobQueue
from howdah.cli.commands.top import job_types, jobs, workers
from howdah.cli.commands.top.app import Top
from howdah.cli.commands.top.board import Board, Grid
from howdah.cli.commands.watch.lines import line_above
from tests.cli.runner import howdah
from tests.cli.sample import event_update, moment
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs/screens"
NAMES = ("watch", "top", "show")
_SVG = "{http://www.w3.org/2000/svg}"


def cells(written: str, columns: int = 20, lines: int = 3) -> list[list[Char]]:
    screen = pyte.Screen(columns, lines)
    pyte.Stream(screen).feed(written)
    return [[screen.buffer[line][column] for column in range(columns)] for line in range(lines)]


def elements(picture: str, tag: str) -> list[ET.Element]:
    """Of the screen, without its window."""
    return ET.fromstring(picture).findall(f"{_SVG}g/{_SVG}{tag}")


def shown(picture: str) -> list[str]:
    """The text on the screen, read back from where it stands; what is drawn as a shape is left blank."""
    lines: dict[int, str] = {}
    for element in elements(picture, "text"):
        column, line = float(element.attrib["x"]) / CELL_WIDTH, int(element.attrib["y"]) // CELL_HEIGHT
        assert abs(column - round(column)) < 0.01
        lines[line] = f"{lines.get(line, ''):<{round(column)}}{element.text}"
    return [lines.get(number, "") for number in range(max(lines, default=-1) + 1)]


def picture_of(name: str) -> str:
    return (FOLDER / f"{name}.svg").read_text(encoding="utf-8")


# The writer


def test_every_character_stands_in_its_cell() -> None:
    lines = cells("a  b c   d\r\n  \x1b[31mred\x1b[1mbold\x1b[0m x\r\n<&> ]]> \"'")
    assert shown(svg(lines, "t")) == ["a  b c   d", "  redbold x", "<&> ]]> \"'"]
    for element in elements(svg(lines, "t"), "text"):
        assert float(element.get("textLength", CELL_WIDTH)) == pytest.approx(CELL_WIDTH * len(element.text or ""))


def test_a_wide_character_takes_two_cells() -> None:
    first, second = elements(svg(cells("漢字x   y"), "t"), "text")
    assert first.text == "漢字x"
    assert float(first.attrib["textLength"]) == pytest.approx(5 * CELL_WIDTH)
    assert float(second.attrib["x"]) == pytest.approx(8 * CELL_WIDTH)


def test_colours_and_weights_are_kept() -> None:
    picture = svg(cells("\x1b[38;2;1;2;3mx \x1b[0;1;3;4my \x1b[0;7mz\x1b[0m \x1b[48;2;9;8;7m  \x1b[0m"), "t")
    looks = dict(re.findall(r"\.(s\d+)\{([^}]+)\}", picture))
    x, y, z = (looks[element.attrib["class"]] for element in elements(picture, "text"))
    assert x == "fill:#010203"
    assert y.endswith("font-weight:bold;font-style:italic;text-decoration:underline")
    reversed_paper, paper = elements(picture, "rect")
    assert z != y.partition(";")[0] == f"fill:{reversed_paper.get('fill')}"
    assert paper.get("fill") == "#090807"
    assert float(paper.attrib["width"]) == pytest.approx(2 * CELL_WIDTH)


def test_what_is_faint_lies_between_ink_and_paper() -> None:
    # The terminal of the tests keeps faintness as blinking.
    picture = svg(cells("x \x1b[5my"), "t")
    plain, faint = (int(colour, 16) for colour in re.findall(r"\.s\d+\{fill:#(\w+)\}", picture))
    assert 0 < faint < plain


def test_bars_are_drawn_without_gaps() -> None:
    picture = svg(cells("━━━╸  ██▌"), "t")
    assert not elements(picture, "text")
    edges = [float(each.attrib[name]) / CELL_WIDTH for each in elements(picture, "rect") for name in ("x", "width")]
    assert edges == pytest.approx([0, 3, 3, 0.5, 6, 2, 8, 0.5])


def test_nothing_breaks_the_xml() -> None:
    lines = cells("x")
    lines[0][1] = lines[0][1]._replace(data="\x1b\0")
    picture = svg(lines, "</title><&\x07")
    assert shown(picture) == ["x��"]
    title = ET.fromstring(picture).find(f"{_SVG}title")
    assert title is not None
    assert title.text == "</title><&�"


# The pictures


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_whole_and_shows_nothing_of_the_machine(name: str) -> None:
    picture = picture_of(name)
    assert not re.search(r"[^\x20-\x7e\n\xa0-\ud7ff]|\ufffd", picture)
    assert len(picture) < 50_000
    screen = "\n".join(shown(picture))
    assert not re.search(r"/(tmp|home|root|usr|var|work)\b|localhost|Traceback", screen)
    for expected in EXPECTED[name]:
        assert re.search(expected, screen, flags=re.MULTILINE), expected


@pytest.mark.parametrize(
    ("page", "names"), [("README.md", ("watch",)), ("docs/reference/command.md", NAMES)], ids=["README", "command"]
)
def test_the_pages_show_them(page: str, names: tuple[str, ...]) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    shown_there = {((ROOT / page).parent / path).resolve() for path in re.findall(r"!\[[^\]]+\]\(([^)]+\.svg)\)", text)}
    assert shown_there == {FOLDER / f"{name}.svg" for name in names}


# What they show is current


def test_top_has_the_columns_and_keys_of_today() -> None:
    screen = "\n".join(shown(picture_of("top")))
    for columns in (job_types.COLUMNS, jobs.COLUMNS["running"], workers.COLUMNS):
        assert re.search(" +".join(re.escape(column.title) for column in columns), screen)
    for binding in (*Grid.BINDINGS, *Board.BINDINGS, *Top.BINDINGS):
        assert isinstance(binding, Binding)
        if binding.show:
            assert f"{binding.key_display or binding.key} {binding.description}" in screen


def test_the_picture_of_watch_has_the_current_wording() -> None:
    screen = shown(picture_of("watch"))
    lost = {"cause": "worker died", "worker": "photos-1", "run_at": moment().isoformat()}
    failed = {"cause": "failed", "error": "ConnectionError: no answer from ECB", "run_at": moment(3).isoformat()}
    logged = {"logger": "shop", "message": "row 3,500 has no price, it is left out"}
    for update in (
        event_update("status", "pending", lost, job_type="sync_photos"),
        event_update("event", "resumed", {"synced": 400}, job_type="sync_photos"),
        event_update("status", "pending", failed, job_type="fetch_rates"),
        event_update("log", "WARNING", logged, job_type="import_catalog"),
    ):
        assert _without_time_and_id(line_above(update).plain) in map(_without_time_and_id, screen)


def test_show_has_the_sections_and_facts_of_today(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("sync_photos", {"album": "spring", "photos": 1_200})
    for attempt in (1, 2):
        (held,) = queue.claim(["sync_photos"], worker_id=f"photos-{attempt}")
        queue.start(held)
        for done in (200, 400):
            queue.progress(held, stage="upload", done=done, total=1_200)
        queue.checkpoint(held, {"synced": 400})
        if attempt == 1:
            queue.fail(held, "broken", delay=0)
    now = howdah("show", str(job.id), dsn=dsn, COLUMNS="100").out.splitlines()
    picture = shown(picture_of("show"))
    assert _sections(picture) == _sections(now)
    assert (
        {"id", "attempts", "last error", "done", "first report", "created", "worker"} <= _facts(now) <= _facts(picture)
    )


def _without_time_and_id(line: str) -> str:
    return re.sub(r"^[\d:]+ …\w+ ", "", line)


def _sections(screen: list[str]) -> list[str]:
    return [line for line in screen if re.match(r"\w", line)]


def _facts(screen: list[str]) -> set[str]:
    found = (re.match(r"  ([a-z]+( [a-z]+)?)  +\S", line) for line in screen)
    # The lease belongs to loops like the one here, and not to workers.
    return {fact[1] for fact in found if fact} - {"lease until"}
