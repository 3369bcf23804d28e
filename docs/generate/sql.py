"""Every function, view and table that a role may use, in the words of its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator

from docs.generate.markdown import HEADER, shown

from howdah import statements

_FUNCTION = re.compile(
    r"CREATE OR REPLACE FUNCTION howdah\.(?P<name>\w+)\((?P<arguments>.*?)\)\s+RETURNS (?P<returns>.*?)\nLANGUAGE", re.S
)
_COMMENT = re.compile(
    r"COMMENT ON (?P<kind>FUNCTION|TABLE|VIEW|COLUMN) howdah\.(?P<name>[\w.]+) IS\s+(?P<text>(?:'(?:[^']|'')*'\s*)+);"
)


def page() -> str:
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    comments = dict(_comments())
    yield HEADER
    yield "# SQL functions, views and tables\n"
    yield (
        "What a login may use that has one of the [roles](../how-to/roles.md). How they go together, with examples:"
        " [the SQL contract](sql.md). Names are without their schema, which is `howdah` unless you chose another. Whatever"
        " else is in the schema is part of these, and may change.\n"
    )
    yield "## Functions\n"
    for name in statements.names("functions"):
        if roles := _roles(name):
            found = _FUNCTION.search(statements.source(f"functions/{name}"))
            assert found, f"no function in {name}.sql"
            yield f"### {name}\n"
            yield f"{shown(_signature(found))}\n"
            yield f"{comments['FUNCTION', name]}\n"
            yield f"For {roles}.\n"
    yield "## Views and tables\n"
    yield "| name | what it has | for |"
    yield "| --- | --- | --- |"
    for (kind, name), text in sorted(comments.items()):
        if kind in ("TABLE", "VIEW"):
            yield f"| `{name}` | {text} | {_roles(name) or 'the owner'} |"
    yield ""


def _signature(found: re.Match[str]) -> str:
    arguments = [each.strip() for each in found["arguments"].strip().split(",\n")]
    returns = " ".join(found["returns"].split())
    line = f"{found['name']}({', '.join(arguments)}) RETURNS {returns}"
    if len(line) <= 100:
        return _plain(line)
    return _plain(f"{found['name']}(\n    " + ",\n    ".join(arguments) + f"\n) RETURNS {returns}")


def _plain(text: str) -> str:
    return text.replace("howdah.", "")


def _comments() -> Iterator[tuple[tuple[str, str], str]]:
    for folder in ("tables", "views", "functions"):
        for file in statements.names(folder):
            for found in _COMMENT.finditer(statements.source(f"{folder}/{file}")):
                text = "".join(re.findall(r"'((?:[^']|'')*)'", found["text"].replace("''", "\0"))).replace("\0", "'")
                yield (found["kind"], found["name"]), _plain(text)


def _roles(name: str) -> str:
    roles = [f"`{role}`" for role in statements.roles_that_may_use(name, "")]
    return ", ".join(roles).replace("`_", "`")
