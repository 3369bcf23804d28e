"""The JSON API, and its OpenAPI description, which a program fills with anything that it allows and much that it does not."""

from __future__ import annotations

import contextlib
import json
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import hypothesis
import pytest
import schemathesis

from howdah import JobQueue
from howdah.web import app
from tests.conftest import Db
from tests.web_ui.conftest import ORIGIN, Site


def post(site: Site, path: str, body: Any) -> Any:
    return site.request("POST", f"/api/v1{path}", headers=ORIGIN, json=body)


def test_a_job_is_made_read_changed_and_deleted(site: Site, queue: JobQueue) -> None:
    big = 9007199254740993
    made = post(site, "/jobs", {"type": "mail", "data": {"n": big}, "priority": 7})
    assert made.status_code == 201
    path = f"/jobs/{made.json()['id']}"
    job = site.get(f"/api/v1{path}").json()
    assert (job["job_type"], job["status"], job["data"], job["priority"]) == ("mail", "pending", {"n": big}, 7)
    assert site.get(f"/api/v1{path}/position").json()["ahead"] == 0
    assert post(site, f"{path}/reprioritise", {"priority": 9}).json() == {"changed": True, "because": None}
    assert queue.get(made.json()["id"]).priority == 9
    assert post(site, f"{path}/retry", {}).json()["changed"] is False
    assert post(site, f"{path}/delete", {}).json()["changed"] is True
    assert site.get(f"/api/v1{path}").status_code == 404
    actions = [entry["action"] for entry in site.get("/api/v1/audit").json()["entries"]]
    assert actions == ["delete", "retry", "reprioritise", "create"]


