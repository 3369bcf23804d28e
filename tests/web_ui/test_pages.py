"""What the pages show, and what their forms do."""

from __future__ import annotations

import asyncio
import html
import json
import re
import threading
import time
from datetime import datetime, timedelta, timezone
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from howdah import JobQueue
from howdah.db.plan import Plan, Read
from howdah.web import plans, words
from howdah.web.filters import filter_of
from tests.conftest import Db
from tests.web_ui.conftest import ORIGIN, Site
from tests.web_ui.hostile import CORPUS, plant

ALLOWED = {"src", "href", "action"}
SCREENS = (
    "/",
    "/jobs",
    "/jobs/new",
    "/workflows",
    "/signals",
    "/types",
    "/workers",
    "/schedules",
    "/schedules/edit",
    "/limits",
    "/health",
    "/audit",
)


class Parsed(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(site: Site, path: str) -> str:
    answer = site.get(path)
    assert answer.status_code == 200, (path, answer.text)
    return " ".join(Parsed(answer.text).text.split())


def ids_in(site: Site, path: str) -> list[str]:
    return re.findall(r'<tr id="job-([0-9a-f-]+)"', site.get(path).text)


def run_to_its_end(site: Site, fields: dict[str, Any]) -> str:
    """Begins an action on many jobs, and returns the page that shows how it ended."""
    answer = site.post("/bulk", fields)
    assert answer.status_code == 303, answer.text
    while "under way" in (text := text_of(site, answer.headers["location"])):
        time.sleep(0.02)
    return text


def failed(queue: JobQueue, job_type: str = "mail", error: str = "no", **options: Any) -> Any:
    queue.enqueue(job_type, options.pop("data", {}), max_attempts=1, **options)
    (job,) = queue.claim([job_type])
    queue.start(job)
    queue.fail(job, error)
    return job


def test_the_pages_of_an_empty_queue_show_the_next_step(site: Site) -> None:
    for path in SCREENS:
        assert site.get(path).status_code == 200, path
    assert "There are no jobs yet" in text_of(site, "/")
    assert "howdah work" in text_of(site, "/workers")
    assert "Nothing was changed here yet" in text_of(site, "/audit")


def test_what_needs_attention_is_shown_first(site: Site, queue: JobQueue) -> None:
    queue.enqueue_many("mail", ({} for _ in range(3)))
    queue.enqueue("fax")
    failed(queue, "report")
    queue.pause("letters", "the printer is out of ink")
    page = text_of(site, "/")
    assert "3 jobs of mail wait, and no live worker handles them" in page
    assert "1 job of fax waits, and no live worker handles it" in page
    assert "100% of the jobs of report that ended today have failed" in page
    assert "letters is paused: the printer is out of ink" in page


def test_the_rest_of_a_job_is_set_off_from_its_amounts() -> None:
    now = datetime.now(timezone.utc)
    record = SimpleNamespace(finishes_at=now + timedelta(seconds=368), done=4, total=10, rate=4.9)
    job: Any = SimpleNamespace(record=record, stalled=False, status="running", ended=False)
    assert f"{words.amounts(job)} {words.left(job, now)}" == "4 of 10, 4.9/s · about 6min 8s left"
    record.done = None
    assert words.left(job, now) == "about 6min 8s left"


@pytest.mark.parametrize("mount", ["", "/ops/jobs"])
def test_links_and_forms_hold_under_any_mount(dsn: str, queue: JobQueue, mount: str) -> None:
    from starlette.applications import Starlette
    from starlette.routing import Mount

    job = queue.enqueue("mail", {"to": "ann"})
    site = Site(JobQueue(dsn))
    dashboard: Any = site.dashboard
    if mount:
        site.dashboard = Starlette(routes=[Mount(mount, dashboard)])  # type: ignore[assignment]
    for path in (*SCREENS, f"/jobs/{job.id}"):
        page = Parsed(site.get(f"{mount}{path}").text)
        for tag, attributes in page.elements:
            for name in ("href", "src", "action"):
                target = attributes.get(name)
                if target and not target.startswith(("#", "?")):
                    assert target.startswith(f"{mount}/"), (path, tag, target)
                    if tag in ("a", "link", "script"):
                        assert site.get(target).status_code == 200, target
    assert site.post(f"{mount}/jobs", {"type": "mail"}).headers["location"].startswith(f"{mount}/jobs/")
    site.dashboard = dashboard
    site.close()


def test_nothing_that_users_write_becomes_markup(site: Site, queue: JobQueue) -> None:
    jobs = plant(queue)
    for text in CORPUS:
        query = urlencode(
            {
                "type": text[:50],
                "error": text,
                "key": text,
                "worker": text,
                "path": json.dumps({"a": text}),
            }
        )
        assert site.get(f"/jobs?{query}").status_code in (200, 400)
        site.post("/jobs", {"type": text[:60], "data": text})
    paths = [*SCREENS, *(f"/jobs/{job.id}" for job in jobs), *(f"/jobs/new?like={job.id}" for job in jobs)]
    paths += [f"/schedules/edit?{urlencode({'name': text[:100]})}" for text in CORPUS]
    paths += [f"/workflows/{flow.id}" for flow in queue.workflows.list()]
    paths += [
        f"/{path}?{urlencode({'name': text[:100], 'key': text})}"
        for path in ("workflows", "signals")
        for text in CORPUS
    ]
    paths += [
        f"/bulk?{urlencode({'verb': 'cancel', 'scope': 'all', 'error': text, 'type': text[:50]})}" for text in CORPUS
    ]
    for path in paths:
        page = Parsed(site.get(path).text)
        for tag, attributes in page.elements:
            assert tag not in ("iframe", "img", "object", "embed", "style", "base"), path
            assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in attributes), (path, tag)
            for name in ALLOWED & set(attributes):
                assert not (attributes[name] or "").strip().lower().startswith(("javascript:", "data:", "//")), path
            if tag == "script":
                assert (attributes["src"] or "").startswith("/static/howdah.js"), path
        assert str(7919 * 7907) not in page.text, path


