"""Connections that listen, and the notifications that they received.

A sentinel shows that nothing else came: notifications arrive in the order of their commits.
"""

from __future__ import annotations

import uuid

from psycopg import sql

from tests.conftest import Connect, Db


def listener(connect: Connect) -> Db:
    conn = connect()
    row = conn.execute("SELECT channel() AS name").fetchone()
    assert row is not None
    conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(row["name"])))
    return conn


def received(listener: Db, db: Db) -> list[str]:
    """The notifications up to now."""
    sentinel = str(uuid.uuid4())
    db.execute("SELECT pg_notify(channel(), %s)", (sentinel,))
    payloads: list[str] = []
    for notification in listener.notifies(timeout=60):
        if notification.payload == sentinel:
            return payloads
        payloads.append(notification.payload)
    raise AssertionError("the sentinel did not arrive")
