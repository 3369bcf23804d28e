"""The tasks and schedules of this process. Only these run: a row names a task, and nothing is imported by that name.

Django keeps a backend for each thread, so what all of them share is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.module_loading import autodiscover_modules

from howdah.django.framework import Task
from howdah.errors import InvalidOption

_tasks: dict[str, Task] = {}
_schedules: dict[str, Mapping[str, Any]] = {}


def add(task: Task) -> None:
    """Registers a task as it is defined. The same function with other options (``using``) is the same task."""
    known = _tasks.get(task.module_path)
    # A module that was loaded again has a new function.
    if known is None or known.func is not task.func:
        _tasks[task.module_path] = task


def find(path: object) -> Task | None:
    return _tasks.get(path) if isinstance(path, str) else None


def paths() -> list[str]:
    return sorted(_tasks)


def add_schedule(schedule: Mapping[str, Any]) -> None:
    known = _schedules.get(schedule["name"])
    if known is not None and known["task"].module_path != schedule["task"].module_path:
        raise InvalidOption(f"there are two schedules {schedule['name']!r} in the code: give one of them another name=")
    _schedules[schedule["name"]] = schedule


def schedules(backend: str) -> list[Mapping[str, Any]]:
    """The schedules of the tasks of a backend."""
    return [schedule for schedule in _schedules.values() if schedule["task"].backend == backend]


def discover() -> None:
    """Imports the module ``tasks`` of each app, which registers its tasks."""
    autodiscover_modules("tasks")
