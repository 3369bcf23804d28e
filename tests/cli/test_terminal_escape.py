from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import JobQueue
from howdah.cli.render.terminal_escape import escape_lines, presentable, terminal_escape, without_password
from tests.cli.runner import Outcome, howdah

HOSTILE = "\x1b]0;owned\x07\x9b31m\u202egnp.exe\u2066\r\b[bold red]not markup[/]\u2028\ufeff"
# What PostgreSQL can store in a text.
STORABLE = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
TYPES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=50)
STAGES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=100)


def dangers(output: str) -> set[str]:
    """What a terminal would act upon, other than the ends of lines."""
    joiners = "\u200c\u200d"
    return {c for c in output if c not in "\n" + joiners and unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")}


@given(st.text())
def test_nothing_dangerous_is_left(text: str) -> None:
    assert not dangers(terminal_escape(text))
    assert "\n" not in terminal_escape(text)
    assert not dangers(escape_lines(text))


@given(st.text(st.characters(categories=["L", "N", "P", "S"])))
def test_harmless_text_stays_as_it_is(text: str) -> None:
    assert terminal_escape(text) == escape_lines(text) == text


def test_what_is_dangerous_is_shown_as_what_it_is() -> None:
    assert terminal_escape("a\x1b[0m\n\u202e") == "a\\x1b[0m\\n\\u202e"
    assert escape_lines("a\r\n\tb\x07") == "a\n    b\\x07"


@pytest.mark.parametrize(
    "text",
    [
        "cannot use postgresql://ann:s3cret@db.example.org/jobs",
        "host=db password=s3cret user=ann",
        "host=db password = 's3cret and \\' more s3cret' user=ann",
        "postgresql://db/jobs?user=ann&password=s3cret&sslmode=require",
        "postgres://ann:s3cret@h1,h2/jobs and PASSWORD=s3cret",
    ],
)
def test_passwords_are_masked(text: str) -> None:
    assert "s3cret" not in without_password(text)
    assert "***" in presentable(text)


@settings(max_examples=25)
@given(job_type=TYPES, data=STORABLE, error=STORABLE, stage=STAGES, key=STAGES)
def test_no_text_of_a_job_reaches_the_terminal_as_a_command(
    dsn: str, job_type: str, data: str, error: str, stage: str, key: str
) -> None:
    with JobQueue(dsn) as queue:
        queue.enqueue(job_type, {data: [data]}, key=key)
        (job,) = queue.claim([job_type])
        queue.progress(job, 40, stage)
        running = [howdah("list", "--limit", "1", dsn=dsn, COLUMNS=columns) for columns in ("80", "160")]
        queue.fail(job, error or "x", give_up=True)
    ended = [howdah("list", "--limit", "1", dsn=dsn, COLUMNS=columns) for columns in ("80", "160")]
    shown = howdah("show", str(job.id), dsn=dsn)
    in_json = [howdah("list", "--limit", "1", "--json", dsn=dsn), howdah("show", str(job.id), "--json", dsn=dsn)]
    for outcome in (*running, *ended, shown, *in_json, howdah("stats", dsn=dsn)):
        assert outcome.code == 0
        assert not dangers(outcome.out + outcome.err)
    assert all(outcome.out.isascii() for outcome in in_json)
    assert all(_is_on_one_line(str(job.id), outcome) for outcome in (*running, *ended, shown))


def test_markup_in_a_job_is_text_to_us(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("[red]alarm[/red]", {"a": "[bold]b[/bold] :smile:"})
    assert "[red]alarm[/red]" in howdah("list", dsn=dsn).out
    shown = howdah("show", str(job.id), dsn=dsn).out
    assert "[red]alarm[/red]" in shown
    assert "[bold]b[/bold] :smile:" in shown


def test_arguments_are_not_echoed_raw(dsn: str) -> None:
    for argv in (
        ["show", HOSTILE],
        ["list", "--type", HOSTILE],
        ["enqueue", "x", HOSTILE],
        ["list", "--since", HOSTILE],
        [HOSTILE],
    ):
        outcome = howdah(*argv, dsn=dsn)
        assert outcome.code == 2
        assert outcome.err
        assert not dangers(outcome.out + outcome.err)


def _is_on_one_line(text: str, outcome: Outcome) -> bool:
    return any(text in line for line in outcome.out.splitlines())
