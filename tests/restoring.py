"""Dumps and restores by PostgreSQL's own programs."""

from __future__ import annotations

import contextlib
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests import servers

ROLES = "SELECT rolname FROM pg_roles WHERE rolname ~ '^howdah_(owner|producer|worker|viewer|operator)$'"
PUBLIC = (
    "SELECT p.proname AS name FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a"
    " WHERE p.pronamespace = %(schema)s::regnamespace AND a.grantee = 0"
    " UNION ALL SELECT c.relname FROM pg_class AS c, aclexplode(c.relacl) AS a"
    " WHERE c.relnamespace = %(schema)s::regnamespace AND a.grantee = 0"
)


def binaries(dsn: str) -> Path:
    """Those of the server's own version."""
    found = servers.find(servers.server_major(dsn))
    assert found is not None, "the server's programs are not here"
    return found


@contextlib.contextmanager
def database(server_dsn: str) -> Iterator[str]:
    """An empty database, for as long as the block lasts."""
    name = f"restore_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
        try:
            yield make_conninfo(server_dsn, dbname=name)
        finally:
            conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def dump(dsn: str, *options: str) -> bytes:
    return subprocess.run(
        [str(binaries(dsn) / "pg_dump"), "--dbname", dsn, *options], stdout=subprocess.PIPE, check=True
    ).stdout


def restore(dsn: str, dumped: bytes, *, program_of: str | None = None) -> list[str]:
    """By psql, which continues after errors, as an administrator's does. Returns them."""
    done = subprocess.run(
        [str(binaries(program_of or dsn) / "psql"), "--no-psqlrc", "--quiet", "--dbname", dsn],
        input=dumped,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=True,
    )
    return [line for line in done.stderr.decode().splitlines() if "ERROR" in line]


def restore_by_entries(dsn: str, dumped: bytes, *, program_of: str) -> list[str]:
    """By pg_restore, from a dump of --format=custom. Where a role is missing, the REVOKE beside its GRANT is undone, too."""
    done = subprocess.run(
        [str(binaries(program_of) / "pg_restore"), "--dbname", dsn],
        input=dumped,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    return [line for line in done.stderr.decode().splitlines() if "ERROR" in line]


def move(source: str, target: str, *options: str) -> list[str]:
    return restore(target, dump(source, *options), program_of=source)


def drop_roles(dsn: str) -> None:
    """Of the whole server, with all that they own in this database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        for (role,) in conn.execute(ROLES).fetchall():
            conn.execute(f"DROP OWNED BY {role} CASCADE".encode())
            conn.execute(f"DROP ROLE {role}".encode())


def public(dsn: str, schema: str = "howdah") -> list[str]:
    """What every login may use."""
    with psycopg.connect(dsn) as conn:
        return [name for (name,) in conn.execute(PUBLIC, {"schema": schema})]


def spend_transactions(dsn: str, count: int) -> None:
    """So that the cluster is so much older."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            f"DO $$ BEGIN FOR i IN 1..{count} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$".encode()
        )


def name_of(dsn: str) -> str:
    return str(conninfo_to_dict(dsn)["dbname"])
