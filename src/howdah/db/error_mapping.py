"""The driver's errors mapped to ours, which say what went wrong and what to do."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Sequence
from typing import NoReturn

import psycopg
import psycopg_pool

from howdah.db import migrate
from howdah.db.statements import ROLES, roles_that_may_use
from howdah.errors import (
    BY_SQLSTATE,
    DatabaseUnavailable,
    DuplicateJob,
    InvalidInput,
    LoginRefused,
    NotPermitted,
    QueueClosed,
    QueueFull,
    SchemaMissing,
)

# The server stops, starts, or has no room. Every other state is about the call.
_UNAVAILABLE = ("08", "53", "57P01", "57P02", "57P03", "58")
_DENIED = "42501"
_NOT_INSTALLED = ("3F000", "42P01", "42883", "42703")
_LOCKED = "55P03"
_NO_SUCH_CHARACTER = ("22021", "22P05")
# While it connects, libpq has no SQLSTATE, only a text. Other methods (LDAP, PAM, RADIUS, …) are not listed: their outages
# have the same text.
_REFUSAL = re.compile(
    r"FATAL: +("
    r"(password|SASL|Peer|Ident|certificate) authentication failed"
    r"|no pg_hba\.conf entry|pg_hba\.conf rejects"
    r'|role ".*" (does not exist|is not permitted to log in)'
    r"|permission denied for database"
    r")|no password supplied"
)
_NO_DATABASE = re.compile(r'FATAL: +(database ".*" does not exist|no such database)')


def is_outage(error: psycopg.Error) -> bool:
    return isinstance(error, psycopg.OperationalError) and (error.sqlstate or "08").startswith(_UNAVAILABLE)


def is_one_of(errors: Sequence[Exception], error: Exception) -> bool:
    return any(error is each for each in errors)


def read_only(error: psycopg.Error) -> DatabaseUnavailable:
    """After a failover the old primary is a standby. A new connection may find the new primary."""
    return DatabaseUnavailable(f"the server is read-only, as after a failover: {error.diag.message_primary}")


def raise_mapped(error: psycopg.Error, schema: str) -> NoReturn:
    """Raises a driver's error as ours. What is neither an outage nor ours (a deadlock, say) is raised as it is."""
    ours = QueueClosed() if isinstance(error, psycopg_pool.PoolClosed) else mapped(error, schema)
    if ours is error:
        raise error
    raise ours from error


def mapped(error: psycopg.Error, schema: str) -> Exception:
    """Our form of a driver's error; the same error if there is none."""
    state = error.sqlstate or ""
    message = error.diag.message_primary or str(error)
    if state in BY_SQLSTATE and BY_SQLSTATE[state] is QueueFull:
        return queue_full(error)
    if state in BY_SQLSTATE:
        hint = f" {error.diag.message_hint}" if error.diag.message_hint else ""
        ours = BY_SQLSTATE[state](f"{message}.{hint}" if hint else message)
        if isinstance(ours, DuplicateJob) and error.diag.message_detail:
            ours.job_id = uuid.UUID(error.diag.message_detail)
        return ours
    if not state and _is_refusal(message):
        return LoginRefused(
            f"the database refused the login: {message.strip()}. Correct the user and the password of the DSN,"
            " or what the server allows (pg_hba.conf, GRANT CONNECT)"
        )
    if is_outage(error):
        ours = DatabaseUnavailable(f"the database {_trouble(state, message)}: {message.strip()}")
        hint = ". Create it, or correct its name in the DSN" if has_no_database(ours) else ""
        return DatabaseUnavailable(f"{ours}{hint}")
    if state in _NO_SUCH_CHARACTER:
        return InvalidInput(
            f"the encoding of this database cannot store it ({message}). Leave these characters out, or move the queue to a"
            " database with the encoding UTF8"
        )
    if state == _DENIED:
        return NotPermitted(f"{message}. {_needed_role(message, schema)}")
    if state in _NOT_INSTALLED:
        return SchemaMissing(
            f"Howdah is not installed in schema {schema} of this database, or another version of it is ({message})."
            f" Run: {migrate.command(schema)}"
        )
    if state == _LOCKED and not hasattr(error, "__notes__"):
        error.add_note("Another transaction holds a lock that this needs. Try again; howdah doctor names old ones.")
    return error


def queue_full(error: psycopg.Error, *, hint: str | None = None, enqueued: int = 0) -> QueueFull:
    """hint: instead of the one of the database. enqueued: how many jobs were added before."""
    detail = json.loads(error.diag.message_detail or "{}")
    before = f" {enqueued:,} jobs before are enqueued." if enqueued else ""
    return QueueFull(
        f"{error.diag.message_primary}. {hint or error.diag.message_hint}{before}",
        **{name: detail.get(name) for name in ("job_type", "max_pending", "pending")},
        enqueued=enqueued,
    )


def _is_refusal(message: str) -> bool:
    """Whether every server that was tried refused the login."""
    return _is_in_all(message, _REFUSAL)


def has_no_database(error: BaseException) -> bool:
    """Whether every server that was tried has no database of this name."""
    return isinstance(error, DatabaseUnavailable) and _is_in_all(str(error), _NO_DATABASE)


def _is_in_all(message: str, pattern: re.Pattern[str]) -> bool:
    tried = message.split("\n- host: ")[1:] or [message]
    return all(map(pattern.search, tried))


def _trouble(state: str, message: str) -> str:
    if state.startswith(("53", "58")):
        return "cannot do it now"
    # While it connects, libpq has no SQLSTATE. But FATAL comes from a server that was reached.
    return "refused the connection" if not state and "FATAL:" in message else "cannot be reached, or went away"


def _needed_role(denied: str, schema: str) -> str:
    # In every language of the server, the message names what was denied, mostly at its end.
    named = (roles_that_may_use(name, schema) for name in reversed(re.findall("[a-z0-9_]+", denied)))
    found = next(filter(None, named), ())
    command = f"{migrate.command(schema)} --roles"
    if not found or {f"{schema}_{role}" for role in ROLES} - set(found) <= {f"{schema}_owner"}:
        # Every role may use the schema itself; which of them may do the rest of it, the message does not tell.
        return f"This login needs one of the roles that {command} creates: each may do a part (docs: Roles)"
    return f"This login needs the role {' or '.join(found)}, which {command} creates"
