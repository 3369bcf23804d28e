"""The table of docs/explanation/faults.md, from the outcomes of a whole run: ``python -m tests.faults --out docs/faults/results.json``, and then
``python -m tests.faults.page``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.faults.case import Case
from tests.faults.catalogue import CATALOGUE

DOCS: Final = Path(__file__).parents[2] / "docs"
PAGE: Final = DOCS / "explanation" / "faults.md"
RESULTS: Final = DOCS / "faults" / "results.json"
PLACE: Final = re.compile(r"(?<=<!-- outcomes -->\n).*?(?=<!-- end of outcomes -->)", re.DOTALL)

Outcomes = Sequence[Mapping[str, Any]]


def table(outcomes: Outcomes) -> Iterator[str]:
    lost, doubled = (sum(each[what] for each in outcomes) for what in ("lost", "doubled"))
    yield f"In all cases together, {lost or 'no'} jobs were lost, and {doubled or 'none'} doubled."
    yield ""
    majors = sorted({each["major"] for each in outcomes}, reverse=True)
    found = {(each["case"], each["major"]): each for each in outcomes}
    yield "| | case | what happens | checks | " + " | ".join(f"PostgreSQL {major}" for major in majors) + " |"
    yield "| --- |" + " --- |" * (3 + len(majors))
    for case in CATALOGUE:
        cells = (_cell(found.get((case.name, major))) for major in majors)
        yield f"| {case.number} | `{case.name}` | {_story(case)} | {' '.join(case.checks)} | {' | '.join(cells)} |"


def _story(case: Case) -> str:
    return " ".join(case.story.split("\n\n")[0].split()).replace("|", "\\|")


def _cell(outcome: Mapping[str, Any] | None) -> str:
    if outcome is None:
        return "–"
    if outcome["outcome"] == "skipped":
        return f"skipped: {outcome['reason']}"
    slowest = "" if outcome["slowest"] is None else f", back after {outcome['slowest']:.1f} s"
    bad = "".join(f", **{outcome[what]} {what}**" for what in ("lost", "doubled") if outcome[what])
    return f"{outcome['outcome']}: {_count(outcome['jobs'], 'job')}, {_count(outcome['faults'], 'fault')}{bad}{slowest}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def page(text: str, outcomes: Outcomes) -> str:
    made = "\n".join(table(outcomes))
    return PLACE.sub(lambda _: f"\n{made}\n\n", text)


def main() -> None:
    outcomes = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), outcomes), encoding="utf-8")


if __name__ == "__main__":
    main()
