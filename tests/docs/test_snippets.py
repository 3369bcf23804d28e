"""What README and docs show works: every block runs against a real PostgreSQL, and prints what is shown."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.docs.pages import PAGES, ROOT, RUNNABLE, Block, blocks_of, name_of, runner_of, wants_empty_database
from tests.docs.session import Session


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_of_a_page_runs_in_order(
    page: Path, dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = wants_empty_database(page)
    with _empty_database(dsn) if empty else contextlib.nullcontext(dsn) as page_dsn:
        page_dsn = _as_url(page_dsn)
        monkeypatch.setenv("HOWDAH_DSN", page_dsn)
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(tmp_path)
        session = Session(page_dsn, tmp_path, search_path=None if empty else "howdah")
        try:
            for block in _runnable(page):
                session.run(block)
        finally:
            session.close()
            _forget_modules_of(tmp_path)
            _drop_tables_of_users(page_dsn)


def _as_url(dsn: str) -> str:
    """As the embedded server gives it: only libpq reads the other form."""
    parts = conninfo_to_dict(dsn)
    user, database = parts.pop("user", ""), parts.pop("dbname", "")
    return dsn if "://" in dsn else f"postgresql://{user}@/{database}?{urlencode(parts)}"


def _forget_modules_of(folder: Path) -> None:
    """Each page has an app.py of its own."""
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_block_escapes(page: Path) -> None:
    for block in blocks_of(page):
        test = runner_of(block)
        assert test is not None, f"{block} is run by no test: write <!-- checked by tests/… --> before it"
        if block.checked_by is not None:
            assert page.name in (ROOT / block.checked_by).read_text(encoding="utf-8"), (
                f"{block}: {test} does not read it"
            )
    indented = [
        line for line in page.read_text(encoding="utf-8").splitlines() if line != line.lstrip() and "```" in line
    ]
    assert not indented
    for block in blocks_of(page):
        if block.language == "console":
            assert block.text.startswith("$ "), f"{block} begins with no command"


def _drop_tables_of_users(dsn: str) -> None:
    """Other pages have tables of the same names."""
    with psycopg.connect(dsn) as conn:
        for (name,) in conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall():
            conn.execute(sql.SQL("DROP TABLE public.{} CASCADE").format(sql.Identifier(name)))


def _runnable(page: Path) -> Iterator[Block]:
    return (block for block in blocks_of(page) if block.language in RUNNABLE)


@contextlib.contextmanager
def _empty_database(dsn: str) -> Iterator[str]:
    name = sql.Identifier("howdah_docs")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {}").format(name))
        conn.execute(sql.SQL("CREATE DATABASE {}").format(name))
        try:
            yield make_conninfo(dsn, dbname="howdah_docs")
        finally:
            conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))
