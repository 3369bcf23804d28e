"""Howdah's schema through Django's migrations.

The first migration installs it, so that others can depend on it. Later versions of Howdah bring it up to date after each
``manage.py migrate``: it knows by itself what is missing. It has its own connection and its own transaction, as ``howdah migrate`` has.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS
from django.db.migrations.operations.base import Operation

from howdah.config import DEFAULT_SCHEMA
from howdah.db.statements import quoted
from howdah.django import checks


def table(name: str) -> str:
    """The name of a table of Howdah for Django, with its schema: the first one that TASKS names."""
    options = [each.get("OPTIONS", {}) for each in getattr(settings, "TASKS", {}).values()]
    schema = next((each["schema"] for each in options if "schema" in each), DEFAULT_SCHEMA)
    return f"{quoted(schema)}.{quoted(name)}"


def install(database: str) -> list[str]:
    """Installs or upgrades every schema of a database. Returns those that it changed."""
    migrations = [backend.queue.migrate(adopt=False) for backend in checks.backends([database])]
    return [each.schema for each in migrations if each.changed]


def upgrade(using: str = DEFAULT_DB_ALIAS, verbosity: int = 1, **kwargs: Any) -> None:
    """After ``manage.py migrate``. The same signal comes after ``flush``, which changes no tables."""
    if "plan" not in kwargs:
        return
    for schema in install(using):
        if verbosity >= 1:
            print(f"  Howdah's schema {schema} was brought up to date.")  # noqa: T201


class Install(Operation):
    """Installs Howdah's schema, in the databases of its backends."""

    reduces_to_sql = False
    reversible = False

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:  # noqa: ARG002
        install(schema_editor.connection.alias)

    def describe(self) -> str:
        return "Installs Howdah's schema (howdah migrate --sql shows it)"
