"""A schema and a role of plain clients, beside the table jobs."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from psycopg import sql

from tests.conftest import Connect, Db


@pytest.fixture
def own_schema(db: Db) -> Iterator[str]:
    """A schema of the client's own, for its functions and tables."""
    name = f"client_{uuid.uuid4().hex}"
    db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
    yield name
    db.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture
def plain_role(db: Db, connect: Connect) -> Iterator[Db]:
    """A connection of a role that may use jobs as a plain table, and nothing else."""
    role = sql.Identifier(f"plain_{uuid.uuid4().hex}")
    db.execute(sql.SQL("CREATE ROLE {}").format(role))
    db.execute(sql.SQL("GRANT USAGE ON SCHEMA howdah TO {}").format(role))
    db.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE ON jobs TO {}").format(role))
    conn = connect()
    conn.execute(sql.SQL("SET ROLE {}").format(role))
    yield conn
    conn.close()
    db.execute(sql.SQL("DROP OWNED BY {}").format(role))
    db.execute(sql.SQL("DROP ROLE {}").format(role))
