"""What happened to a job, in words: events, lines that were logged, and the ends of attempts."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from howdah.cli.arguments.duration import format_span
from howdah.cli.render.encrypted import ENCRYPTED, first_line, is_sealed
from howdah.cli.render.output import readable_json
from howdah.cli.render.status import STYLES
from howdah.model.job import FINAL_STATUSES, moment_in

LEFT_OUT: Final = "howdah.left_out"
"""The event that a worker tells when there was more than it keeps."""

_LEVEL_STYLES: Final = ((logging.ERROR, "red"), (logging.WARNING, "yellow"), (logging.INFO, ""))
_STATUS_STYLES: Final[dict[str, str]] = {str(status): style for status, style in STYLES.items()}


class Happening(Protocol):
    """An event of a job, or an update about one."""

    @property
    def at(self) -> datetime: ...

    @property
    def attempt(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str | None: ...

    @property
    def data(self) -> Any: ...


def in_words(happening: Happening) -> str:
    """What happened. It is as long, and as dangerous, as what others wrote."""
    if happening.kind == "log":
        return f"{happening.name} {log_text(happening)}"
    if happening.kind == "status":
        return _status_text(happening)
    return _event_text(happening)


def style_of(happening: Happening) -> str:
    if happening.kind == "log":
        level = level_number(happening.name)
        return next((style for least, style in _LEVEL_STYLES if level >= least), "dim")
    if happening.kind == "status":
        return _STATUS_STYLES.get(happening.name or "", "")
    return "cyan"


def is_an_end(happening: Happening) -> bool:
    """Whether the job has reached its final status by it."""
    return happening.kind == "status" and happening.name in FINAL_STATUSES


def brief(said: str, most: int) -> str:
    """The first line of it, if that is not too long, and how many follow."""
    first, *others = said.rstrip().splitlines() or [""]
    if len(first) > most:
        first = f"{first[: most - 1]}…"
    more = "1 line" if len(others) == 1 else f"{len(others)} lines"
    return f"{first} (+{more})" if others else first


def log_text(happening: Happening) -> str:
    """The logger and the message; whatever else a client of its own kept, as it is."""
    data = happening.data
    if not isinstance(data, dict) or "message" not in data:
        return _data_text(data)
    return f"{data['logger']}: {data['message']}" if data.get("logger") else str(data["message"])


def level_number(name: str | None) -> int:
    """How grave a level is. One that nobody knows here may be grave."""
    return logging.getLevelNamesMapping().get((name or "").upper(), logging.CRITICAL)


def _event_text(happening: Happening) -> str:
    if happening.name == LEFT_OUT and isinstance(happening.data, dict):
        events, logs = (happening.data.get(each) or 0 for each in ("events", "logs"))
        return f"too much to keep: {events} events and {logs} log lines of this attempt were left out"
    return f"{happening.name} {_data_text(happening.data)}" if happening.data else str(happening.name)


def _data_text(data: Any) -> str:
    return ENCRYPTED if is_sealed(data) else readable_json(data)


def _status_text(happening: Happening) -> str:
    data = happening.data if isinstance(happening.data, dict) else {}
    cause, error = data.get("cause"), data.get("error")
    said = str(happening.name)
    if said == "pending" and cause == "worker died" and data.get("worker"):
        # The error would say the same at length.
        said, error = f"lost, worker {data['worker']} died", None
    elif said == "pending":
        said = f"{cause or 'handed back'}"
    elif cause not in (None, said):
        said = f"{said}, {cause}"
    if happening.name == "completed" and (ran := _span_between(data.get("started_at"), happening.at)):
        said = f"{said} after {ran}"
    if error:
        said = f"{said}: {first_line(str(error))}"
    return f"{said}; {again}" if (again := _again(happening, data)) else said


def _again(happening: Happening, data: dict[str, Any]) -> str:
    if happening.name != "pending" or "run_at" not in data:
        return ""
    run_at = moment_in(data["run_at"])
    if run_at is None:
        return ""
    wait = run_at - happening.at
    return f"again in {format_span(wait)}" if wait > timedelta() else "again at once"


def _span_between(begin: object, end: datetime) -> str:
    began = moment_in(begin)
    return "" if began is None else format_span(end - began)
