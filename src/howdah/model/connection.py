"""What ``conn=`` takes, for type checkers: no driver but psycopg needs to be installed for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import psycopg


class Psycopg2Connection(Protocol):
    """A connection of psycopg2."""

    @property
    def cursor(self) -> Callable[..., Any]: ...

    @property
    def get_transaction_status(self) -> Callable[[], int]: ...


class AsyncpgConnection(Protocol):
    """A connection of asyncpg, or one of its pool."""

    @property
    def fetch(self) -> Callable[..., Any]: ...

    @property
    def is_in_transaction(self) -> Callable[[], bool]: ...


class AlchemyConnection(Protocol):
    """A Connection of SQLAlchemy."""

    @property
    def exec_driver_sql(self) -> Callable[..., Any]: ...

    @property
    def begin_nested(self) -> Callable[..., Any]: ...


class AlchemySession(Protocol):
    """A Session of SQLAlchemy, or a scoped_session."""

    @property
    def connection(self) -> Callable[..., Any]: ...

    @property
    def begin_nested(self) -> Callable[..., Any]: ...


class AlchemyAsync(Protocol):
    """An AsyncConnection or AsyncSession of SQLAlchemy."""

    @property
    def run_sync(self) -> Callable[..., Any]: ...


class DjangoConnection(Protocol):
    """A connection of Django."""

    vendor: str

    @property
    def cursor(self) -> Callable[..., Any]: ...


Connection: TypeAlias = (
    psycopg.Connection[Any]
    | psycopg.AsyncConnection[Any]
    | Psycopg2Connection
    | AsyncpgConnection
    | AlchemyConnection
    | AlchemySession
    | AlchemyAsync
    | DjangoConnection
    | str
)
"""The caller's own connection: of psycopg 3, psycopg2 or asyncpg; a Connection, Session, AsyncConnection or AsyncSession of
SQLAlchemy; a connection of Django, or its alias."""
