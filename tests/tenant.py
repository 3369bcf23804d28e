"""A schema with its roles, and a login for each of them, that leave nothing behind."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from howdah import JobQueue
from howdah.db.statements import ROLES
from tests.conftest import Db

PASSWORD = "only for tests"
NOBODY = "nobody"
"""A login without any of the roles."""


class Tenant:
    """A schema of its own in a ``with`` block. ``dsn`` and ``connect`` are for a login that is a member of a role."""

    def __init__(self, dsn: str, schema: str, *, install: bool = True) -> None:
        self.admin_dsn = dsn
        self.schema = schema
        self.admin: Db = psycopg.connect(dsn, autocommit=True, row_factory=dict_row)
        self._install = install

    def __enter__(self) -> Self:
        self.drop()
        if self._install:
            with JobQueue(self.admin_dsn, self.schema) as queue:
                queue.migrate(roles=True)
            self.log_in()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drop()
        self.admin.close()

    def log_in(self) -> None:
        for role in (*ROLES, NOBODY):
            self.execute("CREATE ROLE {} LOGIN PASSWORD {}", self.login(role), sql.Literal(PASSWORD))
        for role in ROLES:
            self.execute("GRANT {} TO {}", f"{self.schema}_{role}", self.login(role))

    def login(self, role: str) -> str:
        return f"{self.schema}_{role}_login"

    def dsn(self, role: str) -> str:
        return make_conninfo(self.admin_dsn, user=self.login(role), password=PASSWORD)

    def connect(self, role: str) -> Db:
        return psycopg.connect(self.dsn(role), row_factory=dict_row, autocommit=True)

    def queue(self, role: str, **options: Any) -> JobQueue:
        return JobQueue(self.dsn(role), self.schema, **options)

    def execute(self, statement: str, *names: str | sql.Literal) -> None:
        """A statement of the administrator's, with names in it."""
        parts = [sql.Identifier(name) if isinstance(name, str) else name for name in names]
        self.admin.execute(sql.SQL(statement).format(*parts))

    def drop(self) -> None:
        self.execute("DROP SCHEMA IF EXISTS {} CASCADE", self.schema)
        for role in (*ROLES, NOBODY):
            for name in (self.login(role), f"{self.schema}_{role}"):
                if self.admin.execute("SELECT FROM pg_roles WHERE rolname = %s", (name,)).fetchall():
                    self.execute("DROP OWNED BY {}", name)
                    self.execute("DROP ROLE {}", name)
