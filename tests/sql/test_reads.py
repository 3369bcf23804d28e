"""Statements that are sent again after a lost connection change nothing: those of sql/reads only read."""

from __future__ import annotations

import re

import psycopg
import pytest

from howdah.db import statements
from howdah.db.plan import Call, Read, Write
from howdah.db.session import _can_be_repeated
from tests.conftest import Db

READS = [*statements.names("reads"), *(f"doctor/{name}" for name in statements.names("reads/doctor"))]
# Volatile, because a test replaces them, and because time goes by; they change nothing.
CLOCKS = {"clock", "lease_clock"}


def test_a_read_runs_where_nothing_can_be_written(db: Db) -> None:
    for name in READS:
        statement = statements.read_statement("howdah", name)
        nothing = dict.fromkeys(re.findall(r"%\((\w+)\)s", statement.decode()))
        with db.transaction(force_rollback=True):
            db.execute("SET TRANSACTION READ ONLY")
            db.execute(statement, {**nothing, "limit": 1, "schema": "howdah"}).fetchall()


def test_a_read_calls_nothing_that_may_write(db: Db) -> None:
    for name in READS:
        text = re.sub(r"--.*", "", statements.source(f"reads/{name}"))
        assert not re.search(r"\b(INSERT|UPDATE|DELETE|MERGE|TRUNCATE|NOTIFY|pg_notify|nextval)\b", text), name
        called = set(re.findall(r"howdah\.(\w+)\(", text)) - CLOCKS
        volatile = db.execute(
            "SELECT proname FROM pg_proc WHERE pronamespace = 'howdah'::regnamespace AND proname = ANY (%s) AND provolatile = 'v'",
            (list(called),),
        ).fetchall()
        assert volatile == [], name


@pytest.mark.parametrize("name", statements.names("writes"))
def test_a_write_is_where_it_belongs(name: str) -> None:
    text = re.sub(r"--.*", "", statements.source(f"writes/{name}"))
    assert re.search(r"INSERT|UPDATE|pg_notify|howdah\.(claim|start|complete)\(", text)


@pytest.mark.parametrize(
    ("step", "repeated"),
    [
        (Read("get", {}), True),
        (Write("complete", {}), False),
        (Write("claim", {}), False),
        (Call("cancel", {}), False),
        (Call("enqueue", {}, repeatable=True), True),
    ],
)
def test_only_repeatable_steps_are_sent_once_more(step: Call | Read | Write, repeated: bool) -> None:
    assert _can_be_repeated(step, psycopg.OperationalError("server closed the connection unexpectedly")) is repeated
