"""Statements that we send mean PostgreSQL's own functions, operators and types, under any search_path.

Some that cannot be planted are not seen by tests/security/test_planted.py, because they take any number of arguments of any type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from howdah.db.statements import call_statement, names, source

# Those of the doctor, and of a migration, run in a transaction that has set its path: patience.sql, fix_search_path.sql.
IN_A_SAFE_PATH = {
    "reads/dependents", "reads/fingerprint", "reads/grants", "reads/may_create_roles", "writes/record_rights",
    "writes/record_version",
}  # fmt: skip
FIRST = ("reads/doctor/patience", "reads/doctor/settings", "lock_migration")
TOKEN = re.compile(
    r"""(?P<skipped>--[^\n]*|'(?:[^']|'')*'|%\(\w+\)s|\s+)|(?P<name>"[^"]*"|[A-Za-z_]\w*)|(?P<number>[\d.]+)
    |(?P<cast>::)|(?P<named>=>)|(?P<operator>[-+*/<>=~!@\#%^&|`?]+)|(?P<other>[()\[\],.;])""",
    re.VERBOSE,
)
# By the grammar, these are PostgreSQL's own.
SPECIAL = {
    "all", "and", "any", "array", "as", "by", "case", "coalesce", "else", "exists", "extract", "filter", "from", "greatest",
    "lateral", "least", "materialized", "not", "on", "operator", "or", "over", "select", "then", "values", "when", "where",
}  # fmt: skip
KEYWORD_TYPES = {"bigint", "boolean", "int", "interval", "varchar"}
# By the grammar, these compare by whatever = is in sight.
HIDDEN = {"between", "in", "like", "nullif", "using"}


def statements() -> Iterator[str]:
    for folder in ("reads", "reads/web", "writes", "foreign", "bench", "testing"):
        for name in names(folder):
            path = f"{folder}/{name}"
            # A script sets its path first.
            if path not in IN_A_SAFE_PATH and "SET LOCAL search_path = pg_catalog, pg_temp" not in source(path):
                yield path
    yield from FIRST


def faults(text: str) -> Iterator[str]:
    tokens = [match for match in TOKEN.finditer(text) if match.lastgroup != "skipped"]
    assert sum(len(match[0]) for match in TOKEN.finditer(text)) == len(text)
    words = ["", "", *(match[0].lower() for match in tokens), ""]
    for place, match in enumerate(tokens, start=2):
        before, word, after = words[place - 1], words[place], words[place + 1]
        if match.lastgroup == "operator" and not (words[place - 2] == "pg_catalog" and before == "."):
            is_star = word == "*" and before in ("select", ",", ".", "(")
            is_sign = word == "-" and after.isdecimal()
            if not is_star and not is_sign:
                yield f"operator {word} after {before}"
        if match.lastgroup != "name":
            continue
        if word in HIDDEN or (word == "distinct" and before == "from") or (word == "case" and after != "when"):
            yield f"{word}, which compares by an operator in sight"
        is_call = after == "(" and before not in (".", "as") and word not in SPECIAL
        is_type = before == "::" and word not in KEYWORD_TYPES and after != "."
        if is_call or is_type:
            yield f"{'type' if is_type else 'function'} {word}"
        if word.startswith("pg_") and before in ("from", "join") and after != ".":
            yield f"relation {word}"


def test_a_statement_names_the_schema_of_all_that_it_calls() -> None:
    for path in statements():
        assert [*faults(re.sub(r"^SET LOCAL .*$", "", source(path), flags=re.MULTILINE))] == [], path


def test_a_call_names_the_schema_of_all_that_it_calls() -> None:
    statement = call_statement("howdah", "complete", ("ids", "tokens"), "1s").decode()
    assert [*faults(statement.replace('"', ""))] == []


@pytest.mark.parametrize(
    "statement", ["SELECT a = b", "SELECT lower(a)", "SELECT a::text", "SELECT a IN (1)", "SELECT FROM pg_class", "SELECT CASE a WHEN 1 THEN 2 END"]
)  # fmt: skip
def test_what_is_not_qualified_is_seen(statement: str) -> None:
    assert [*faults(statement)]


def test_the_files_are_in_ascii() -> None:
    """A server of any encoding takes them."""
    folders = ("tables", "views", "functions", "setup", "roles", "reads", "reads/doctor", "bench", "foreign", "testing")
    paths = (f"{folder}/{name}" for folder in folders for name in names(folder))
    assert [path for path in paths if not source(path).isascii()] == []