def test_the_filter_finds_jobs_and_stays_in_the_address(site: Site, queue: JobQueue) -> None:
    wanted = failed(queue, error="TimeoutError: too slow", data={"user": 7, "tags": ["a"]}, priority=80, key="k1")
    other = failed(queue, "report", error="ValueError: odd", data={"user": 8})
    queue.enqueue("mail", {"user": 9}, priority=120)
    queue.enqueue("letter")
    (held,) = queue.claim(["letter"], worker_id="anns laptop")
    assert ids_in(site, "/jobs?worker=anns+laptop") == [str(held.id)]
    for query in (
        {"status": "failed", "type": "mail"}, {"error": "too slow"}, {"key": "k1"}, {"priority": "80"}, {"priority": "70..90"},
        {"path": "$.user == 7"}, {"path": '{"user": 7}'}, {"path": '$.tags[*] ? (@ == "a")'},
        {"since": "1h", "status": "failed", "type": "mail"},
    ):  # fmt: skip
        assert ids_in(site, f"/jobs?{urlencode(query)}") == [str(wanted.id)], query
    assert ids_in(site, "/jobs?status=failed") == [str(other.id), str(wanted.id)]
    assert ids_in(site, "/jobs?until=1h") == []
    assert ids_in(site, f"/jobs?path={other.id}") == []
    assert site.get(f"/jobs?path={other.id}").headers["location"] == f"/jobs/{other.id}"
    page = site.get("/jobs?status=failed&error=too+slow").text
    assert 'value="too slow"' in page
    assert "status=failed" in page


@pytest.mark.parametrize(
    "query",
    [
        "status=odd",
        "path=nonsense",
        "path=$.[",
        "path={bad",
        "since=soon",
        "since=999999d",
        "priority=high",
        "before=x",
        "workflow=7",
        "state=odd",
        "type=" + "x" * 60,
    ],
)
def test_an_invalid_filter_is_explained(site: Site, query: str) -> None:
    answer = site.get(f"/jobs?{query}")
    assert answer.status_code == 400
    assert "This cannot be meant" in answer.text


