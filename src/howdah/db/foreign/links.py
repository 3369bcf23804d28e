"""Links: what differs between the drivers. Each recognises connections by the name of their class, without an import."""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, TypeAlias

from howdah.db.foreign.wire import Style
from howdah.db.session import check_encoding
from howdah.errors import InvalidOption

Parameters: TypeAlias = "dict[str, str] | tuple[str, ...]"

WANTED: Final = (
    "pass a connection of psycopg 3, psycopg2 or asyncpg, a Connection, Session, AsyncConnection or AsyncSession of"
    " SQLAlchemy, or a connection of Django or its alias"
)

# The begin and the two ends of a transaction of our own, and those of a part of the caller's.
_BEGIN: Final = {True: "BEGIN", False: "SAVEPOINT howdah"}
_COMMIT: Final = {True: ("COMMIT",), False: ("RELEASE SAVEPOINT howdah",)}
_ROLLBACK: Final = {True: ("ROLLBACK",), False: ("ROLLBACK TO SAVEPOINT howdah", "RELEASE SAVEPOINT howdah")}


class Link:
    """A connection of one driver. If it is awaited, so is what its methods return."""

    is_awaited: ClassVar[bool]

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def style(self) -> Any:
        """How it writes placeholders. Raises InvalidOption if the connection cannot be used."""
        raise NotImplementedError

    def fetch(self, statement: str, parameters: Parameters) -> Any:
        """The rows of a statement."""
        raise NotImplementedError

    def begin(self, ends: list[Any]) -> Any:
        """Begins a part of the caller's transaction that can be undone, or a transaction if there is none. What ends it is put
        into ``ends``: True is the end of a transaction of our own."""
        raise NotImplementedError

    def end(self, begun: Any, *, commits: bool) -> Any:
        raise NotImplementedError

    def terminate(self) -> Any:
        """Closes the connection at once: with a transaction of ours that could not be ended, it is of no use to the caller."""


@contextlib.contextmanager
def _registered(ends: list[Any], is_own: bool) -> Iterator[None]:
    """Around the statement that begins. Registered before it is sent: an interruption, or a timeout, does not tell whether the server
    has begun. Any other error does: it has not."""
    ends.append(is_own)
    try:
        yield
    except TimeoutError:
        raise
    except Exception:
        ends.pop()
        raise


class Psycopg2(Link):
    is_awaited = False

    def style(self) -> Style:
        if self._conn.async_:
            raise InvalidOption(
                "conn is a connection of psycopg2 that was made with async_, whose answers must be waited for by hand: pass one"
                " without it"
            )
        _check_encoding_of(self._conn)
        return "pyformat"

    def fetch(self, statement: str, parameters: Parameters) -> Sequence[Any]:
        with self._cursor() as cursor:
            # Texts as they are, also if the caller has another reader for them.
            extensions = importlib.import_module("psycopg2.extensions")
            extensions.register_type(extensions.UNICODE, cursor)
            cursor.execute(statement, parameters)
            rows: Sequence[Any] = cursor.fetchall()
            return rows

    def begin(self, ends: list[Any]) -> None:
        if self._conn.autocommit:
            # Inside of the caller's `with conn:`, the driver begins a transaction with the first statement, and does not say so before.
            self._execute("SELECT")
        # Without autocommit, the driver has begun the caller's transaction before the savepoint.
        is_own = self._conn.autocommit and not _is_in_transaction(self._conn)
        with _registered(ends, is_own):
            self._execute(_BEGIN[is_own])

    def end(self, begun: bool, *, commits: bool) -> None:
        for statement in (_COMMIT if commits else _ROLLBACK)[begun]:
            self._execute(statement)

    def terminate(self) -> None:
        self._conn.close()

    def _execute(self, statement: str) -> None:
        with self._cursor() as cursor:
            cursor.execute(statement)

    def _cursor(self) -> Any:
        # Not the caller's kind of cursor: its rows may be dicts.
        return self._conn.cursor(cursor_factory=importlib.import_module("psycopg2.extensions").cursor)


