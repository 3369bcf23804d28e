"""The SQL of the bench's own: ``sql/bench``."""

from __future__ import annotations

from psycopg import sql

from howdah.db.statements import render, source


def statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render(source(f"bench/{name}"), schema))