def test_pages_go_on_where_the_last_one_ended(site: Site, queue: JobQueue) -> None:
    jobs = [str(queue.enqueue("mail").id) for _ in range(120)]
    seen, path = [], "/jobs?type=mail"
    while path:
        page = site.get(path).text
        seen += ids_in(site, path)
        found = re.search(r'href="([^"]+)">Older', page)
        path = found[1].replace("&amp;", "&") if found else ""
        assert not path or "type=mail" in path
    assert seen == jobs[::-1]


def test_a_job_has_all_that_is_known_of_it(site: Site, queue: JobQueue) -> None:
    queue.enqueue("mail", {"to": "ann", "big": 9007199254740993, "deep": {"list": [1, 2]}}, priority=150)
    (job,) = queue.claim(["mail"])
    queue.start(job)
    queue.progress(job, 40, "half way", done=4, total=10)
    queue.event(job, "sent", {"copy": 12345678901234567890})
    page = text_of(site, f"/jobs/{job.id}")
    assert "9007199254740993" in page
    assert "12345678901234567890" in page
    assert "150 (explicit)" in page
    assert "half way" in page
    assert "4 of 10" in page
    queue.fail(job, ValueError("the address is wrong"))
    page = text_of(site, f"/jobs/{job.id}")
    assert "Attempt 1 failed" in page
    assert "the address is wrong" in page
    assert "Attempt 2 of" in page


def test_what_a_job_waits_for_is_shown(site: Site, queue: JobQueue) -> None:
    first, second = queue.enqueue("mail"), queue.enqueue("mail")
    assert "It is the next of its type" in text_of(site, f"/jobs/{first.id}")
    assert "1 job of its type come" in text_of(site, f"/jobs/{second.id}")
    later = queue.enqueue("mail", delay=3600)
    assert re.search(r"It is due in (1h|59min)", text_of(site, f"/jobs/{later.id}"))
    assert site.get("/jobs/00000000-0000-0000-0000-000000000000").status_code == 404


def test_a_job_is_copied_as_calls_that_make_the_same(site: Site, queue: JobQueue, db: Db) -> None:
    job = queue.enqueue("o'brien's mail", {"text": 'it\'s \\ "so" $HOME `x`', "big": 9007199254740993}, priority=42)
    page = site.get(f"/jobs/{job.id}").text
    from html import unescape

    python, sql, curl = (
        unescape(each) for each in re.findall(r'<pre id="copy-\d" tabindex="0">(.*?)</pre>', page, re.DOTALL)
    )
    exec(python, {"queue": queue})
    db.execute(sql.encode())
    import shlex

    words = shlex.split(curl)
    assert words[:3] == ["curl", "-X", "POST"]
    body = words[words.index("--data") + 1]
    headers = {"content-type": "application/json", "origin": words[words.index("-H") + 1].partition(": ")[2]}
    assert site.request("POST", "/api/v1/jobs", headers=headers, content=body).status_code == 201
    jobs = queue.list()
    assert len(jobs) == 4
    assert all((each.job_type, each.priority, each.data) == (job.job_type, 42, job.data) for each in jobs)


