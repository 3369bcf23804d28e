"""``howdah limit``: shows and sets how many jobs run at once."""

from __future__ import annotations

import json
import re

import pytest

from howdah import JobQueue, Rate
from tests.cli.runner import howdah


def test_it_sets_shows_and_resets_limits(dsn: str, queue: JobQueue) -> None:
    assert howdah("limit", dsn=dsn).err == "there are no limits: howdah limit TYPE N sets one\n"
    outcome = howdah("limit", "mail", "20", dsn=dsn)
    assert (outcome.code, "20" in outcome.out, "operator" in outcome.out) == (0, True, True)
    howdah("limit", "mail", "3", "--each-key", dsn=dsn)
    howdah("limit", "mail", "5", "--per", "acme", "--weight", "2", dsn=dsn)
    howdah("limit", "--group", "smtp", "50", dsn=dsn)
    assert {
        (each.job_type, each.flow_key, each.group, each.each_key, each.max_running, each.weight)
        for each in queue.limits.list()
    } == {
        ("mail", None, None, False, 20, None),
        ("mail", None, None, True, 3, None),
        ("mail", "acme", None, False, 5, 2),
        (None, None, "smtp", False, 50, None),
    }
    queue.enqueue_many("mail", [{}] * 2, per="acme")
    queue.claim(["mail"], 2)
    assert {each.flow_key: each.running for each in queue.limits.list() if each.job_type} == {None: 2, "acme": 2}
    assert {each.running for each in queue.limits.list() if each.each_key} == {2}
    shown = json.loads(howdah("limit", "--group", "smtp", "--json", dsn=dsn).out)
    assert [each["max_running"] for each in shown] == [50]
    howdah("limit", "mail", "none", dsn=dsn)
    assert 20 not in {each.max_running for each in queue.limits.list()}


def test_it_sets_and_resets_rates(dsn: str, queue: JobQueue) -> None:
    outcome = howdah("limit", "mail", "--rate", "50/s", "--burst", "10", dsn=dsn)
    assert (outcome.code, "50/s" in outcome.out) == (0, True)
    howdah("limit", "--group", "smtp", "5", "--rate", "100/min", dsn=dsn)
    assert {(each.job_type, each.group, each.max_running, each.rate) for each in queue.limits.list()} == {
        ("mail", None, None, Rate(50, 1, 10)),
        (None, "smtp", 5, Rate(100, 60, 100)),
    }
    howdah("limit", "mail", "--rate", "none", dsn=dsn)
    assert [each.group for each in queue.limits.list()] == ["smtp"]


def test_it_bounds_how_many_jobs_of_a_type_wait(dsn: str, queue: JobQueue) -> None:
    queue.enqueue_many("mail", [{}] * 3)
    outcome = howdah("limit", "mail", "--max-pending", "3", "--when-full", "drop_oldest", dsn=dsn)
    assert (outcome.code, "3 of 3, then drop_oldest" in outcome.out, "operator" in outcome.out) == (0, True, True)
    (shown,) = json.loads(howdah("limit", "mail", "--json", dsn=dsn).out)
    assert (shown["max_pending"], shown["pending"], shown["when_full"]) == (3, 3, "drop_oldest")
    howdah("limit", "mail", "--max-pending", "3", dsn=dsn)
    refused = howdah("enqueue", "mail", dsn=dsn)
    assert (
        refused.code,
        "there is no room for another job of type mail: 3 wait, and at most 3 may" in refused.err,
    ) == (1, True)
    assert howdah("limit", "mail", "--max-pending", "none", dsn=dsn).out == "there is no limit any more\n"
    assert queue.limits.list() == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--max-pending", "3"), "a bound on the jobs that wait is for a type"),
        (("mail", "--max-pending", "3", "--per", "acme"), "a bound on the jobs that wait is for a type"),
        (("mail", "--when-full", "wait"), "--when-full needs --max-pending N"),
        (("mail", "--max-pending", "0"), "max_pending"),
        (("mail", "many"), "'many' is neither a number of jobs nor none"),
        (("--group", "smtp", "mail", "5"), "a limit is for a type or for a group"),
        (("mail", "--weight", "3"), "a weight is for one flow key of a type"),
        (("mail", "-1"), ""),
        (("mail", "--rate", "often"), "a rate is a Rate(…), or a text such as"),
        (("mail", "5", "--burst", "3"), "a burst is for a rate"),
    ],
)
def test_what_makes_no_sense_is_refused(dsn: str, queue: JobQueue, arguments: tuple[str, ...], message: str) -> None:
    outcome = howdah("limit", *arguments, dsn=dsn)
    assert outcome.code == 2
    assert message in outcome.err
    assert queue.limits.list() == []


def test_a_key_is_paused_and_resumed(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("mail", per="acme")
    assert (
        howdah("pause", "mail", "--per", "acme", "--because", "asked for it", dsn=dsn).out == "mail of acme is paused\n"
    )
    assert queue.claim(["mail"]) == []
    assert howdah("resume", "mail", "--per", "acme", dsn=dsn).out == "mail of acme resumed\n"
    assert len(queue.claim(["mail"])) == 1


def test_stats_and_top_show_the_limit_of_a_type_and_its_paused_keys(dsn: str, queue: JobQueue) -> None:
    queue.limits.set(3, job_type="mail")
    for n in range(5):
        queue.enqueue("mail", per=n)
    for job in queue.claim(["mail"], 5):
        queue.start(job)
    queue.pause("mail", per="acme")
    for command in ("stats", "top"):
        shown = howdah(command, dsn=dsn, COLUMNS="120").out
        assert "mail (1 key paused)" in shown, command
        assert "3 of 3" in shown, command
    assert json.loads(howdah("stats", "--json", dsn=dsn).out)["types"]["mail"]["limit"] == 3


def test_show_names_what_a_job_waits_for(dsn: str, queue: JobQueue) -> None:
    queue.limits.set(1, job_type="mail", each_key=True)
    first, second = (queue.enqueue("mail", per="acme") for _ in range(2))
    assert [job.id for job in queue.claim(["mail"], 5)] == [first.id]
    shown = howdah("show", str(second.id), dsn=dsn).out
    assert "1 of 1 jobs of its key 'acme' are running" in shown
    assert re.search(r"flow key +acme", shown)
