"""The errors of other drivers as those of psycopg, which plans know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import psycopg
from psycopg.pq import DiagnosticField

# By the name in psycopg and psycopg2, and by the name in asyncpg.
_FIELDS: Final = {
    DiagnosticField.MESSAGE_PRIMARY: ("message_primary", "message"),
    DiagnosticField.MESSAGE_DETAIL: ("message_detail", "detail"),
    DiagnosticField.MESSAGE_HINT: ("message_hint", "hint"),
    DiagnosticField.CONTEXT: ("context", "context"),
}


def as_psycopg(error: Exception) -> psycopg.Error | None:
    """The same error of psycopg; None if it is not about the database, and so the caller's."""
    causes = [each for each in _causes(error) if _sqlstate(each) or _is_loss(each)]
    if not causes:
        return None
    # The last of them is the driver's own: it has all that the server sent, and no more. The text of SQLAlchemy's has the parameters.
    source = causes[-1]
    if not _sqlstate(source):
        return psycopg.OperationalError(str(source))
    state = _sqlstate(source)
    info: dict[int, bytes | None] = {field: _field(source, *names) for field, names in _FIELDS.items()}
    info[DiagnosticField.SQLSTATE] = state.encode()
    return _class_of(state)(str(source), info=info)


def _class_of(state: str) -> type[psycopg.Error]:
    try:
        return psycopg.errors.lookup(state)
    except KeyError:
        return psycopg.DatabaseError


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it wraps: SQLAlchemy has it in ``orig``, Django and SQLAlchemy's form of asyncpg in ``__cause__``."""
    seen: list[BaseException] = []
    current: BaseException | None = error
    while isinstance(current, BaseException) and not any(current is each for each in seen):
        seen.append(current)
        yield current
        current = getattr(current, "orig", None) or current.__cause__


def _sqlstate(error: BaseException) -> str:
    state = getattr(error, "sqlstate", None) or getattr(error, "pgcode", None)
    return state if isinstance(state, str) else ""


def _field(error: BaseException, *names: str) -> bytes | None:
    diagnostics = getattr(error, "diag", error)
    value = next((value for name in names if (value := getattr(diagnostics, name, None))), None)
    return value.encode() if isinstance(value, str) else None


def _is_loss(error: BaseException) -> bool:
    """Whether the connection was lost. Then there is no state, because no server sent one."""
    if isinstance(error, ConnectionError):
        return True
    name, module = type(error).__name__, type(error).__module__.partition(".")[0]
    if module not in ("psycopg", "psycopg2", "asyncpg"):
        return False
    return name == "OperationalError" or (name == "InterfaceError" and _says_closed(str(error)))


def _says_closed(text: str) -> bool:
    return "connection" in text and "closed" in text
