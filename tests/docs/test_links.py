"""Links between pages lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, name_of, prose_of

_LINK = re.compile(r"\[[^\]]+\]\((?!https?://)(?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (?P<title>.+)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    for link in _LINK.finditer(prose_of(page)):
        target = (page.parent / link["path"]).resolve() if link["path"] else page
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in _anchors(target), link[0]


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, new = set[Path](), {PAGES[0]}
    while new:
        reached |= new
        links = ((page.parent / link["path"]).resolve() for page in new for link in _LINK.finditer(prose_of(page)))
        new = {target for target in links if target in PAGES} - reached
    shipped = {page for page in PAGES if "skill" in page.parts}
    assert set(PAGES) - shipped <= reached


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    titles = (heading["title"] for heading in _HEADING.finditer(prose_of(page)))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
