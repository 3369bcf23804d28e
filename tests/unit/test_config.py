"""Where the jobs are, and what is never shown of it."""

from __future__ import annotations

import traceback

import pytest
from psycopg.conninfo import conninfo_to_dict

from howdah import InvalidOption, JobQueue
from howdah.config import configured_dsn, configured_schema, redacted

SECRET = "hunter2"


def test_the_argument_comes_before_the_environment() -> None:
    environ = {"HOWDAH_DSN": "host=b", "DATABASE_URL": "host=c"}
    assert configured_dsn("host=a", environ) == "host=a"
    assert configured_dsn(None, environ) == "host=b"
    assert configured_dsn(None, {"DATABASE_URL": "host=c"}) == "host=c"


def test_without_any_it_is_the_embedded_server() -> None:
    assert configured_dsn(None, {}) is None


def test_the_schema_is_given_or_that_of_the_environment() -> None:
    environ = {"HOWDAH_SCHEMA": "tenant"}
    assert configured_schema("given", environ) == "given"
    assert configured_schema(None, environ) == "tenant"
    assert configured_schema(None, {"HOWDAH_SCHEMA": ""}) == "howdah"
    assert JobQueue("host=nowhere").schema == "howdah"


@pytest.mark.parametrize("environ", [{"HOWDAH_DSN": ""}, {"DATABASE_URL": ""}, {"HOWDAH_DSN": "", "DATABASE_URL": ""}])
def test_an_empty_variable_starts_no_embedded_server(environ: dict[str, str]) -> None:
    with pytest.raises(InvalidOption, match=f"^{next(iter(environ))} is empty: set it"):
        configured_dsn(None, environ)
    assert configured_dsn("host=a", environ) == "host=a"


def test_an_empty_variable_does_not_hide_the_next() -> None:
    assert configured_dsn(None, {"HOWDAH_DSN": "", "DATABASE_URL": "host=c"}) == "host=c"


@pytest.mark.parametrize(
    "scheme", ["postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg", "postgres+psycopg2", "psql"]
)
def test_the_spellings_of_other_tools_are_understood(scheme: str) -> None:
    assert configured_dsn(f"{scheme}://me@there:1/db", {}) == "postgresql://me@there:1/db"


@pytest.mark.parametrize(
    "dsn",
    [
        f"mysql://me:{SECRET}@there/db",
        f"postgresql://me:{SECRET}@there/db?nonsense=1",
        f"postgresql://me:{SECRET}@[there/db",
        f"host=there password={SECRET} oops",
        f"password='{SECRET}",
        f"me:{SECRET}@there",
    ],
)
@pytest.mark.parametrize("origin", ["dsn", "HOWDAH_DSN", "DATABASE_URL"])
def test_the_refusal_of_a_malformed_dsn_shows_no_password(dsn: str, origin: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        configured_dsn(dsn) if origin == "dsn" else configured_dsn(None, {origin: dsn})
    assert origin in str(refused.value)
    assert "postgresql://user@host:5432/database" in str(refused.value)
    # What a log would have of it.
    printed = "".join(line for line in traceback.format_exception(refused.value) if "configured_dsn(" not in line)
    assert SECRET not in printed


@pytest.mark.parametrize(
    "dsn", [f"postgresql://me:{SECRET}@there:5433/db", f"host=there port=5433 user=me password={SECRET} dbname=db"]
)
def test_a_dsn_for_people_has_everything_but_the_password(dsn: str) -> None:
    shown = redacted(dsn)
    assert SECRET not in shown
    assert all(part in shown for part in ("there", "5433", "me", "db"))


def test_the_password_of_the_tls_key_is_a_password_too() -> None:
    assert SECRET not in redacted(f"host=there sslkey=k sslpassword={SECRET}")


def test_a_dsn_without_password_is_shown_as_it_is() -> None:
    assert conninfo_to_dict(redacted("host=there dbname=db")) == {"host": "there", "dbname": "db"}


def test_a_queue_does_not_print_its_password() -> None:
    assert SECRET not in repr(JobQueue(f"postgresql://me:{SECRET}@there/db"))
