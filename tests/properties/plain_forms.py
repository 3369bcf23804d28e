"""The forms in which clients, drivers and ORMs write one and the same statement."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from psycopg import sql

from tests.properties.plain_statements import Statement
from tests.sql import seed

_NAMES: Final = re.compile(rf"\b({'|'.join(['jobs', *(name for name, _ in seed.COLUMNS)])})\b")


@dataclasses.dataclass(frozen=True)
class Sent:
    """What goes over the line: perhaps something that is made first, then the statement with what is bound."""

    text: str
    values: tuple[Any, ...] = ()
    first: str | None = None
    is_prepared: bool = False
    tells: str = "rows"
    """Whether its answer has the rows (and their number), only their number, or nothing."""

    def __str__(self) -> str:
        text = " ".join((self.first or self.text).split())
        return f"{text} {tuple(map(str, self.values))}" if self.values else text


def forms(statement: Statement) -> Iterator[str]:
    """The names of the forms that a statement can have."""
    if statement.is_control:
        yield "bound"
        return
    yield from ("bound", "prepared", "inlined", "quoted")
    if not statement.returns:
        yield from (
            "returning",
            "quoted, returning",
            "function of rows",
            "function",
            "do",
            "execute",
            "cte",
            "counting cte",
        )
    if statement.sets:
        yield from ("row", "row, returning", "merge")


def sent(statement: Statement, form: str, text: str, values: Sequence[Any]) -> Sent:
    """The text and the values of a statement in one of its forms."""
    bound = tuple(values)
    if form in ("bound", "prepared"):
        return Sent(text, bound, is_prepared=form == "prepared")
    if form == "returning":
        return Sent(f"{text} RETURNING *", bound)
    if form == "row" or form == "row, returning":
        return Sent(_as_row(statement) + (" RETURNING *" if form == "row, returning" else ""), bound)
    if form == "merge":
        sets = ", ".join(f"{column} = {value}" for column, value in statement.sets)
        return Sent(
            f"MERGE INTO jobs USING (SELECT) AS once ON {statement.where} WHEN MATCHED THEN UPDATE SET {sets}", bound
        )
    if form.startswith("quoted"):
        return Sent(_NAMES.sub(r'"\1"', text) + (" RETURNING *" if form == "quoted, returning" else ""), bound)
    return _inlined(form, re.sub(r"\$(\d+)", lambda found: _literal(values[int(found[1]) - 1]), text))


def _as_row(statement: Statement) -> str:
    columns, values = zip(*statement.sets, strict=True)
    return f"UPDATE jobs SET ({', '.join(columns)}) = ROW({', '.join(values)}) WHERE {statement.where}"


def _literal(value: Any) -> str:
    return sql.Literal(value).as_string()


def _inlined(form: str, text: str) -> Sent:
    if form == "do":
        return Sent(f"DO $do$ BEGIN {text}; END $do$", tells="nothing")
    if form == "execute":
        return Sent(f"DO $do$ BEGIN EXECUTE $text$ {text} $text$; END $do$", tells="nothing")
    if form == "cte":
        return Sent(f"WITH written AS ({text} RETURNING *) SELECT * FROM written")
    if form == "counting cte":
        return Sent(f"WITH written AS ({text} RETURNING *) SELECT count(*) FROM written", tells="number")
    if form == "function of rows":
        return _function("SETOF jobs", f"RETURN QUERY {text} RETURNING *;", "rows")
    if form == "function":
        return _function("bigint", f"{text}; GET DIAGNOSTICS written = ROW_COUNT; RETURN written;", "number")
    return Sent(text)


def _function(returns: str, body: str, tells: str) -> Sent:
    name = f"pg_temp.take_pending_job_{tells}"
    made = f"CREATE OR REPLACE FUNCTION {name}() RETURNS {returns} LANGUAGE plpgsql AS $f$ DECLARE written bigint; BEGIN {body} END $f$"
    return Sent(
        f"SELECT * FROM {name}() AS count" if tells == "number" else f"SELECT * FROM {name}()", first=made, tells=tells
    )
