"""Events of a job in words: its own events, log lines, and the ends of attempts."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, Final, TypeAlias

from howdah.cli.arguments.duration import format_duration
from howdah.cli.render.output import STATUS_STYLES, plural, readable_json
from howdah.cli.render.terminal_escape import ENCRYPTED, first_line, is_encrypted
from howdah.model.event import Event
from howdah.model.job import FINAL_STATUSES, moment_in
from howdah.watch.watch import Update

LEFT_OUT: Final = "howdah.left_out"
"""The event that a worker adds when there were more events than it keeps."""

_LEVEL_STYLES: Final = ((logging.ERROR, "red"), (logging.WARNING, "yellow"), (logging.INFO, ""))
_STATUS_STYLES: Final[dict[str, str]] = {str(status): style for status, style in STATUS_STYLES.items()}


EventLike: TypeAlias = Event | Update


def in_words(event: EventLike) -> str:
    """Foreign text of any length, not escaped yet."""
    if event.kind == "log":
        return f"{event.name} {log_text(event)}"
    if event.kind == "status":
        return _status_text(event)
    return _event_text(event)


def style_of(event: EventLike) -> str:
    if event.kind == "log":
        level = level_number(event.name)
        return next((style for least, style in _LEVEL_STYLES if level >= least), "dim")
    if event.kind == "status":
        return _STATUS_STYLES.get(event.name or "", "")
    return "cyan"


def is_an_end(event: EventLike) -> bool:
    """Whether it is the final status of the job."""
    return event.kind == "status" and event.name in FINAL_STATUSES


def brief(said: str, most: int) -> str:
    """Its first line, shortened to ``most`` characters, and how many lines follow."""
    first, *others = said.rstrip().splitlines() or [""]
    if len(first) > most:
        first = f"{first[: most - 1]}…"
    return f"{first} (+{plural(len(others), 'line')})" if others else first


def log_text(event: EventLike) -> str:
    """The logger and the message; other data, written by a foreign client, as JSON."""
    data = event.data
    if not isinstance(data, dict) or "message" not in data:
        return _data_text(data)
    return f"{data['logger']}: {data['message']}" if data.get("logger") else str(data["message"])


def level_number(name: str | None) -> int:
    """The severity of a level. An unknown one counts as critical."""
    return logging.getLevelNamesMapping().get((name or "").upper(), logging.CRITICAL)


def _event_text(event: EventLike) -> str:
    if event.name == LEFT_OUT and isinstance(event.data, dict):
        events, logs = (event.data.get(each) or 0 for each in ("events", "logs"))
        return f"too much to keep: {events} events and {logs} log lines of this attempt were left out"
    return f"{event.name} {_data_text(event.data)}" if event.data else str(event.name)


def _data_text(data: Any) -> str:
    return ENCRYPTED if is_encrypted(data) else readable_json(data)


def _status_text(event: EventLike) -> str:
    data = event.data if isinstance(event.data, dict) else {}
    cause, error = data.get("cause"), data.get("error")
    said = str(event.name)
    if said == "pending" and cause == "worker died" and data.get("worker"):
        # The error would only repeat this.
        said, error = f"lost, worker {data['worker']} died", None
    elif said == "pending":
        said = f"{cause or 'handed back'}"
    elif cause not in (None, said, "workflow"):
        said = f"{said}, {cause}"
    if event.name == "completed" and (ran := _duration_between(data.get("started_at"), event.at)):
        said = f"{said} after {ran}"
    if error:
        said = f"{said}: {first_line(str(error))}"
    return f"{said}; {again}" if (again := _again(event, data)) else said


def _again(event: EventLike, data: dict[str, Any]) -> str:
    if event.name != "pending" or "run_at" not in data:
        return ""
    run_at = moment_in(data["run_at"])
    if run_at is None:
        return ""
    wait = run_at - event.at
    return f"again in {format_duration(wait)}" if wait > timedelta() else "again at once"


def _duration_between(begin: object, end: datetime) -> str:
    began = moment_in(begin)
    return "" if began is None else format_duration(end - began)
