"""Which database and schema hold the jobs: ``HOWDAH_DSN``, else ``DATABASE_URL``, else an embedded PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Mapping

from psycopg import ProgrammingError, conninfo

from howdah.errors import InvalidOption

ENVIRONMENT = ("HOWDAH_DSN", "DATABASE_URL")
DEFAULT_SCHEMA = "howdah"


def configured_dsn(dsn: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The DSN that was passed or is configured; None means the embedded server."""
    if dsn is not None:
        return _checked(dsn, "dsn")
    for name in ENVIRONMENT:
        if environ.get(name):
            return _checked(environ[name], name)
    if empty := next((name for name in ENVIRONMENT if name in environ), None):
        # Probably by a secret that is missing. Jobs in a new embedded server would be lost from sight.
        raise InvalidOption(
            f"{empty} is empty: set it to the DSN of a database, or unset it for an embedded PostgreSQL"
        )
    return None


def configured_schema(schema: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The schema that was passed, else ``HOWDAH_SCHEMA``, else ``howdah``."""
    return schema if schema is not None else environ.get("HOWDAH_SCHEMA") or DEFAULT_SCHEMA


def _checked(dsn: str, origin: str) -> str:
    if not isinstance(dsn, str):
        raise InvalidOption(f"{origin} is a str, not a {type(dsn).__name__}")
    # SQLAlchemy and Django spell the scheme in other ways.
    scheme, separator, rest = dsn.partition("://")
    if separator and scheme.startswith(("postgres+", "postgresql+", "postgres", "psql")):
        dsn = f"postgresql://{rest}"
        _check_encoded(rest, origin)
    try:
        conninfo.conninfo_to_dict(dsn)
    except ProgrammingError:
        # Not the driver's own message: it may repeat the DSN with its password.
        raise InvalidOption(
            f"{origin} is not a PostgreSQL DSN: write postgresql://user@host:5432/database, or host=… dbname=… user=…"
        ) from None
    return dsn


def _check_encoded(rest: str, origin: str) -> None:
    """Refuse an unescaped password: a part of it would be read as host or database, and shown in messages."""
    authority, _, path = rest.partition("?")[0].partition("/")
    if authority.count("@") > 1 or "@" in path:
        raise InvalidOption(
            f"{origin} has an @ too many: in a user or password, write %40 for @, %2F for / and %3A for :"
        )


def is_secret(name: str) -> bool:
    """Whether a parameter of a DSN must not be shown."""
    return "password" in name or "secret" in name


def redacted(dsn: str) -> str:
    """The DSN without its secrets, for messages."""
    parts = conninfo.conninfo_to_dict(dsn)
    for name in parts:
        if is_secret(name):
            parts[name] = "***"
    return conninfo.make_conninfo("", **parts)
