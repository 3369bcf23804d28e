"""Functions, operators, types and relations in ``public`` that fit our calls better than PostgreSQL's own: see planted.sql."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

PATH = "public, pg_catalog"
"""A path by which whatever has no schema means what is planted, where there is such."""
FEWEST = 1_500
_SAFE = "-c search_path=pg_catalog,pg_temp"
_PLANTED = """
    SELECT (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace)
        + (SELECT count(*) FROM pg_operator WHERE oprnamespace = 'public'::regnamespace) AS n
"""


def plant(dsn: str, path: str | None = PATH) -> None:
    """Plants, as this login, which may create in public. path: of every session of this database from then on."""
    with psycopg.connect(dsn, autocommit=True, options=_SAFE) as conn:
        conn.execute(sql.SQL(Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")))
        (row,) = conn.execute(_PLANTED).fetchall()
        assert row[0] > FEWEST, f"only {row[0]} could be planted"


def lead_into_it(dsn: str, path: str = PATH) -> None:
    """Sets the path of every session of this database."""
    with psycopg.connect(dsn, autocommit=True, options=_SAFE) as conn:
        database = sql.Identifier(conn.info.dbname)
        conn.execute(sql.SQL("ALTER DATABASE {} SET search_path = {}").format(database, sql.SQL(path)))


def caught(dsn: str) -> list[tuple[Any, ...]]:
    """What was called, and by which role; if all of that was rolled back, how often."""
    with psycopg.connect(dsn, autocommit=True, options=_SAFE) as conn:
        called = conn.execute("SELECT DISTINCT name, role FROM public.caught ORDER BY 1, 2").fetchall()
        times = conn.execute("SELECT last_value FROM public.catches WHERE is_called").fetchall()
        return called or times
