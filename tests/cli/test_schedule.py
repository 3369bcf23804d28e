"""``schedule`` and its actions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from howdah import JobQueue
from howdah.verbs.schedules import fire_due
from tests.cli.runner import howdah
from tests.clock import TestClock
from tests.conftest import Db


def test_add_list_and_show(dsn: str, queue: JobQueue) -> None:
    options = ("--cron", "30 2 * * *", "--timezone", "Europe/Berlin", "--missed", "all", "--no-overlap")
    job_options = ("--priority", "backfill", "--max-attempts", "7", "--timeout", "5m")
    outcome = howdah("schedule", "add", "nightly", "report", '{"kind": "daily"}', *options, *job_options, dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("nightly is added; next at 2")
    made = queue.schedules.get("nightly")
    assert (made.job_type, made.data, made.cron, made.timezone) == (
        "report",
        {"kind": "daily"},
        "30 2 * * *",
        "Europe/Berlin",
    )
    assert (made.missed, made.overlap) == ("all", False)
    assert made.options == {"priority": 30, "max_attempts": 7, "timeout": timedelta(minutes=5)}

    again = howdah("schedule", "add", "nightly", "report", *options, "--data", "kind=weekly", dsn=dsn)
    assert again.out.startswith("nightly is up to date; next at")
    assert queue.schedules.get("nightly").data == {"kind": "weekly"}

    howdah("schedule", "add", "pulse", "ping", "--every", "90m", dsn=dsn)
    queue.schedules.pause("pulse")
    header, nightly, pulse = howdah("schedule", "list", dsn=dsn).out.splitlines()
    assert header.split() == ["name", "type", "rhythm", "zone", "next", "last", "state"]
    assert nightly.split()[:9] == ["nightly", "report", "30", "2", "*", "*", "*", "Europe/Berlin", "in"]
    assert pulse.split() == ["pulse", "ping", "every", "90m", "UTC", "paused"]

    shown = howdah("schedule", "show", "nightly", dsn=dsn).out
    for expected in ("nightly\n", "At 02:30 every day", "Europe/Berlin", "overlap        no", '"kind": "weekly"'):
        assert expected in shown


def test_everything_as_json(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    (added,) = howdah("schedule", "add", "pulse", "ping", "--every", "90.5", "--json", dsn=dsn).lines
    assert (added["created"], added["every"]) == (True, 90.5)
    assert datetime.fromisoformat(added["next_run_at"]) == clock.now + timedelta(seconds=90.5)
    clock.advance(91)
    queue._database.run(fire_due(queue._context))
    (listed,) = howdah("schedule", "list", "--json", dsn=dsn).lines
    (shown,) = howdah("--json", "schedule", "show", "pulse", dsn=dsn).lines
    assert listed == shown
    assert (shown["name"], shown["job_type"], shown["data"], shown["paused"]) == ("pulse", "ping", {}, False)
    fired = queue.get(shown["last_job_id"])
    assert shown["last_run_at"] == fired.run_at.astimezone(timezone.utc).isoformat()
    (paused,) = howdah("schedule", "--json", "pause", "pulse", dsn=dsn).lines
    assert paused == {"name": "pulse", "paused": True, "changed": True}
    (resumed,) = howdah("schedule", "resume", "pulse", "--json", dsn=dsn).lines
    assert resumed == {"name": "pulse", "paused": False, "changed": True}
    (job,) = howdah("schedule", "run", "pulse", "--json", dsn=dsn).lines
    assert (job["job_type"], job["created"]) == ("ping", True)
    assert howdah("schedule", "delete", "pulse", "--json", dsn=dsn).lines == [{"name": "pulse", "deleted": True}]


def test_pause_resume_and_delete_print_what_they_did(dsn: str, queue: JobQueue) -> None:
    queue.schedules.set("pulse", "ping", every=60)
    assert howdah("schedule", "pause", "pulse", dsn=dsn).out == "pulse is paused\n"
    again = howdah("schedule", "pause", "pulse", dsn=dsn)
    assert (again.code, again.out) == (0, "pulse was paused already\n")
    assert "pulse  paused" in howdah("schedule", "show", "pulse", dsn=dsn).out
    assert howdah("schedule", "resume", "pulse", dsn=dsn).out.startswith("pulse resumed; next at ")
    assert howdah("schedule", "resume", "pulse", dsn=dsn).out == "pulse was not paused\n"
    assert howdah("schedule", "delete", "pulse", dsn=dsn).out == "pulse is deleted; its jobs stay\n"
    assert queue.schedules.list() == []


def test_run_prints_the_id_of_the_job(dsn: str, queue: JobQueue) -> None:
    queue.schedules.set("pulse", "ping", {"n": 1}, every=60, overlap=False)
    first = howdah("schedule", "run", "pulse", dsn=dsn)
    assert (first.code, first.err) == (0, "")
    assert queue.get(first.out.strip()).data == {"n": 1}
    second = howdah("schedule", "run", "pulse", dsn=dsn)
    assert second.out == first.out
    assert "not added: jobs of pulse must not overlap, and this one is pending" in second.err


def test_no_schedules(dsn: str) -> None:
    outcome = howdah("schedule", "list", dsn=dsn)
    assert (outcome.code, outcome.out, outcome.err) == (0, "", "there are no schedules\n")


@pytest.mark.parametrize("action", ["show", "pause", "resume", "run", "delete"])
def test_an_unknown_name_exits_with_1(dsn: str, action: str) -> None:
    outcome = howdah("schedule", action, "nowhere", dsn=dsn)
    assert (outcome.code, outcome.out) == (1, "")
    assert "there is no schedule" in outcome.err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "ACTION"),
        (["fly"], "fly"),
        (["add", "a", "b"], "--cron --every"),
        (["add", "a", "b", "--cron", "* * * * *", "--every", "5m"], "not allowed with"),
        (["add", "a", "b", "--cron", "* * * *"], "wrong number of fields"),
        (["add", "a", "b", "--cron", "* * * * *", "--timezone", "Europe/Berln"], "did you mean 'Europe/Berlin'?"),
        (["add", "a", "b", "--every", "0.5"], "at least a second"),
        (["add", "a", "b", "{}", "--every", "5", "--data", "a=1"], "given twice"),
        (["add", "a", "b", "{", "--every", "5"], "not JSON"),
        (["add", "a", "b", "--every", "5", "--missed", "some"], "invalid choice"),
    ],
    ids=str,
)
def test_a_wrong_call_exits_with_2(dsn: str, queue: JobQueue, argv: list[str], words: str) -> None:
    outcome = howdah("schedule", *argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert words in outcome.err
    assert queue.schedules.list() == []


def test_the_help_of_an_action(dsn: str) -> None:
    outcome = howdah("schedule", "add", "--help")
    assert outcome.code == 0
    assert outcome.out.startswith("usage: howdah schedule add ")
    assert "--schema" in outcome.out


def test_what_a_terminal_would_obey_is_shown_as_what_it_is(dsn: str, queue: JobQueue) -> None:
    queue.schedules.set("evil \u202ename", "ping", {"say": "\x1b[31m"}, every=60)
    for argv in (["list"], ["show", "evil \u202ename"], ["pause", "evil \u202ename"]):
        outcome = howdah("schedule", *argv, dsn=dsn)
        assert outcome.code == 0
        assert "\u202e" not in outcome.out
        assert "\x1b" not in outcome.out


def test_a_schedule_that_left_the_code_is_shown_with_the_way_to_remove_it(dsn: str, db: Db) -> None:
    howdah("schedule", "add", "old news", "ping", "--every", "90m", dsn=dsn)
    db.execute("UPDATE schedules SET declared_at = now() - interval '3 days'")
    assert "not in code" not in howdah("schedule", "list", dsn=dsn).out
    db.execute("SELECT register_worker('w', gen_random_uuid(), '1 hour', ARRAY['ping'])")
    for action in (["list"], ["show", "old news"]):
        told = howdah("schedule", *action, dsn=dsn)
        assert "To remove it: howdah schedule delete 'old news'" in told.err
    assert "not in code" in howdah("schedule", "list", dsn=dsn).out
    db.execute('UPDATE workers SET meta = \'{"schedules": ["old news"]}\'')
    assert "not in code" not in howdah("schedule", "list", dsn=dsn).out
