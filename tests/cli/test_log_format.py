"""What the logs of a worker show, and what they cannot be made to show."""

from __future__ import annotations

import json
import logging
import sys
import uuid
from typing import Any

import pytest

from howdah.cli.process.log_format import JsonFormatter, LineFormatter

ESCAPE = "\x1b]0;owned\x07"
NASTY = f"one\n2030-01-01 00:00:00.000 error forged\r{ESCAPE}\u202e\u2028"


def record(message: str, *args: object, name: str = "howdah.worker", **extra: Any) -> logging.LogRecord:
    made = logging.LogRecord(name, logging.INFO, __file__, 1, message, args, None)
    vars(made).update(extra)
    return made


def caught(error: Exception) -> Any:
    try:
        raise error
    except type(error):
        return sys.exc_info()


def is_harmless(text: str) -> bool:
    return text.isprintable()


def test_a_line_for_people() -> None:
    line = LineFormatter().format(record("took %d", 3))
    assert line.split(maxsplit=2)[2] == "info    took 3"
    assert LineFormatter("[2]").format(record("took")).endswith(" info    [2] took")
    assert LineFormatter().format(record("took", name="app.mail")).endswith(" info    app.mail: took")


def test_the_job_is_named_unless_the_message_does() -> None:
    known: dict[str, Any] = {"job_type": "mail", "job_id": uuid.UUID(int=7)}
    assert LineFormatter().format(record("done", **known)).endswith(f"done  [mail {known['job_id']}]")
    assert LineFormatter().format(record("done with mail", **known)).endswith(f"done with mail  [{known['job_id']}]")


def test_nothing_that_others_wrote_begins_a_line_or_reaches_the_terminal() -> None:
    line = LineFormatter().format(record("%s", NASTY, job_type=NASTY, name=f"app{NASTY}"))
    assert is_harmless(line)
    with_traceback = record("failed")
    with_traceback.exc_info = caught(ValueError(NASTY))
    first, *others = LineFormatter().format(with_traceback).split("\n")
    assert first.endswith("failed")
    assert len(others) > 3
    assert all(line.startswith("    ") and is_harmless(line) for line in others)


def test_nor_is_it_in_the_json_that_programs_read() -> None:
    made = record("%s", NASTY, job_type=NASTY, tags=[NASTY], other=object(), count=3, ratio=float("nan"))
    made.exc_info = caught(ValueError(NASTY))
    text = JsonFormatter().format(made)
    assert text.isascii()
    assert is_harmless(text)
    fields = json.loads(text)
    traceback = fields.pop("traceback")
    assert all(is_harmless(value) for value in (fields["message"], fields["job_type"], *fields["tags"]))
    assert all(is_harmless(line) for line in traceback.split("\n"))
    assert (fields["level"], fields["logger"], fields["count"]) == ("info", "howdah.worker", 3)


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_passwords_are_masked(formatter: logging.Formatter) -> None:
    made = record("cannot reach %s", "postgresql://ann:s3cret@host/db", dsn="host=x password=s3cret")
    made.exc_info = caught(ConnectionError("postgresql://ann:s3cret@host/db"))
    assert "s3cret" not in formatter.format(made)


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_a_mistake_in_a_logging_call_is_no_error_of_the_worker(formatter: logging.Formatter) -> None:
    assert "of %d jobs" in formatter.format(record("of %d jobs", "many"))


def test_colours_only_where_they_are_asked_for() -> None:
    made = logging.LogRecord("howdah.worker", logging.ERROR, __file__, 1, "oh", (), None)
    assert "\x1b[31merror  \x1b[0m" in LineFormatter(coloured=True).format(made)
    assert is_harmless(LineFormatter().format(made))