class Asyncpg(Link):
    is_awaited = True

    async def style(self) -> Style:
        _check_encoding_of(self._conn)
        return "numeric"

    async def fetch(self, statement: str, parameters: Parameters) -> Sequence[Any]:
        rows: Sequence[Any] = await self._conn.fetch(statement, *parameters)
        return rows

    async def begin(self, ends: list[Any]) -> None:
        # By statements: its transaction() refuses a transaction that the caller began by one.
        is_own = not _is_in_transaction(self._conn)
        with _registered(ends, is_own):
            await self._conn.execute(_BEGIN[is_own])

    async def end(self, begun: bool, *, commits: bool) -> None:
        for statement in (_COMMIT if commits else _ROLLBACK)[begun]:
            await self._conn.execute(statement)

    async def terminate(self) -> None:
        self._conn.terminate()


class Alchemy(Link):
    """A Connection or a Session of SQLAlchemy. Never what is below: on asyncpg, its transaction begins with its first statement."""

    is_awaited = False
    _styles: ClassVar[dict[str, Style]] = {
        "psycopg": "pyformat",
        "psycopg_async": "pyformat",
        "psycopg2": "pyformat",
        "asyncpg": "numeric",
    }

    def style(self) -> Style:
        connection = self._connection()
        dialect = connection.dialect
        if dialect.name != "postgresql" or dialect.driver not in self._styles:
            raise InvalidOption(
                f"conn is of SQLAlchemy on {dialect.name}+{dialect.driver}, and Howdah is in PostgreSQL, over psycopg, psycopg2 or"
                " asyncpg: make the engine with postgresql+psycopg://"
            )
        _check_encoding_of(connection.connection.driver_connection)
        return self._styles[dialect.driver]

    def fetch(self, statement: str, parameters: Parameters) -> Sequence[Any]:
        rows: Sequence[Any] = self._execute(statement, parameters).fetchall()
        return rows

    def begin(self, ends: list[Any]) -> None:
        # By statements: its begin_nested() fails on a connection that streams its results.
        connection = self._connection().connection
        autocommits = connection.dbapi_connection.autocommit
        is_own = bool(autocommits and not _is_in_transaction(connection.driver_connection))
        with _registered(ends, is_own):
            self._execute(_BEGIN[is_own])

    def end(self, begun: bool, *, commits: bool) -> None:
        for statement in (_COMMIT if commits else _ROLLBACK)[begun]:
            self._execute(statement)

    def terminate(self) -> None:
        self._connection().invalidate()

    def _execute(self, statement: str, parameters: Parameters | None = None) -> Any:
        # Without a cursor on the server, which the caller may want for rows of theirs.
        options = {"stream_results": False, "yield_per": None}
        return self._connection().exec_driver_sql(statement, parameters, execution_options=options)

    def _connection(self) -> Any:
        return self._conn if hasattr(self._conn, "exec_driver_sql") else self._conn.connection()


class AsyncAlchemy(Link):
    """An AsyncConnection or an AsyncSession of SQLAlchemy: the same, in its way to await what blocks."""

    is_awaited = True

    async def style(self) -> Any:
        return await self._run(lambda link: link.style())

    async def fetch(self, statement: str, parameters: Parameters) -> Any:
        return await self._run(lambda link: link.fetch(statement, parameters))

    async def begin(self, ends: list[Any]) -> None:
        await self._run(lambda link: link.begin(ends))

    async def end(self, begun: Any, *, commits: bool) -> None:
        await self._run(lambda link: link.end(begun, commits=commits))

    async def terminate(self) -> None:
        await self._run(lambda link: link.terminate())

    async def _run(self, operation: Callable[[Alchemy], Any]) -> Any:
        return await self._conn.run_sync(lambda conn: operation(Alchemy(conn)))