def test_the_audit_has_the_reasons_of_actions_by_the_api(site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    assert post(site, f"/jobs/{job.id}/cancel", {"reason": "a mistake"}).json()["changed"] is True
    assert post(site, "/types/pause", {"type": "mail", "because": "no server"}).json() == {"changed": True}
    paused, cancelled = site.get("/api/v1/audit").json()["entries"]
    assert cancelled["target"] == {"job": str(job.id), "reason": "a mistake"}
    assert paused["target"] == {"type": "mail", "because": "no server"}


def test_pages_of_jobs_go_on(site: Site, queue: JobQueue) -> None:
    jobs = [str(queue.enqueue("mail").id) for _ in range(7)]
    first = site.get("/api/v1/jobs?limit=5&type=mail").json()
    rest = site.get(f"/api/v1/jobs?limit=5&type=mail&before={first['next']}").json()
    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == jobs[::-1]
    assert rest["next"] is None


def test_the_other_figures(site: Site, queue: JobQueue) -> None:
    queue.enqueue("mail")
    (job,) = queue.claim(["mail"])
    queue.start(job)
    queue.event(job, "sent", {"to": "ann"})
    queue.complete(job)
    queue.schedules.set("nightly", "report", every=60)
    queue.limits.set(3, job_type="mail")
    (counted,) = (each for each in site.get("/api/v1/counts").json()["types"] if each["job_type"] == "mail")
    assert counted["completed"] == 1
    (event,) = (each for each in site.get(f"/api/v1/jobs/{job.id}/events").json()["events"] if each["kind"] == "event")
    assert (event["name"], event["data"]) == ("sent", {"to": "ann"})
    assert sum(slot["completed"] for slot in site.get("/api/v1/history?span=hour").json()["slots"]) == 1
    assert site.get("/api/v1/schedules").json()["schedules"][0]["name"] == "nightly"
    assert site.get("/api/v1/limits").json()["limits"][0]["max_running"] == 3
    assert site.get("/api/v1/workers").json() == {"workers": []}
    assert "findings" in site.get("/api/v1/health").json()


def test_errors_are_json(site: Site) -> None:
    for path, status in (
        ("/jobs?status=odd", 400),
        ("/jobs?limit=0", 400),
        (f"/jobs/{'0' * 8}-0000-0000-0000-{'0' * 12}", 404),
    ):
        answer = site.get(f"/api/v1{path}")
        assert answer.status_code == status
        assert answer.json()["error"]
    missing = [
        ("GET", "/nosuch"),
        ("GET", "/jobs/abc"),
        ("DELETE", "/jobs"),
        ("POST", "/jobs"),
        ("GET", ""),
        ("GET", "/"),
    ]
    for method, path in missing:
        answer = site.request(method, f"/api/v1{path}")
        assert answer.status_code in (403, 404, 405), path
        assert answer.json()["error"], path
    assert site.get("/api/v1/jobs", headers={"host": "evil.example"}).json()["error"]
    assert site.get("/api/v1/jobs?path=" + "x" * 9_000).json()["error"] == "this request is too long"
    assert "<html" in site.get("/api/v1x").text
    assert post(site, "/jobs", {"type": ""}).status_code == 400
    assert post(site, "/jobs", [1]).status_code == 400
    assert site.request("POST", "/api/v1/jobs", headers=ORIGIN, content=b"{").status_code == 415


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/jobs", {}, "type is missing"),
        ("/jobs", {"type": 5}, "type is 5"),
        ("/jobs", {"type": {"a": 1}}, "JSON of the type string"),
        ("/jobs", {"type": None}, "JSON of the type string"),
        ("/jobs", {"type": "t", "key": ["k"]}, "key is ['k']"),
        ("/jobs", {"type": "t", "priority": "7"}, "integer"),
        ("/jobs", {"type": "t", "priority": True}, "integer"),
        ("/jobs", {"type": "t", "prioritty": 5}, "Did you mean priority?"),
        ("/jobs", {"job_type": "t"}, "Did you mean type?"),
        ("/jobs", {"type": "t", "delay": "60"}, "number"),
        ("/jobs", {"type": "t", "delay": 60, "run_at": "2h"}, "delay"),
        ("/jobs?typ=x", {"type": "t"}, "typ: not an option"),
        ("/jobs/ID/reschedule", {"runat": "2030-01-01"}, "Did you mean run_at?"),
        ("/jobs/ID/reschedule", {"priority": 7}, "priority: not an option of POST /jobs/{id}/reschedule"),
        ("/jobs/ID/cancel", {"reason": 5}, "reason is 5"),
        ("/jobs/ID/cancel", {"because": "x"}, "Did you mean reason?"),
        ("/types/pause", {"type": "t", "because": {"a": 1}}, "because is"),
        ("/types/pause", {"type": "t", "reason": "x"}, "Did you mean because?"),
        ("/signals", {"name": ["a"]}, "name is"),
        ("/signals", {"name": "a", "key": 5}, "key is 5"),
    ],
    ids=str,
)
def test_a_body_that_does_not_fit_the_description_is_refused(
    site: Site, queue: JobQueue, path: str, body: Any, said: str
) -> None:
    job = queue.enqueue("mail", delay=3600)
    answer = post(site, path.replace("ID", str(job.id)), body)
    assert answer.status_code == 400, answer.text
    assert said in answer.json()["error"]
    assert len(queue.list()) == 1
    assert queue.get(job) == job
    assert site.get("/api/v1/audit").json()["entries"] == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("jobs?typ=mail", "Did you mean type?"),
        ("history?span=century", "hour"),
        ("counts?limit=1", "limit"),
        ("jobs?status=done", "completed"),
    ],
)
def test_a_parameter_that_there_is_not_is_refused(site: Site, query: str, said: str) -> None:
    answer = site.get(f"/api/v1/{query}")
    assert answer.status_code == 400
    assert said in answer.json()["error"]


def test_when_a_job_is_due_is_a_time_or_a_duration_from_now(site: Site, queue: JobQueue) -> None:
    begun = datetime.now(timezone.utc)
    made = [
        post(site, "/jobs", {"type": "t", **due}).json()["id"]
        for due in ({"run_at": "2h"}, {"delay": 7200}, {"delay": None})
    ]
    made.append(str(queue.enqueue("t").id))
    assert post(site, f"/jobs/{made[3]}/reschedule", {"run_at": "2h"}).json()["changed"] is True
    assert post(site, f"/jobs/{made[1]}/reschedule", {}).json()["changed"] is True
    site.post("/jobs", {"type": "t", "run_at": "2h"})
    made.append(str(queue.list()[0].id))
    late = [queue.get(id).run_at - begun > timedelta(hours=1) for id in made]
    assert late == [True, False, False, True, True]


