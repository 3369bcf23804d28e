"""The SQL of the tests' own: ``sql/testing``."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from howdah.db.statements import render, source


def statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render(source(f"testing/{name}"), schema))


def only_value(conn: psycopg.Connection[Any], name: str, schema: str) -> Any:
    """What a statement returns that returns one value."""
    row = conn.execute(statement(name, schema)).fetchone()
    assert row is not None
    return row[0]