class Django(Link):
    """A connection of Django. Never what is below: it is None when closed, and knows nothing of Django's wrappers."""

    is_awaited = False

    def style(self) -> Style:
        vendor = getattr(self._conn, "vendor", None)
        if vendor != "postgresql":
            raise InvalidOption(
                f"conn is {_named(self._conn)}, {f'on {vendor}' if vendor else 'which is no database'}: pass a connection of"
                " Django whose ENGINE is django.db.backends.postgresql, or its alias"
            )
        self._conn.ensure_connection()
        _check_encoding_of(self._conn.connection)
        return "pyformat"

    def fetch(self, statement: str, parameters: Parameters) -> Sequence[Any]:
        with self._conn.cursor() as cursor:
            cursor.execute(statement, parameters)
            rows: Sequence[Any] = cursor.fetchall()
            return rows

    def begin(self, ends: list[Any]) -> None:
        transaction, alias = importlib.import_module("django.db.transaction"), self._conn.alias
        if transaction.get_connection(alias).connection is self._conn.connection:
            atomic = transaction.atomic(using=alias)
            atomic.__enter__()
            ends.append(atomic)
            return
        # A copy, or a connection of another thread: atomic() would begin on this thread's own of the same alias.
        is_own = self._conn.get_autocommit() and not _is_in_transaction(self._conn.connection)
        with _registered(ends, is_own):
            self._execute(_BEGIN[is_own])

    def end(self, begun: Any, *, commits: bool) -> None:
        if not isinstance(begun, bool):
            begun.__exit__(*((None, None) if commits else (Exception, Exception())), None)
            return
        for statement in (_COMMIT if commits else _ROLLBACK)[begun]:
            self._execute(statement)

    def terminate(self) -> None:
        self._conn.close()

    def _execute(self, statement: str) -> None:
        with self._conn.cursor() as cursor:
            cursor.execute(statement)


_LINKS: Final[dict[str, type[Link]]] = {
    "psycopg2.extensions.connection": Psycopg2,
    "asyncpg.connection.Connection": Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": Asyncpg,
    "sqlalchemy.engine.base.Connection": Alchemy,
    "sqlalchemy.orm.session.Session": Alchemy,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": AsyncAlchemy,
    "sqlalchemy.ext.asyncio.session.AsyncSession": AsyncAlchemy,
    "django.db.backends.base.base.BaseDatabaseWrapper": Django,
    "django.utils.connection.ConnectionProxy": Django,
}
_SCOPED: Final = ("sqlalchemy.orm.scoping.scoped_session", "sqlalchemy.ext.asyncio.scoping.async_scoped_session")
_NATIVE: Final = {"psycopg.Connection": False, "psycopg.AsyncConnection": True}


def link_to(conn: Any, *, awaited: bool) -> Link:
    """The link to a connection. Raises InvalidOption if it is none, or one for the other form of the verb."""
    classes = _classes(conn)
    if any(each in _SCOPED for each in classes):
        return link_to(conn(), awaited=awaited)
    if isinstance(conn, str):
        conn = _by_alias(conn)
        classes = _classes(conn)
    kind = next((_LINKS[each] for each in classes if each in _LINKS), None)
    native = next((_NATIVE[each] for each in classes if each in _NATIVE), None)
    is_awaited = native if kind is None else kind.is_awaited
    if is_awaited is not None and is_awaited != awaited:
        form = (
            "is awaited: use the a… verb, such as aenqueue"
            if is_awaited
            else "blocks: use the verb without a…, such as enqueue"
        )
        raise InvalidOption(f"conn is {_named(conn)}, which {form}")
    if kind is None:
        raise InvalidOption(f"conn is {_named(conn)}, which is no connection that Howdah knows: {WANTED}")
    return kind(conn)


def _classes(conn: object) -> list[str]:
    # A proxy of a tracer, or a lazy object, has the class of what it stands for.
    return [f"{each.__module__}.{each.__qualname__}" for each in (*type(conn).__mro__, *conn.__class__.__mro__)]


def _named(conn: object) -> str:
    name = _classes(conn)[0].removeprefix("builtins.")
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _by_alias(alias: str) -> Any:
    # What is not the name of anything may be a DSN, with a password.
    shown = repr(alias) if re.fullmatch(r"\w[\w.-]{0,62}", alias) else "a text"
    django = sys.modules.get("django.db")
    if django is None:
        raise InvalidOption(
            f"conn is {shown}. A text is the alias of a database of Django, which is not imported here: {WANTED}"
        )
    if alias not in django.connections:
        known = ", ".join(map(repr, django.connections)) or "none"
        raise InvalidOption(
            f"conn is {shown}, which is no alias in Django's DATABASES: it has {known}. Otherwise {WANTED}"
        )
    return django.connections[alias]


# Of a connection of psycopg, psycopg2 or asyncpg itself; it may be the one below SQLAlchemy's or Django's.


def _check_encoding_of(conn: Any) -> None:
    settings = getattr(conn, "get_settings", None)
    check_encoding(settings().client_encoding if settings else conn.info.parameter_status("client_encoding"))


def _is_in_transaction(conn: Any) -> bool:
    asked = getattr(conn, "is_in_transaction", None)
    return bool(asked() if asked else conn.info.transaction_status)
