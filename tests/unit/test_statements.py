"""The SQL files: one token, which is the schema's name, and the same manners everywhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import howdah
from howdah import InvalidOption
from howdah.db import statements

ROOT = Path(howdah.__file__).parent / "sql"
FILES = sorted(
    re.sub(r"^functions/\w+/", "functions/", path.relative_to(ROOT).as_posix().removesuffix(".sql"))
    for path in ROOT.rglob("*.sql")
)
FUNCTIONS = statements.names("functions")


def test_the_files_are_found_as_the_package_finds_them() -> None:
    assert {
        f"{folder}/{name}"
        for folder in ("tables", "views", "functions", "roles", "reads", "writes")
        for name in statements.names(folder)
    } <= set(FILES)
    assert len(FUNCTIONS) > 30
    assert len(FILES) == len(set(FILES)), "two functions have one name"


def test_rendering_for_another_schema_leaves_nothing_of_the_default_one() -> None:
    for path in FILES:
        rendered = statements.render(statements.source(path), "elsewhere")
        # The column howdah_version is a word of its own.
        assert not re.search(r"\bhowdah\b", rendered), path
        assert rendered.count('"elsewhere"') == len(re.findall(r"\bhowdah\b", statements.source(path))), path


def test_rendering_for_the_default_schema_changes_nothing_but_quotes() -> None:
    for path in FILES:
        rendered = statements.render(statements.source(path), "howdah")
        assert re.sub(r'"(howdah(_\w+)?)"', r"\1", rendered) == statements.source(path), path


def test_a_function_file_has_one_function_with_a_comment_and_nothing_for_public() -> None:
    for name in FUNCTIONS:
        text = statements.source(f"functions/{name}")
        assert set(re.findall(r"CREATE OR REPLACE FUNCTION howdah\.(\w+)", text)) == {name}
        assert re.search(rf"^COMMENT ON FUNCTION howdah\.{name} IS", text, re.MULTILINE), name
        assert re.search(rf"^REVOKE ALL ON FUNCTION howdah\.{name} FROM PUBLIC;", text, re.MULTILINE), name


def test_what_runs_with_the_rights_of_its_owner_has_a_search_path_of_its_own() -> None:
    for path in FILES:
        text = statements.source(path)
        if re.search(r"security\s+definer", text, re.IGNORECASE):
            assert path.startswith("functions/")
            assert re.search(r"SECURITY DEFINER\nSET search_path = pg_catalog, pg_temp\n", text), path


def test_roles_are_rendered_after_their_schema() -> None:
    text = "GRANT USAGE ON SCHEMA howdah TO howdah_viewer, howdah_operators; SELECT howdah_version"
    assert statements.render(text, "acme") == (
        'GRANT USAGE ON SCHEMA "acme" TO "acme_viewer", howdah_operators; SELECT howdah_version'
    )
    assert statements.render("howdah.live, howdah_owner", "fresh", roles_of="acme") == '"fresh".live, "acme_owner"'


def test_nothing_is_granted_to_public() -> None:
    for path in FILES:
        assert not re.search(r"\bGRANT\b.*\bTO\s+PUBLIC\b", statements.source(path), re.IGNORECASE), path


@pytest.mark.parametrize("schema", ["howdah", "_", "jobs2", "a" * 48, "my_queue_1"])
def test_a_schema_name_is_lower_case_letters_digits_and_underscores(schema: str) -> None:
    assert statements.check_schema_name(schema) == schema


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "a" * 49,
        "Howdah",
        "1a",
        "a-b",
        "a b",
        'a"b',
        "a;b",
        "a.b",
        "a\n",
        "é",
        "pg_mine",
        "pg_",
        "information_schema",
        None,
        5,
        b"howdah",
    ],
    ids=repr,
)
def test_any_other_schema_name_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidOption, match="is not a schema name"):
        statements.check_schema_name(schema)


def test_a_call_names_every_argument_and_puts_no_value_into_the_text() -> None:
    statement = statements.call_statement("elsewhere", "cancel", ("ids", "reason")).decode()
    assert statement == (
        'SELECT "cancel".* FROM "elsewhere"."cancel"("p_ids" => %(ids)s, "p_reason" => %(reason)s) AS "cancel"'
    )
