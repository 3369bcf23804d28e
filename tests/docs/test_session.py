"""The runner of the pages finds what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block
from tests.docs.session import Session


@pytest.fixture
def session(dsn: str, tmp_path: Path) -> Iterator[Session]:
    session = Session(dsn, tmp_path, search_path="howdah")
    yield session
    session.close()


def block(language: str, text: str, output: str | None = None) -> Block:
    return Block(ROOT / "README.md", 1, language, text, output)


@pytest.mark.parametrize(
    "good",
    [
        block("python", "print(1 + 1)", "2"),
        block(
            "sql", "SELECT 1 AS one, NULL AS none, true AS yes;", "one | none | yes\n-----+----+---\n 1 | | t\n(1 row)"
        ),
        block("sql", "SELECT 'a' AS id \\gset\nSELECT :'id' AS again;", "again\n---\na\n(1 row)"),
        block("sql", "SELECT 1 / 0;", "ERROR: division by zero"),
        block("console", "$ howdah resume report\nreport was not paused"),
        block("console", "$ howdah show nonsense > answer\n$ echo $?\n2"),
        block("console", "$ make demo"),
        # The last part of a worker's name may look like so many days.
        block("console", "$ python -c 'print(\"web-1:4711:6450621d is ready\")'\nvm:1:9f3c51d2 is ready"),
    ],
    ids=lambda block: f"{block.language}: {block.text}",
)
def test_what_is_right_passes(session: Session, good: Block) -> None:
    session.run(good)


@pytest.mark.parametrize(
    "bad",
    [
        block("python", "print(1 + 1)", "3"),
        block("sql", "SELECT 1 AS one;", "one\n---\n2\n(1 row)"),
        block("sql", "SELECT 1 / 0;"),
        block("console", "$ howdah pause report\nreport goes on"),
        block("console", "$ howdah show nonsense > answer"),
        block("console", "$ howdah show nonsense > answer\n$ echo $?\n1"),
        block("console", "$ make tea"),
        block("console", "$ pip install 'howdah[tea]'"),
        block("console", "$ pip install 'howdah[top,tea]' pytest"),
        block("console", "$ pip install tea"),
        block("console", "$ rm -r somewhere"),
    ],
    ids=lambda block: f"{block.language}: {block.text}",
)
def test_what_is_wrong_fails(session: Session, bad: Block) -> None:
    with pytest.raises(AssertionError):
        session.run(bad)
