"""Outages: which errors are one, when to try again, and what is logged."""

from __future__ import annotations

import logging
import random
import time
from typing import Final

import psycopg
import psycopg_pool

from howdah.errors import DatabaseUnavailable, LoginRefused

# Deadlocks, timeouts, no room, a read-only server: the call itself is not wrong.
_TEMPORARY: Final = ("25006", "40", "53", "55P03", "57", "58")

# A statement that was cancelled, by statement_timeout or by pg_cancel_backend: both have this state, and the text is in the
# server's language. Then by transaction_timeout, since PostgreSQL 17.
_CUT_SHORT: Final = ("57014", "25P04")

_MOMENT: Final = 1.0


def is_temporary(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later."""
    if isinstance(error, psycopg.Error):
        lost = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        lost = lost and not isinstance(error, psycopg_pool.PoolClosed)
        return lost or (error.sqlstate or "").startswith(_TEMPORARY)
    return isinstance(error, DatabaseUnavailable) and not isinstance(error, LoginRefused)


class Locked(DatabaseUnavailable):
    """Another transaction holds a lock that is needed. The call may succeed when that transaction has ended."""

    def __init__(self, error: psycopg.errors.LockNotAvailable) -> None:
        where = next(iter((error.diag.context or "").splitlines()), "")
        super().__init__(
            f"another transaction has locked what is needed{f' ({where})' if where else ''}; howdah doctor --patience 10s"
            " names those that are open"
        )


def first_line(error: BaseException) -> str:
    """The others are libpq's advice for a terminal."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def is_cut_short(error: BaseException) -> bool:
    """Whether the server cancelled a statement. A smaller one may finish in time."""
    return isinstance(error, psycopg.Error) and error.sqlstate in _CUT_SHORT


class Outage:
    """Whether the database can be reached. Logs the beginning and the end of an outage once.

    A server with a full disk, say, can do some things and not others. So an outage has ended once nothing has failed for
    a second: otherwise it would begin and end many times in a second.
    """

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._since: float | None = None
        self._failed_at = 0.0
        self.refused: LoginRefused | None = None
        """Why the login was refused, if it was: trying again would not help."""

    def began(self, error: BaseException) -> None:
        self._failed_at = time.monotonic()
        if isinstance(error, LoginRefused):
            self.refused = error
            return
        if self._since is None:
            self._since = self._failed_at
            self._log.warning("%s; trying again until it is back", first_line(error), extra={"event": "database_lost"})

    def ended(self) -> bool:
        """Called after a success. Whether the outage is over."""
        if self._since is not None and time.monotonic() - self._failed_at > _MOMENT:
            lasted, self._since = time.monotonic() - self._since, None
            self._log.warning("the database is back after %.1f s", lasted, extra={"event": "database_back"})
        return self._since is None


class Backoff:
    """Pauses that grow with each failure, with jitter."""

    def __init__(self, longest: float = 5.0) -> None:
        self._first = 0.1
        self._longest = longest
        self._pause = self._first

    def next(self) -> float:
        pause, self._pause = self._pause, min(self._pause * 2, self._longest)
        return pause * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._pause = self._first
