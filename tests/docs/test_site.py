"""The site is built without a warning, and holds together without the network."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--builder", "html"]
    built = subprocess.run(
        [*command, "--doctree-dir", str(folder / "trees"), str(DOCS), str(folder / "html")],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (built.returncode, built.stderr) == (0, ""), built.stderr
    return folder / "html"


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        assert (site / page.relative_to(DOCS).with_suffix(".html")).exists(), page


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = re.findall(
            r"<(?:script|img|iframe)[^>]+src=\"(https?:[^\"]+)|<link rel=\"stylesheet\"[^>]+href=\"(https?:[^\"]+)",
            text,
        )
        assert not fetched, (page, fetched)
