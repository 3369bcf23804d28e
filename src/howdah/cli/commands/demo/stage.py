"""The schema that the demo runs in: created by a demo, and cleared by the next one."""

from __future__ import annotations

import contextlib
from importlib import resources
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from howdah.db.statements import render
from howdah.errors import InvalidInput, SchemaError
from howdah.queue import JobQueue


def set_up(queue: JobQueue) -> None:
    """An empty queue. Drops what an earlier demo left, and refuses a schema that no demo made."""
    _refuse_beside_others(queue)
    with psycopg.connect(queue.dsn, row_factory=dict_row) as conn:
        found = conn.execute(_script("owner", queue.schema)).fetchone()
        assert found is not None
        if found["is_there"] and not found["is_of_a_demo"]:
            raise InvalidInput(
                f"there is a schema {queue.schema} that the demo did not make, and the demo clears the one that it runs"
                " in: name one that does not exist, by --schema, or drop this one"
            )
        conn.execute(_script("clear", queue.schema))
        conn.execute(_script("make", queue.schema))
    queue.migrate(adopt=False)


def clear_away(queue: JobQueue) -> None:
    """Drops the schema."""
    with psycopg.connect(queue.dsn) as conn:
        conn.execute(_script("clear", queue.schema))


def _refuse_beside_others(queue: JobQueue) -> None:
    """Two demos in one schema would claim and drop each other's jobs."""
    # Without a schema, or with one of another version, no worker can be running in it.
    with contextlib.suppress(SchemaError):
        if any(worker.alive for worker in queue.workers()):
            raise InvalidInput(
                f"workers are busy in schema {queue.schema}, perhaps those of another demo: wait for its end, or name"
                " another schema by --schema"
            )


def _script(name: str, schema: str) -> sql.SQL:
    text: Any = resources.files(__package__).joinpath(f"{name}.sql").read_text(encoding="utf-8")
    return sql.SQL(render(text, schema))
