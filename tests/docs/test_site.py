"""The site is built without a warning, needs no network, and can be linked to by other projects."""

from __future__ import annotations

import re
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

import howdah
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


def test_other_projects_can_link_to_every_public_name(site: Path) -> None:
    *_, packed = (site / "objects.inv").read_bytes().split(b"\n", 4)
    entries = {line.split()[0]: line.split()[3] for line in zlib.decompress(packed).decode().splitlines()}
    names = [name for name in howdah.__all__ if not name.startswith("_")]
    verbs = [f"JobQueue.{verb}" for verb in ("enqueue", "aenqueue", "claim", "aclaim", "migrate", "run_worker")]
    for name in (*(f"howdah.{each}" for each in (*names, *verbs)), "howdah.sse.EventStream", "howdah.testing.drain"):
        page, _, anchor = entries[name].partition("#")
        assert f'id="{anchor}"' in (site / page).read_text(encoding="utf-8"), name


def test_every_page_links_to_the_source_and_the_changes(site: Path) -> None:
    for page in (site / "index.html", site / "how-to/handlers.html"):
        text = page.read_text(encoding="utf-8")
        assert re.search(r'href="https://[^"]+">Source code<', text)
        assert re.search(r'href="[./]*changelog\.html"', text)
