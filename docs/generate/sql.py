"""Every function, view and table that a role may use, with its comment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from docs.generate.markdown import HEADER, from_docstring, shown

from howdah.db import statements

CONTRACT: Final = Path(__file__).parents[1] / "reference" / "sql.md"
WIDTH: Final = 88

_FUNCTION = re.compile(
    r"CREATE OR REPLACE FUNCTION howdah\.(?P<name>\w+)\((?P<arguments>.*?)\)\s+RETURNS (?P<returns>.*?)\nLANGUAGE", re.S
)
_COMMENT = re.compile(
    r"COMMENT ON (?P<kind>FUNCTION|TABLE|VIEW|COLUMN) howdah\.(?P<name>[\w.]+) IS\s+(?P<text>(?:'(?:[^']|'')*'\s*)+);"
)
_GROUP_OR_FUNCTION = re.compile(r"^### (?P<group>.+)$|^\| `(?P<function>\w+)\(", re.MULTILINE)
# Neither inside of brackets nor of quotes.
_COMMA = re.compile(r",\s*(?![^()]*\))(?=(?:[^']*'[^']*')*[^']*$)")
_CODE = re.compile(r"(?<!`)\b(?:p_\w+|JQ\d+|NULL)\b(?!`)")


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
    public = [name for name in statements.names("functions") if _roles(name)]
    for group, members in _groups().items():
        yield f"## {group}\n"
        anchor = group.lower().replace(" ", "-")
        yield f"With examples: [{group.lower()}](sql.md#{anchor}), in the contract.\n"
        for name in members:
            if name in public:
                public.remove(name)
                yield from _function(name, comments)
    if public:
        yield "## Others\n"
        for name in public:
            yield from _function(name, comments)
    yield "## Views and tables\n"
    yield "| name | what it has | for |"
    yield "| --- | --- | --- |"
    for (kind, name), text in sorted(comments.items()):
        if kind in ("TABLE", "VIEW"):
            yield f"| `{name}` | {text} | {_roles(name) or 'the owner'} |"
    yield ""


def _groups() -> dict[str, list[str]]:
    """As the contract has them, and in its order."""
    groups: dict[str, list[str]] = {}
    group = ""
    for found in _GROUP_OR_FUNCTION.finditer(CONTRACT.read_text(encoding="utf-8")):
        if found["group"]:
            group = found["group"]
        else:
            groups.setdefault(group, []).append(found["function"])
    return groups


def _function(name: str, comments: dict[tuple[str, str], str]) -> Iterator[str]:
    found = _FUNCTION.search(statements.source(f"functions/{name}"))
    assert found, f"no function in {name}.sql"
    yield f"### {name}\n"
    # By this name for SQL the block is coloured, and no test runs it.
    yield f"{shown(_signature(found), 'postgresql')}\n"
    about = from_docstring(comments["FUNCTION", name], re.findall(r"\bp_\w+", found["arguments"]))
    yield _CODE.sub(r"`\g<0>`", about) + "\n"
    yield f"For {_roles(name)}.\n"


def _signature(found: re.Match[str]) -> str:
    returns = _plain(" ".join(found["returns"].split()))
    called = _listed(_plain(found["name"]), _plain(found["arguments"]), len(f" RETURNS {returns}"))
    columns = re.fullmatch(r"TABLE \((.*)\)", returns)
    if not columns:
        return f"{called} RETURNS {returns}"
    # What is before it in its line counts, too.
    before = f"{called.splitlines()[-1]} RETURNS "
    return f"{called} RETURNS {_listed('TABLE ', columns[1], len(before))}"


def _listed(name: str, items: str, beside: int) -> str:
    """On one line if it fits beside so many characters, else one below the other."""
    each = _COMMA.split(" ".join(items.split()))
    line = f"{name}({', '.join(each)})"
    return line if beside + len(line) <= WIDTH else f"{name}(\n    " + ",\n    ".join(each) + "\n)"


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
