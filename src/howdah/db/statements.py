"""The SQL files, rendered for a schema.

In every .sql file the word ``howdah`` is the schema's name, and ``howdah_owner`` and its like are the roles that are named
after it. Rendering replaces these, and nothing else.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib import resources
from importlib.resources.abc import Traversable

from psycopg import sql

from howdah.errors import InvalidOption

ROLES = ("owner", "producer", "worker", "viewer", "operator")

_SCHEMA_TOKEN = re.compile(rf"\bhowdah(_(?:{'|'.join(ROLES)}))?\b")
_SCHEMA_PATTERN = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_GRANT = re.compile(r"^GRANT (?:USAGE|SELECT|EXECUTE) ON\s(?P<what>.+?)\sTO\s(?P<roles>.+?);", re.DOTALL | re.MULTILINE)
_FOREIGN = ("information_schema",)
_ROOT = resources.files("howdah") / "sql"


def check_schema_name(schema: object) -> str:
    if (
        not isinstance(schema, str)
        or not _SCHEMA_PATTERN.fullmatch(schema)
        or schema in _FOREIGN
        or schema.startswith("pg_")
    ):
        raise InvalidOption(
            f"{schema!r} is not a schema name for Howdah: 1 to 48 lower-case letters, digits and underscores,"
            " beginning with a letter or an underscore, not with pg_, and not information_schema"
        )
    return schema


def render(text: str, schema: str, *, roles_of: str | None = None) -> str:
    """The text for a schema. roles_of: the schema whose roles it names, if that is another one."""

    def rendered(token: re.Match[str]) -> str:
        return quoted(schema if token[1] is None else f"{roles_of or schema}{token[1]}")

    return _SCHEMA_TOKEN.sub(rendered, text)


def quoted(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@functools.cache
def source(path: str) -> str:
    """The text of one SQL file, by its path without the ending. A function's path leaves out the theme that it is under."""
    folder, _, name = path.rpartition("/")
    file = _functions()[name] if folder == "functions" else _ROOT / f"{path}.sql"
    return file.read_text(encoding="utf-8")


@functools.cache
def names(folder: str) -> tuple[str, ...]:
    """The names of the SQL files of one folder, without their ending, sorted."""
    return tuple(sorted(_functions() if folder == "functions" else _files(_ROOT / folder)))


@functools.cache
def _functions() -> dict[str, Traversable]:
    """Each function's file by its name: the folders below ``functions`` are for people."""
    themes = [theme for theme in (_ROOT / "functions").iterdir() if theme.is_dir()]
    return {name: file for theme in themes for name, file in _files(theme).items()}


def _files(folder: Traversable) -> dict[str, Traversable]:
    return {entry.name.removesuffix(".sql"): entry for entry in folder.iterdir() if entry.name.endswith(".sql")}


@functools.cache
def digest(*folders: str) -> str:
    """A hash of all files of these folders."""
    paths = (f"{folder}/{name}" for folder in folders for name in names(folder))
    return hashlib.sha256("\0".join(map(source, paths)).encode()).hexdigest()[:16]


@functools.lru_cache(maxsize=1024)
def roles_that_may_use(name: str, schema: str) -> tuple[str, ...]:
    """The roles to which a function, a relation or the schema is granted."""
    return tuple(
        schema + role
        for grant in _GRANT.finditer(source("roles/3_grant"))
        if name in ((part or schema) for part in re.findall(r"\bhowdah\b(?:\.(\w+))?", grant["what"]))
        for role in re.findall(r"\bhowdah(_\w+)", grant["roles"])
    )


@functools.lru_cache(maxsize=1024)
def read_statement(schema: str, name: str) -> bytes:
    return render(source(f"reads/{name}"), schema).encode()


@functools.lru_cache(maxsize=64)
def write_statement(schema: str, name: str) -> bytes:
    return render(source(f"writes/{name}"), schema).encode()


@functools.lru_cache(maxsize=1024)
def call_statement(schema: str, function: str, arguments: tuple[str, ...], lock_timeout: str | None = None) -> bytes:
    """The call of a function by named arguments, with a placeholder for each."""
    return _call(schema, function, {name: sql.Placeholder(name) for name in arguments}, lock_timeout)


@functools.lru_cache(maxsize=1024)
def prepared_call_statement(schema: str, function: str, arguments: tuple[str, ...]) -> bytes:
    """The same, with the placeholders of the server: $1, $2, ..."""
    return _call(schema, function, {name: sql.SQL(f"${n}") for n, name in enumerate(arguments, 1)})


def _call(schema: str, function: str, values: dict[str, sql.Composable], lock_timeout: str | None = None) -> bytes:
    bound: sql.Composable = sql.SQL("")
    if lock_timeout is not None:
        # For this statement's transaction alone. The ids depend on it, so that every plan evaluates it first.
        bound = sql.SQL("pg_catalog.set_config('lock_timeout', {}, true) AS bound, ").format(lock_timeout)
        values["ids"] = sql.SQL("CASE WHEN bound IS NOT NULL THEN {} END").format(values["ids"])
    named = (sql.SQL("{} => {}").format(sql.Identifier(f"p_{name}"), value) for name, value in values.items())
    # A function that returns one value has its own name as that of the column.
    call = sql.SQL("SELECT {alias}.* FROM {bound}{function}({arguments}) AS {alias}").format(
        alias=sql.Identifier(function),
        bound=bound,
        function=sql.Identifier(schema, function),
        arguments=sql.SQL(", ").join(named),
    )
    return call.as_bytes()
