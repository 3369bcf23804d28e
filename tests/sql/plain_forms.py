"""One statement in the many forms in which clients send it. Its effect must not depend on the form."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from psycopg import sql

from tests.conftest import Db
from tests.sql import seed
from tests.sql.plain import change, one, send


class Statement(NamedTuple):
    """An UPDATE with $1, $2 in it, and the types of these."""

    text: str
    types: tuple[str, ...]


Form = Callable[..., int]
"""Sends a statement with its arguments, and returns how many rows it changed."""

FAIL = Statement(seed.FAIL, ("uuid", "text"))
COMPLETE = Statement(seed.COMPLETE, ("uuid",))
RECOVER = Statement(seed.RECOVER_STALE_JOBS, ("interval",))

_NAMES = "|".join(name for name, _ in seed.COLUMNS)


def quoted(text: str) -> str:
    return re.sub(rf"\b(jobs|{_NAMES})\b(?!')", r'"\1"', text)


def in_lower_case(text: str) -> str:
    return " ".join(text.lower().split())


def with_comments(text: str) -> str:
    return re.sub(r"(\w+) (=|<|IN)", r"\1 /* which is */ \2 -- so\n", text)


def of_an_alias(text: str) -> str:
    before, condition = text.split("WHERE", 1)
    condition = re.sub(rf"\b({_NAMES})\b(?!')", r"j.\1", condition)
    return f"{before.replace('UPDATE jobs', 'UPDATE jobs AS j')}WHERE {condition}"


def as_a_row(text: str) -> str:
    names, values, condition = _parts(text)
    return f"UPDATE jobs SET ({', '.join(names)}) = ROW({', '.join(values)}) WHERE {condition}"


def from_a_join(text: str) -> str:
    names, values, condition = _parts(text)
    assigned = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    assigned = re.sub(r"(?<=WHEN )attempts >= max_attempts", "jobs.attempts >= jobs.max_attempts", assigned)
    return (
        f"UPDATE jobs SET {assigned} FROM (SELECT id FROM jobs WHERE {condition}) AS chosen WHERE jobs.id = chosen.id"
    )


def of_a_sub_select(text: str) -> str:
    before, condition = text.split("WHERE", 1)
    return f"{before} WHERE id IN (SELECT id FROM jobs WHERE {condition} FOR UPDATE)"


def as_a_merge(text: str) -> str:
    names, values, condition = _parts(text)
    assigned = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    assigned = re.sub(r"(?<=WHEN )attempts >= max_attempts", "j.attempts >= j.max_attempts", assigned)
    return (
        f"MERGE INTO jobs AS j USING (SELECT id FROM jobs WHERE {condition}) AS chosen ON j.id = chosen.id"
        f" WHEN MATCHED THEN UPDATE SET {assigned}"
    )


def _parts(text: str) -> tuple[list[str], list[str], str]:
    """The columns of an UPDATE, their new values, and its condition."""
    assigned, condition = text.split("SET", 1)[1].split("WHERE", 1)
    pairs = [part.split("=", 1) for part in re.split(r",\s*\n", assigned)]
    return [name.strip() for name, _ in pairs], [value.strip() for _, value in pairs], condition


def _sent(rewrite: Callable[[str], str] = str) -> Form:
    def form(conn: Db, statement: Statement, *arguments: Any) -> int:
        return change(conn, rewrite(statement.text), *arguments)

    return form


def of_its_schema(conn: Db, statement: Statement, *arguments: Any) -> int:
    schema = one(conn, "SELECT quote_ident(current_schema()) AS name")["name"]
    return change(conn, re.sub(r"\bjobs\b", f"{schema}.jobs", statement.text), *arguments)


def _with_literals(statement: Statement, arguments: tuple[Any, ...]) -> str:
    literals = [
        f"{sql.Literal(str(value)).as_string()}::{of}" for value, of in zip(arguments, statement.types, strict=True)
    ]
    return re.sub(r"\$(\d)", lambda place: literals[int(place[1]) - 1], statement.text)


def by_literals(conn: Db, statement: Statement, *arguments: Any) -> int:
    return change(conn, _with_literals(statement, arguments))


def in_a_cte(conn: Db, statement: Statement, *arguments: Any) -> int:
    row = one(conn, f"WITH changed AS ({statement.text} RETURNING id) SELECT count(*) AS rows FROM changed", *arguments)
    return int(row["rows"])


def prepared(conn: Db, statement: Statement, *arguments: Any) -> int:
    conn.execute(f"PREPARE plain ({', '.join(statement.types)}) AS {statement.text}".encode())
    try:
        return conn.execute(_call("EXECUTE plain", arguments)).rowcount
    finally:
        conn.execute("DEALLOCATE plain")


def _call(what: str, arguments: tuple[Any, ...]) -> sql.Composed:
    literals = sql.SQL(", ").join(sql.Literal(str(value)) for value in arguments)
    return sql.SQL("{}({})").format(sql.SQL(what), literals)


def _in_a_function(body: str) -> Form:
    """PL/pgSQL, with the statement in the place of {text}."""

    def form(conn: Db, statement: Statement, *arguments: Any) -> int:
        text = body.format(
            text=statement.text,
            quoted=statement.text.replace("'", "''"),
            using=", ".join(f"${n + 1}" for n in range(len(statement.types))),
        )
        conn.execute(
            f"CREATE OR REPLACE FUNCTION pg_temp.take_note({', '.join(statement.types)}) RETURNS int LANGUAGE plpgsql"
            f" AS $body$ DECLARE v_rows int := 0; v_id uuid; BEGIN {text}; RETURN v_rows; END $body$".encode()
        )
        return int(conn.execute(_call("SELECT pg_temp.take_note", arguments)).fetchall()[0]["take_note"])

    return form


def in_an_sql_function(conn: Db, statement: Statement, *arguments: Any) -> int:
    conn.execute(
        f"CREATE OR REPLACE FUNCTION pg_temp.take_note_in_sql({', '.join(statement.types)}) RETURNS SETOF uuid LANGUAGE sql"
        f" AS $body$ {statement.text} RETURNING id $body$".encode()
    )
    return len(conn.execute(_call("SELECT pg_temp.take_note_in_sql", arguments)).fetchall())


def in_a_parsed_sql_function(conn: Db, statement: Statement, *arguments: Any) -> int:
    conn.execute(
        f"CREATE OR REPLACE FUNCTION pg_temp.take_parsed_note({', '.join(statement.types)}) RETURNS SETOF uuid LANGUAGE sql"
        f" BEGIN ATOMIC {statement.text} RETURNING id; END".encode()
    )
    return len(conn.execute(_call("SELECT pg_temp.take_parsed_note", arguments)).fetchall())


def in_a_procedure(conn: Db, statement: Statement, *arguments: Any) -> int:
    conn.execute(
        f"CREATE OR REPLACE PROCEDURE pg_temp.note({', '.join(statement.types)}, INOUT v_rows int DEFAULT 0) LANGUAGE plpgsql"
        f" AS $body$ BEGIN {statement.text}; GET DIAGNOSTICS v_rows = ROW_COUNT; END $body$".encode()
    )
    return int(conn.execute(_call("CALL pg_temp.note", arguments)).fetchall()[0]["v_rows"])


def in_a_do_block(conn: Db, statement: Statement, *arguments: Any) -> int:
    return _do(conn, f"{_with_literals(statement, arguments)}; GET DIAGNOSTICS v_rows = ROW_COUNT")


def executed_in_a_do_block(conn: Db, statement: Statement, *arguments: Any) -> int:
    literals = ", ".join(
        f"{sql.Literal(str(value)).as_string()}::{of}" for value, of in zip(arguments, statement.types, strict=True)
    )
    return _do(conn, f"EXECUTE $text${statement.text}$text$ USING {literals}; GET DIAGNOSTICS v_rows = ROW_COUNT")


def _do(conn: Db, body: str) -> int:
    conn.execute(
        f"DO $body$ DECLARE v_rows int; BEGIN {body}; PERFORM set_config('plain.rows', v_rows::text, false); END $body$".encode()
    )
    return int(one(conn, "SELECT current_setting('plain.rows') AS rows")["rows"])


def by_a_trigger(conn: Db, statement: Statement, *arguments: Any) -> int:
    """A table of the client's own, with a trigger that writes to jobs."""
    columns = ", ".join(f"a{n + 1} {of}" for n, of in enumerate(statement.types))
    text = re.sub(r"\$(\d)", r"NEW.a\1", statement.text)
    conn.execute(f"CREATE TEMP TABLE outcomes ({columns}, rows int)".encode())
    try:
        conn.execute(
            "CREATE OR REPLACE FUNCTION pg_temp.outcome() RETURNS trigger LANGUAGE plpgsql"
            f" AS $body$ BEGIN {text}; GET DIAGNOSTICS NEW.rows = ROW_COUNT; RETURN NEW; END $body$".encode()
        )
        conn.execute("CREATE TRIGGER t BEFORE INSERT ON outcomes FOR EACH ROW EXECUTE FUNCTION pg_temp.outcome()")
        places = ", ".join(f"${n + 1}" for n in range(len(arguments)))
        return int(one(conn, f"INSERT INTO outcomes VALUES ({places}) RETURNING rows", *arguments)["rows"])
    finally:
        conn.execute("DROP TABLE outcomes")


