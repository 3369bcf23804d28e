"""Helpers for the tests of projects that use Howdah, with any test runner.

    drain, adrain                           run the jobs that are due, with the real worker
    enqueued, assert_enqueued,              check which jobs were enqueued
        assert_not_enqueued
    call                                    call one handler, without a database
    TestDatabase, temporary_server, Clock   a clean queue for each test, and its clock

``howdah.pytest_plugin`` offers them as fixtures.
"""

from howdah.testing.clock import Clock
from howdah.testing.database import TestDatabase
from howdah.testing.direct import call
from howdah.testing.draining import Drained, adrain, drain
from howdah.testing.expectations import assert_enqueued, assert_not_enqueued, enqueued
from howdah.testing.server import temporary_server

__all__ = [
    "Clock",
    "Drained",
    "TestDatabase",
    "adrain",
    "assert_enqueued",
    "assert_not_enqueued",
    "call",
    "drain",
    "enqueued",
    "temporary_server",
]
