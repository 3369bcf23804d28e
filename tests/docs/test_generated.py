"""What is made from the code is as the code has it: ``make docs`` makes it anew."""

from __future__ import annotations

import sys

import pytest
from docs.diagrams import DRAWINGS
from docs.diagrams.states import moves
from docs.generate.pages import PAGES as GENERATED
from docs.generate.pages import ROOT as REFERENCE

import howdah
from howdah import JobQueue
from tests.docs.pages import ROOT


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_up_to_date(name: str) -> None:
    if name == "options.md" and sys.version_info >= (3, 13):
        pytest.skip("argparse breaks the lines of a usage otherwise since Python 3.13")
    assert (REFERENCE / name).read_text(encoding="utf-8") == GENERATED[name](), "run: make docs"


@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs/diagrams" / f"{name}.svg").read_text(encoding="utf-8") == DRAWINGS[name](), "run: make docs"


def test_the_reference_has_every_public_name_and_every_verb_with_its_docstring() -> None:
    python = (REFERENCE / "python.md").read_text(encoding="utf-8")
    errors = (REFERENCE / "errors.md").read_text(encoding="utf-8")
    for name in (each for each in howdah.__all__ if not each.startswith("_")):
        assert f"## {name}\n" in python or f"| `{name}` |" in errors, name
    for verb in ("enqueue", "claim", "complete", "watch", "migrate"):
        summary = str(getattr(JobQueue, verb).__doc__).splitlines()[0]
        assert f"### JobQueue.{verb}\n" in python
        assert summary.rstrip() in python


def test_the_drawing_of_the_statuses_has_every_move_of_the_table() -> None:
    words = {word for said in moves().values() for word in said}
    picture = (ROOT / "docs/diagrams/states.svg").read_text(encoding="utf-8")
    assert words - {word for word in words if word in picture} <= {"abandon", "give up"}
