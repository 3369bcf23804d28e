"""The page about recovery has a section for each finding, in the order and under the headings of the doctor's own page."""

from __future__ import annotations

import re

from howdah.doctor import CATALOGUE
from tests.docs.pages import ROOT, prose_of

RECOVER = prose_of(ROOT / "docs/how-to/recover.md")
DOCTOR = prose_of(ROOT / "docs/how-to/doctor.md")


def test_every_finding_has_its_section_and_no_section_is_of_anything_else() -> None:
    assert re.findall(r"^### (.+)$", RECOVER, flags=re.MULTILINE) == [f"`{code}`" for code in CATALOGUE]


def test_the_sections_are_grouped_as_on_the_page_of_the_doctor() -> None:
    here = {
        code: group
        for group, codes in _parts("##", RECOVER)
        for code in re.findall(r"^### `(.+)`$", codes, re.MULTILINE)
    }
    there = {
        code: group
        for group, rows in _parts("###", DOCTOR)
        for code in re.findall(r"^\| \[`([a-z-]+)`\]", rows, re.MULTILINE)
    }
    assert here == there


def test_no_section_is_empty() -> None:
    for code, text in _parts("###", RECOVER):
        assert len(text.split()) >= 20, code


def _parts(mark: str, page: str) -> list[tuple[str, str]]:
    """The titles of one level, each with the text up to the next."""
    titles_and_texts = re.split(rf"^{mark} (.+)$", page, flags=re.MULTILINE)[1:]
    return list(zip(titles_and_texts[::2], titles_and_texts[1::2], strict=True))
