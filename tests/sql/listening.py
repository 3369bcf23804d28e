"""Connections that listen, and what they heard.

That nothing came is seen by a sentinel: notifications arrive in the order of their commits.
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


def heard(listener: Db, db: Db) -> list[str]:
    """What it was notified of up to now."""
    sentinel = str(uuid.uuid4())
    db.execute("SELECT pg_notify(channel(), %s)", (sentinel,))
    payloads: list[str] = []
    for notification in listener.notifies(timeout=60):
        if notification.payload == sentinel:
            return payloads
        payloads.append(notification.payload)
    raise AssertionError("the sentinel did not arrive")
