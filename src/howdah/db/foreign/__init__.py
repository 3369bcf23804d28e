"""The caller's transaction on a connection that is not psycopg's: of psycopg2, asyncpg, SQLAlchemy or Django.

The same plans run there. A statement goes as one text with parameters that are texts, and its rows come back as texts (``wire``), so
that the caller's settings and converters change nothing. A link is what differs between the drivers (``links``). Their errors become
those of psycopg inside of a plan, and are ours, or the driver's own again, when it ends (``errors``).

No driver is imported here: a connection is recognised by the module of its class.
"""

from __future__ import annotations

from howdah.db.foreign.session import run_awaiting, run_blocking

__all__ = ["run_awaiting", "run_blocking"]
