"""System checks: ``manage.py check`` says what would go wrong, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core import checks as messages
from django.core.checks import CheckMessage, Error
from django.core.exceptions import ImproperlyConfigured
from django.db import connections, router

from howdah.db import migrate
from howdah.django.framework import IS_BACKPORT, task_backends
from howdah.errors import HowdahError, InvalidInput, SchemaMissing, SchemaOutdated

if TYPE_CHECKING:
    from howdah.django.backend import HowdahBackend


def of_backend(backend: HowdahBackend) -> Iterator[CheckMessage]:
    """What Django's own check of task backends asks for."""
    named = f"TASKS[{backend.alias!r}]"
    if not apps.is_installed("howdah.django"):
        yield Error(
            f"{named} is Howdah's, and the app howdah.django is not installed.",
            hint='Add "howdah.django" to INSTALLED_APPS: it finds the tasks, and has the migrations.',
            id="howdah.E001",
        )
    if backend.database not in connections:
        yield Error(
            f"{named} has the database {backend.database!r}, which is not in DATABASES.",
            hint='Set OPTIONS["database"] to an alias of DATABASES.',
            id="howdah.E002",
        )
        return
    vendor = connections[backend.database].vendor
    if vendor != "postgresql":
        yield Error(
            f"{named} is in the database {backend.database!r}, which is {vendor}: Howdah needs PostgreSQL.",
            hint='Set OPTIONS["database"] to the alias of a PostgreSQL database.',
            id="howdah.E002",
        )
        return
    try:
        _ = backend.queue
    except (InvalidInput, ImportError, ImproperlyConfigured) as error:
        yield Error(f"{named}: {error}.", hint="Correct its QUEUES or OPTIONS.", id="howdah.E003")
    if others := _other_databases(backend.database):
        yield messages.Warning(
            f"{named} is in the database {backend.database!r}, and models are written to {', '.join(map(repr, others))}: a task"
            " that is enqueued with a change there is not in the same transaction.",
            hint="If the change is rolled back, the task runs all the same. Keep jobs in the database of the models, or enqueue in"
            " transaction.on_commit(…, using=…), and silence howdah.W001.",
            id="howdah.W001",
        )


def _other_databases(database: str) -> list[str]:
    """The aliases that models are written to, and that are not this one."""
    models = [model for model in apps.get_models() if model._meta.app_label != "howdah" and model._meta.managed]
    return sorted({router.db_for_write(model) for model in models} - {database})


def check_app(app_configs: Sequence[Any] | None = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001
    """What no backend can ask for itself."""
    if IS_BACKPORT and not apps.is_installed("django_tasks"):
        return [
            messages.Warning(
                "The app django_tasks is not installed, so the checks of task backends and the logs of tasks are missing.",
                hint='Add "django_tasks" to INSTALLED_APPS.',
                id="howdah.W002",
            )
        ]
    return []


def check_schema(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:  # noqa: ARG001
    """With ``manage.py check --database``, and before ``migrate``: whether the schema fits this Howdah."""
    found: list[CheckMessage] = []
    if sys.argv[1:2] == ["migrate"]:
        return found  # which is the remedy
    for backend in backends(databases or ()):
        try:
            queue = backend.queue
            with queue._database.connect(queue.dsn) as conn:
                queue._database.run(migrate.check_version(queue.schema), conn)
        except HowdahError as error:
            what, _, remedy = str(error).partition(" Run: ")
            if isinstance(error, SchemaMissing | SchemaOutdated):
                remedy = "manage.py migrate"
            hint = f"Run: {remedy}" if remedy else None
            found.append(messages.Warning(what, hint=hint, id="howdah.W003"))
    return found


def backends(databases: Sequence[str]) -> list[HowdahBackend]:
    """The backends of Howdah whose jobs are in these databases."""
    from howdah.django.backend import HowdahBackend

    ours = (backend for backend in task_backends.all() if isinstance(backend, HowdahBackend))
    return [backend for backend in ours if backend.database in databases]