def through_a_view(conn: Db, statement: Statement, *arguments: Any) -> int:
    conn.execute("CREATE TEMP VIEW own_jobs AS SELECT * FROM jobs WHERE priority > 0")
    try:
        return change(conn, re.sub(r"\bjobs\b", "own_jobs", statement.text), *arguments)
    finally:
        conn.execute("DROP VIEW own_jobs")


def at_a_cursor(conn: Db, statement: Statement, *arguments: Any) -> int:
    """SELECT … FOR UPDATE through a cursor, then an UPDATE of the row where the cursor is."""
    names, values, condition = _parts(statement.text)
    assigned = ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))
    changed = 0
    with conn.transaction():
        send(conn, f"DECLARE due CURSOR FOR SELECT * FROM jobs WHERE {condition} FOR UPDATE", arguments[0])
        while send(conn, "FETCH due"):
            # Only the arguments that are left in it; in the statements of the seed, the first is in the condition.
            text = f"UPDATE jobs SET {assigned.replace('$2', '$1')} WHERE CURRENT OF due"
            changed += change(conn, text, *arguments[1:])
        conn.execute("CLOSE due")
    return changed


FORMS: dict[str, Form] = {
    "as it is": _sent(),
    "in lower case": _sent(in_lower_case),
    "quoted identifiers": _sent(quoted),
    "comments": _sent(with_comments),
    "the schema's name": of_its_schema,
    "an alias": _sent(of_an_alias),
    "a row": _sent(as_a_row),
    "a join": _sent(from_a_join),
    "a sub-select": _sent(of_a_sub_select),
    "MERGE": _sent(as_a_merge),
    "literals": by_literals,
    "a CTE": in_a_cte,
    "prepared": prepared,
    "a function": _in_a_function("{text}; GET DIAGNOSTICS v_rows = ROW_COUNT"),
    "a function with EXECUTE": _in_a_function("EXECUTE '{quoted}' USING {using}; GET DIAGNOSTICS v_rows = ROW_COUNT"),
    "a function with a loop over RETURNING": _in_a_function(
        "FOR v_id IN {text} RETURNING id LOOP v_rows := v_rows + 1; END LOOP"
    ),
    "an SQL function": in_an_sql_function,
    "an SQL function with a parsed body": in_a_parsed_sql_function,
    "a procedure": in_a_procedure,
    "a DO block": in_a_do_block,
    "a DO block with EXECUTE": executed_in_a_do_block,
    "a trigger": by_a_trigger,
    "a view of its own": through_a_view,
    "a cursor": at_a_cursor,
}