@pytest.mark.parametrize("written", ["9999999d", "9999999999d", "-1h", "2 weeks", "9999-12-31T23:59:59-10:00"])
def test_a_time_that_is_none_is_refused(site: Site, queue: JobQueue, written: str) -> None:
    job = queue.enqueue("t")
    for path in (f"jobs/{job.id}/reschedule", "jobs", "schedules"):
        form = {"type": "t", "run_at": written, "name": "n", "every": written if path == "schedules" else ""}
        if (path, written) != ("schedules", "9999999d"):
            assert site.post(f"/{path}", form).status_code == 400, path
    assert post(site, f"/jobs/{job.id}/reschedule", {"run_at": written}).status_code == 400
    for name, given in (("since", written), ("until", written), ("since", "999999d")):
        assert site.get("/jobs", params={name: given}).status_code == 400
        assert site.get("/api/v1/jobs", params={name: given}).status_code == 400
    for number in ("--5", "5-", "", "1.5"):
        assert site.post(f"/jobs/{job.id}/reprioritise", {"priority": number}).status_code == 400


def test_what_is_nested_deeply_is_redacted(dsn: str, queue: JobQueue, db: Db) -> None:
    site = Site(JobQueue(dsn), redact=["**.password"])
    # A client in SQL may nest them deeper than ours.
    nested = "(repeat('[', 900) || '{\"password\": 4711}' || repeat(']', 900))::jsonb"
    db.execute(f"INSERT INTO jobs (job_type, data) VALUES ('mail', {nested})".encode())
    (job,) = queue.list()
    for path in ("/jobs", f"/jobs/{job.id}", f"/jobs/new?like={job.id}", f"/api/v1/jobs/{job.id}"):
        answer = site.get(path)
        assert answer.status_code == 200, path
        assert "4711" not in answer.text
    site.close()


def test_nothing_that_the_description_allows_or_forbids_breaks_it(dsn: str, queue: JobQueue) -> None:
    for _ in range(3):
        queue.enqueue("mail", {"n": 1})
    site = Site(JobQueue(dsn))
    description = site.get("/api/v1/openapi.json").json()
    seen: set[str] = set()
    results: Any = schemathesis.openapi.from_dict(description).get_all_operations()
    for result in results:
        operation = result.ok()
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            # An operation without parameters has no wrong ones.
            with contextlib.suppress(hypothesis.errors.Unsatisfiable):
                check(site, operation, mode)
        seen.add(operation.label)
    site.close()
    paths = description["paths"]
    assert seen == {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}


def check(site: Site, operation: Any, mode: Any) -> None:
    """Sends what the description of an operation allows, or forbids."""

    @hypothesis.settings(max_examples=12, deadline=None, database=None, derandomize=True)
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def holds(case: Any) -> None:
        answer = send(site, case.as_transport_kwargs(base_url="http://localhost/api/v1"))
        if answer is not None:
            assert answer.status_code < 500, answer.text
            if answer.headers["content-type"] == "application/json":
                json.loads(answer.text)

    holds()


def send(site: Site, sent: dict[str, Any]) -> httpx.Response | None:
    """None if no client could send it."""
    headers = {**dict(sent.get("headers") or {}), **ORIGIN}
    given = sent.get("data") if sent.get("data") is not None else sent.get("content")
    body = {"content": given} if isinstance(given, bytes | str) else {"data": given} if given is not None else {}
    if sent.get("json") is not None:
        body = {"json": sent["json"]}
    try:
        path = sent["url"].removeprefix("http://localhost")
        return site.request(sent["method"], path, params=sent.get("params"), headers=headers, **body)
    except (ValueError, TypeError, httpx.InvalidURL):
        return None


@pytest.mark.parametrize("name", ["Starlette", "FastAPI"])
def test_it_is_mounted_in_an_app(queue: JobQueue, name: str) -> None:
    from fastapi import FastAPI
    from starlette.applications import Starlette
    from starlette.testclient import TestClient

    host: Any = FastAPI() if name == "FastAPI" else Starlette()
    host.mount("/jobs", app(queue))
    client = TestClient(host, base_url="http://localhost", client=("127.0.0.1", 5))
    assert "Overview" in client.get("/jobs/").text
    assert client.get("/jobs/api/v1/counts").json()["types"] == []
