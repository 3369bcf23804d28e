"""The database of a Django project as a DSN: workers and migrations have connections of their own."""

from __future__ import annotations

from typing import Any

from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo


def dsn_of(connection: Any) -> str:
    """The DSN of a connection of Django, with its role. What only Django's driver knows is left out."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    given = connection.get_connection_params()
    if role := connection.settings_dict.get("OPTIONS", {}).get("assume_role"):
        quoted = role.replace("\\", "\\\\").replace(" ", "\\ ")
        given["options"] = f"{given.get('options') or ''} -c role={quoted}".strip()
    return make_conninfo(**{name: str(value) for name, value in given.items() if name in known and value is not None})
