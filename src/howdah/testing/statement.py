"""The SQL statements of the testing helpers: ``sql/testing``."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

from howdah.db.statements import render, source


def statement(name: str, schema: str) -> sql.SQL:
    return sql.SQL(render(source(f"testing/{name}"), schema))


def only_value(conn: psycopg.Connection[Any], name: str, schema: str) -> Any:
    """The value of a statement that returns a single one."""
    row = conn.execute(statement(name, schema)).fetchone()
    assert row is not None
    return row[0]