def test_every_action_on_a_job(site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("mail")

    def act(verb: str, **fields: str) -> httpx.Response:
        return site.post(f"/jobs/{job.id}/{verb}", fields)

    assert act("reprioritise", priority="7").headers["location"] == f"/jobs/{job.id}"
    assert queue.get(job).priority == 7
    act("reschedule", run_at="2099-01-01T10:00")
    assert queue.get(job).run_at.year == 2099
    act("cancel", reason="not needed")
    assert (queue.get(job).status, queue.get(job).last_error) == ("cancelled", "not needed")
    act("retry")
    assert queue.get(job).status == "pending"
    assert act("delete").headers["location"] == "/jobs"
    assert len(queue.list()) == 0
    audit = text_of(site, "/audit")
    for verb in ("reprioritise", "reschedule", "cancel", "retry", "delete"):
        assert verb in audit
    assert act("explode").status_code == 400


def test_a_conflict_is_explained(site: Site, queue: JobQueue) -> None:
    job = failed(queue, key="invoice-7")
    queue.enqueue("mail", key="invoice-7")
    answer = site.post(f"/jobs/{job.id}/retry")
    assert "a live job has its key" in text_of(site, answer.headers["location"])
    assert queue.get(job).status == "failed"
    page = run_to_its_end(site, {"verb": "retry", "scope": "all", "status": "failed"})
    assert "1 unchanged" in page
    assert "a live job has their key" in page


def test_jobs_are_made_and_edited_and_enqueued_again(site: Site, queue: JobQueue) -> None:
    made = site.post(
        "/jobs", {"type": "mail", "data": '{"n": 9007199254740993}', "priority": "55", "max_attempts": "2", "key": "k"}
    )
    job = queue.get(made.headers["location"].rpartition("/")[2])
    assert (job.data, job.priority, job.max_attempts, job.key) == ({"n": 9007199254740993}, 55, 2, "k")
    form = site.get(f"/jobs/new?like={job.id}").text
    assert "9007199254740993" in form
    for wrong in (
        {"data": "{"},
        {"data": "NaN"},
        {"priority": "high"},
        {"run_at": "soon"},
        {"type": ""},
        {"data": '"\\u0000"'},
    ):
        answer = site.post("/jobs", {"type": "mail", **wrong})
        assert answer.status_code == 400, wrong
        assert 'role="alert"' in answer.text
    assert len(queue.list()) == 1


def test_a_bulk_action_takes_the_whole_filter_and_not_the_page(site: Site, queue: JobQueue) -> None:
    jobs = [queue.enqueue("mail", {"n": n}) for n in range(1_203)]
    keep = queue.enqueue("report")
    page = text_of(site, "/bulk?verb=cancel&scope=all&type=mail")
    assert "Cancel 1,203 jobs?" in page
    ended = run_to_its_end(
        site, {"verb": "cancel", "scope": "all", "type": "mail", "reason": "a mistake", "expected": "1203"}
    )
    assert "1,203 jobs cancelled" in ended
    assert queue.stats()["mail"].cancelled == len(jobs)
    assert queue.get(keep).status == "pending"
    audit = text_of(site, "/audit")
    assert "1,203" in audit
    assert '"type": ["mail"]' in audit
    ended = run_to_its_end(site, {"verb": "retry", "scope": "all", "status": "cancelled", "path": "$.n < 3"})
    assert "3 jobs retried" in ended
    assert queue.stats()["mail"].pending == 3


def test_a_bulk_action_goes_through_all_windows(site: Site, queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "WINDOW", 10)
    for n in range(35):
        queue.enqueue("mail", {"n": n})
        queue.enqueue("report", {"n": n})
    wanted = {"scope": "all", "type": "mail", "path": "$.n >= 3"}
    assert "32 jobs cancelled" in run_to_its_end(site, {"verb": "cancel", **wanted})
    assert (queue.stats()["mail"].pending, queue.stats()["report"].pending) == (3, 35)


def test_a_job_that_leaves_a_window_meanwhile_moves_no_other_out_of_the_next_one(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "WINDOW", 2)
    jobs = [queue.enqueue("mail").id for _ in range(4)]
    wanted = filter_of([("status", "pending")])

    def cancelling(plan: Plan[plans.Window]) -> Plan[plans.Window]:
        """The plan; between its reads of jobs, the newest one is cancelled."""
        answer, reads = None, 0
        try:
            while True:
                step = plan.send(answer)
                if isinstance(step, Read) and step.name in ("web/jobs", "web/window_end"):
                    reads += 1
                    if reads == 2:
                        queue.cancel(jobs[3])
                answer = yield step
        except StopIteration as end:
            window: plans.Window = end.value
            return window

    first = queue._database.run(cancelling(plans.matching(queue._context, wanted, None)))
    second = queue._database.run(plans.matching(queue._context, wanted, first.next))
    assert {*first.ids, *second.ids} >= set(jobs[:3])


def test_a_bulk_action_on_chosen_jobs(site: Site, queue: JobQueue) -> None:
    first, second, third = (queue.enqueue("mail") for _ in range(3))
    assert "Delete 2 jobs?" in text_of(site, f"/bulk?verb=delete&scope=chosen&id={first.id}&id={third.id}")
    run_to_its_end(site, {"verb": "delete", "scope": "chosen", "id": [str(first.id), str(third.id)]})
    assert [job.id for job in queue.list()] == [second.id]
    run_to_its_end(site, {"verb": "reprioritise", "scope": "chosen", "id": str(second.id), "new_priority": "9"})
    assert queue.get(second).priority == 9
    assert site.post("/bulk", {"verb": "delete", "scope": "chosen"}).status_code == 400


def test_deleting_every_job_needs_a_confirmation(site: Site, queue: JobQueue) -> None:
    queue.enqueue("mail")
    assert "every job of the queue" in text_of(site, "/bulk?verb=delete&scope=all")
    assert site.post("/bulk", {"verb": "delete", "scope": "all"}).status_code == 400
    assert len(queue.list()) == 1
    run_to_its_end(site, {"verb": "delete", "scope": "all", "everything": "yes"})
    assert len(queue.list()) == 0


def test_jobs_that_another_transaction_has_locked_are_left_and_counted(site: Site, queue: JobQueue, db: Db) -> None:
    first, second = queue.enqueue("mail"), queue.enqueue("mail")
    with db.transaction():
        db.execute("SELECT FROM live WHERE id = %s FOR UPDATE", (first.id,))
        page = run_to_its_end(site, {"verb": "reprioritise", "scope": "all", "type": "mail", "new_priority": "3"})
    assert "1 locked" in page
    assert queue.get(second).priority == 3


def test_types_are_paused_and_resumed(site: Site, queue: JobQueue) -> None:
    queue.enqueue("a/b ü")
    assert site.post("/types/pause", {"type": "a/b ü", "because": "too hot"}).status_code == 303
    assert queue.stats()["a/b ü"].paused_because == "too hot"
    assert "too hot" in text_of(site, "/types")
    site.post("/types/resume", {"type": "a/b ü"})
    assert not queue.stats()["a/b ü"].paused


def test_schedules_are_made_changed_run_paused_and_deleted(site: Site, queue: JobQueue) -> None:
    form = {
        "name": "nightly",
        "type": "report",
        "cron": "0 3 * * *",
        "timezone": "Europe/Berlin",
        "missed": "last",
        "data": '{"n": 1}',
    }
    assert site.post("/schedules", form).status_code == 303
    (schedule,) = queue.schedules.list()
    assert (schedule.cron, schedule.timezone, schedule.data, schedule.overlap) == (
        "0 3 * * *",
        "Europe/Berlin",
        {"n": 1},
        False,
    )
    site.post("/schedules", {**form, "cron": "", "every": "5min", "overlap": "yes"})
    (schedule,) = queue.schedules.list()
    assert schedule.every is not None
    assert schedule.every.total_seconds() == 300
    assert "every 5min" in text_of(site, "/schedules")
    for verb in ("run", "pause", "resume"):
        assert site.post(f"/schedules/{verb}", {"name": "nightly"}).status_code == 303
    assert queue.stats()["report"].pending == 1
    assert site.post("/schedules", {**form, "cron": "often"}).status_code == 400
    assert site.post("/schedules/run", {"name": "nothing"}).status_code == 404
    site.post("/schedules/delete", {"name": "nightly"})
    assert queue.schedules.list() == []


@pytest.mark.parametrize(
    ("rhythm", "every"),
    [
        ({"every": timedelta(days=30)}, "30d"),
        ({"every": timedelta(days=800, minutes=5)}, "1152005min"),
        ({"every": timedelta(seconds=123456.5)}, "123456.5s"),
        ({"every": timedelta(days=3_000, microseconds=1)}, "259200000.000001s"),
        ({"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, ""),
    ],
    ids=str,
)
def test_saving_the_form_of_a_schedule_changes_nothing_that_was_not_changed(
    site: Site, queue: JobQueue, rhythm: dict[str, Any], every: str
) -> None:
    rest: dict[str, Any] = {
        "timeout": 30,
        "retry_policy": [1, 2, 3],
        "max_attempts": 7,
        "missed": "all",
        "overlap": False,
    }
    queue.schedules.set("nightly", "report", {"n": 2**60, "f": 1.0}, **rhythm, **rest)
    before = queue.schedules.get("nightly")
    form = fields_in(site.get("/schedules/edit?name=nightly").text)
    assert form["every"] == every
    assert site.post("/schedules", form).status_code == 303
    assert queue.schedules.get("nightly") == before
    assert site.post("/schedules", {**form, "priority": "7"}).status_code == 303
    assert queue.schedules.get("nightly").options == {**before.options, "priority": 7}


def fields_in(page: str) -> dict[str, str]:
    """What a browser sends of the form with arguments."""
    made = {}
    for tag in re.findall(r"<input[^>]*>", page):
        name, value = re.search(r' name="([^"]*)"', tag), re.search(r' value="([^"]*)"', tag)
        if name is not None and ('type="checkbox"' not in tag or " checked" in tag):
            made[name[1]] = html.unescape(value[1]) if value else ""
    made |= dict(re.findall(r'<select name="(\w+)">.*?<option selected>(\w+)<', page))
    return made | {
        name: html.unescape(text)
        for name, text in re.findall(r'<textarea name="(\w+)"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    }


def test_a_schedule_shows_how_often_it_fires_in_the_next_day(site: Site, queue: JobQueue) -> None:
    queue.schedules.set("often", "report", cron="*/15 * * * *")
    queue.schedules.set("daily", "report", cron="30 4 * * *", timezone="Asia/Kathmandu")
    queue.schedules.set("steps", "report", every=7200)
    queue.schedules.set("each second", "report", cron="* * * * * *")
    queue.schedules.set("paused", "report", every=60)
    queue.schedules.pause("paused")
    page = site.get("/schedules").text
    said = dict(re.findall(r'aria-label="([\w ]+) fires ([\d,]+) times in the next day"', page))
    # The hour that has begun is counted from its beginning, and what fires by steps from its next time on.
    assert said.pop("steps") in ("11", "12")
    assert said == {"often": "96", "daily": "1"}


def test_limits_are_set_and_reset(site: Site, queue: JobQueue) -> None:
    for fields in (
        {"what": "limit", "of": "type", "type": "mail", "value": "3"},
        {"what": "rate", "of": "type", "type": "mail", "value": "50/s"},
        {"what": "max_pending", "type": "report", "value": "100", "when_full": "raise"},
        {"what": "pause", "type": "mail", "per": "ann"},
    ):
        assert site.post("/limits", fields).status_code == 303, fields
    page = text_of(site, "/limits")
    for said in ("0 of 3", "50/s", "0 of 100", "key ann"):
        assert said in page
    site.post("/limits", {"what": "limit", "of": "type", "type": "mail", "value": ""})
    assert "0 of 3" not in text_of(site, "/limits")
    for wrong in (
        {"what": "limit", "type": "mail", "value": "many"},
        {"what": "odd"},
        {"what": "rate", "type": "mail", "value": "fast"},
    ):
        assert site.post("/limits", wrong).status_code == 400


def test_chosen_parts_are_redacted_everywhere_and_cannot_be_searched(dsn: str, queue: JobQueue) -> None:
    site = Site(JobQueue(dsn), redact=["card.number", "**.password"])
    queue.enqueue("mail", {"card": {"number": "4711-1", "kind": "visa"}, "users": [{"password": "4711-2"}]})
    (job,) = queue.claim(["mail"])
    queue.start(job)
    queue.event(job, "login", {"password": "4711-3"})
    queue.complete(job, {"card": {"number": "4711-4"}})
    pages = [
        f"/jobs/{job.id}",
        f"/jobs/new?like={job.id}",
        f"/api/v1/jobs/{job.id}",
        f"/api/v1/jobs/{job.id}/events",
        "/jobs",
        "/api/v1/jobs",
    ]
    for path in pages:
        answer = site.get(path)
        assert answer.status_code == 200
        assert "4711" not in answer.text, path
    assert "visa" in site.get(f"/jobs/{job.id}").text
    # What a form shows as hidden is not stored in its place, and no call is offered that would do so.
    page = site.get(f"/jobs/{job.id}").text
    assert "a copy would not be the same job" in page
    assert "queue.enqueue(" not in page
    for data in ({"card": {"number": "[redacted]"}}, {"a": [{"howdah.unreadable": "x"}]}):
        assert (
            site.request("POST", "/api/v1/jobs", headers=ORIGIN, json={"type": "mail", "data": data}).status_code == 400
        )
    again = {"type": "mail", "data": '{"card": {"number": "[redacted]"}}'}
    assert site.post("/jobs", again).status_code == 400
    assert site.post("/schedules", {**again, "name": "nightly", "every": "1h"}).status_code == 400
    assert len(queue.list()) == 1
    for path in ("/jobs", "/api/v1/jobs", "/bulk"):
        assert site.get(f"{path}?path=$.card&verb=cancel&scope=all").status_code == 400
    site.close()


def test_figures_of_the_past_are_plotted_with_a_table_beside(site: Site, queue: JobQueue) -> None:
    for _ in range(3):
        queue.enqueue("mail")
        (job,) = queue.claim(["mail"])
        queue.start(job)
        queue.complete(job)
    queue.recover()
    for span in ("hour", "day", "weeks"):
        page = site.get(f"/?span={span}").text
        assert "3 in the" in page
        assert page.count("<svg") > 4
        assert "Figures" in page
    assert "3 jobs in the last hour" in site.get("/types").text


def test_the_page_of_an_outage_shows_no_secret(queue: JobQueue) -> None:
    site = Site(JobQueue("host=127.0.0.1 port=1 user=ann password=4711-secret connect_timeout=1", timeout=1))
    for path in ("/", "/jobs", "/api/v1/counts"):
        answer = site.get(path)
        assert answer.status_code == 503
        assert "cannot be reached" in answer.text
        assert "4711" not in answer.text
        assert "connect_timeout" not in answer.text
    site.close()


def test_pages_share_reads_of_the_database(site: Site, queue: JobQueue) -> None:
    asked = []
    data: Any = site.dashboard._site.data
    read = data.read

    async def counted(visitor: Any, plan: Any) -> Any:
        asked.append(plan)
        return await read(visitor, plan)

    data.read, data.fresh = counted, 3600
    for _ in range(30):
        site.get("/")
    assert len(asked) < 30


def test_an_address_without_a_page(site: Site) -> None:
    assert site.get("/nothing").status_code == 404
    assert site.request("DELETE", "/jobs", headers=ORIGIN).status_code == 405
    assert site.get("/static/../site.py").status_code == 404
    assert site.get("/static/..%2fsite.py").status_code == 404


def test_the_health_page_does_not_wait_for_a_slow_doctor(site: Site, queue: JobQueue, monkeypatch: Any) -> None:
    """It shows the examination as soon as it is done, and a slow one is not begun again and again."""
    ended, begun = threading.Event(), []
    its: Any = site.dashboard._site
    real = its.queue.adoctor

    async def slow() -> Any:
        begun.append(time.monotonic())
        while not ended.is_set():
            await asyncio.sleep(0.01)
        return await real()

    monkeypatch.setattr("howdah.web.pages.health._WAIT", 0.05)
    monkeypatch.setattr(its.queue, "adoctor", slow)
    for _ in range(3):
        assert "The doctor is still looking" in text_of(site, "/health")
    ended.set()
    while "still looking" in (page := text_of(site, "/health")):
        time.sleep(0.01)
    assert "Remedy" in page or "found nothing" in page
    assert len(begun) == 1
    its.examined_in = 60.0
    assert "every 10min" in text_of(site, "/health")
