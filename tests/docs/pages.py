"""The pages of the documentation, and the fenced blocks in them.

The instructions of a page for these tests, in comments that a reader does not see:

- ``<!-- output -->`` before a text block: it is what the block before it prints;
- ``<!-- checked by tests/… -->`` before a block that cannot be run here: this test holds it against the real thing;
- ``<!-- second terminal -->`` before a block: its command goes on beside the blocks that follow, until ``$ Ctrl-C``;
- ``<!-- database: empty -->`` anywhere: the page begins with a database in which Howdah is not installed.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from docs.generate.pages import PAGES as GENERATED
from docs.generate.pages import ROOT as REFERENCE

ROOT = Path(__file__).parents[2]
PAGES = (
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "src/howdah/skill").rglob("*.md")),
)

RUNNABLE = ("python", "sql", "console")

_FENCE = re.compile(r"```(?P<language>\{\w+\}|\w*)")
_COMMENT = re.compile(r"<!-- (?P<text>.+) -->")


@dataclasses.dataclass
class Block:
    """A fenced block; ``line`` is that of its first line of text."""

    page: Path
    line: int
    language: str
    text: str
    output: str | None = None
    in_second_terminal: bool = False
    checked_by: str | None = None

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line} ({self.language})"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def wants_empty_database(page: Path) -> bool:
    return "<!-- database: empty -->" in page.read_text(encoding="utf-8")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page in their order; a block of output is part of the block that prints it."""
    blocks: list[Block] = []
    comment = ""
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), start=1)
    for number, line in lines:
        if not (fence := _FENCE.match(line)):
            if line.strip():
                found = _COMMENT.fullmatch(line.strip())
                comment = found["text"] if found else ""
            continue
        text: list[str] = []
        for _, inner in lines:
            if inner == "```":
                break
            text.append(inner)
        block = Block(page, number + 1, fence["language"], "\n".join(text))
        if block.language.startswith("{"):
            # Directives of the site, such as its table of contents.
            pass
        elif comment == "output":
            blocks[-1].output = block.text
        else:
            block.in_second_terminal = comment == "second terminal"
            if comment.startswith("checked by "):
                block.checked_by = comment.removeprefix("checked by ")
            blocks.append(block)
        comment = ""
    return blocks


def block_of(page: str, beginning: str) -> Block:
    """The one block of a page that begins so."""
    (block,) = [block for block in blocks_of(ROOT / page) if block.text.startswith(beginning)]
    return block


def runner_of(block: Block) -> str | None:
    """The test that runs a block, or that holds it against what it shows."""
    if block.language in RUNNABLE:
        return f"tests/docs/test_snippets.py::test_every_block_of_a_page_runs_in_order[{name_of(block.page)}]"
    if block.page.parent == REFERENCE and block.page.name in GENERATED:
        return f"tests/docs/test_generated.py::test_a_generated_page_is_up_to_date[{block.page.name}]"
    return block.checked_by


def prose_of(page: Path) -> str:
    """The text without what is in fences."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
