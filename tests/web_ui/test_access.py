"""Which requests are served, and to which visitors: the defences of every route."""

from __future__ import annotations

import asyncio
import base64
import json
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest
from starlette.routing import Route

from howdah import DatabaseUnavailable, InvalidOption, JobQueue, NotPermitted
from howdah.db.plan import Begin, Call
from howdah.encryption import EncryptedCodec, new_key
from howdah.model.results import WhenFull
from howdah.web import Password, ProxyHeader, Visitor, app, plans
from howdah.web.defence import MOST_BODY, MOST_WRONG
from howdah.web.filters import Filter
from tests.conftest import Db
from tests.tenant import Tenant
from tests.web_ui.conftest import ORIGIN, Site
from tests.worker.processes import until

FORM = "application/x-www-form-urlencoded"
PASSWORDS = {"operator": "an operator's secret", "viewer": "a viewer's secret"}


def every_route(site: Site) -> list[tuple[str, str]]:
    """Each method and path that the app has."""
    inner: Any = site.dashboard._defence._inner
    made = []
    for route in inner.routes:
        assert isinstance(route, Route)
        path = (
            route.path.replace("{id:uuid}", str(uuid.UUID(int=7))).replace("{run}", "0").replace("{name}", "howdah.css")
        )
        for verb in ("pause", "resume") if "types" in path else ("retry", "delete"):
            made += [
                (method, path.replace("{verb}", verb)) for method in sorted(route.methods or ()) if method != "HEAD"
            ]
    return sorted(set(made))


def mutating(site: Site) -> list[tuple[str, str]]:
    found = [(method, path) for method, path in every_route(site) if method != "GET"]
    assert len(found) >= 20
    return found


def basic(secret: str, name: str = "ann") -> dict[str, str]:
    return {"authorization": f"Basic {base64.b64encode(f'{name}:{secret}'.encode()).decode()}"}


def test_every_route_refuses_a_foreign_host(site: Site) -> None:
    for method, path in every_route(site):
        for host in (
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "[::2]",
        ):
            answer = site.request(method, path, host="localhost", headers={**ORIGIN, "host": host})
            assert answer.status_code == 403, (method, path, host)
    assert site.get("/live", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:81"},
        {"origin": "http://localhost.evil.example"},
        {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
    ],
    ids=str,
)
def test_every_change_refuses_a_request_of_another_site(site: Site, queue: JobQueue, headers: dict[str, str]) -> None:
    for method, path in mutating(site):
        content = {"content-type": "application/json" if "/api/" in path else FORM}
        answer = site.request(method, path, headers={**headers, **content}, content="type=mail")
        assert answer.status_code == 403, (method, path)
    assert len(queue.list()) == 0
    assert not queue.stats()


def test_a_page_of_the_same_origin_may_change_something(site: Site, queue: JobQueue) -> None:
    for headers in ({"sec-fetch-site": "same-origin"}, ORIGIN):
        assert site.post("/jobs", {"type": "mail"}, headers=headers).status_code == 303
    assert queue.stats()["mail"].pending == 2


def test_a_viewer_sees_and_changes_nothing(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    site = Site(JobQueue(dsn), authenticate=Password(**PASSWORDS))
    viewer = basic(PASSWORDS["viewer"])
    for method, path in mutating(site):
        content = {"content-type": "application/json" if "/api/" in path else FORM}
        body = json.dumps({"type": "mail"}) if "/api/" in path else "type=mail&verb=delete&scope=all"
        answer = site.request(method, path, headers={**viewer, **ORIGIN, **content}, content=body)
        assert answer.status_code == 403, (method, path)
        assert "viewer" in answer.text
    with queue.workflow("import") as flow:
        flow.add("download")
    flow_path = f"/workflows/{flow.id}"
    for path in (
        "/",
        "/jobs",
        f"/jobs/{job.id}",
        "/workflows",
        flow_path,
        "/signals",
        "/types",
        "/workers",
        "/schedules",
        "/limits",
        "/health",
        "/audit",
    ):
        answer = site.get(path, headers=viewer)
        assert answer.status_code == 200
        assert 'method="post"' not in answer.text
    assert queue.get(job).status == "pending"
    site.close()


def test_a_read_only_dashboard_changes_nothing_for_operators_either(dsn: str, queue: JobQueue) -> None:
    site = Site(JobQueue(dsn), read_only=True)
    for method, path in mutating(site):
        answer = site.request(method, path, headers={**ORIGIN, "content-type": FORM}, content="type=mail")
        assert answer.status_code == 403, (method, path)
    assert 'method="post"' not in site.get("/jobs/new").text
    assert not queue.stats()
    site.close()


def test_without_authentication_only_this_machine_is_served(site: Site) -> None:
    assert site.get("/", client="127.0.0.1").status_code == 200
    assert site.get("/", client="::1").status_code == 200
    for client in ("10.0.0.5", "192.168.1.2", "::ffff:10.0.0.5"):
        for method, path in every_route(site):
            assert site.request(method, path, client=client, headers=ORIGIN).status_code == 403


@pytest.mark.parametrize("header", ["X-Forwarded-For", "x-forwarded-host", "X-Real-IP", "Forwarded", "Via"])
def test_without_authentication_nothing_that_a_proxy_forwards_is_served(
    site: Site, queue: JobQueue, dsn: str, header: str
) -> None:
    for method, path in every_route(site):
        answer = site.request(method, path, headers={**ORIGIN, header: "203.0.113.9"})
        assert answer.status_code == 403, (method, path)
        assert "proxy forwarded this request" in answer.text
    assert not queue.stats()
    guarded = Site(JobQueue(dsn), authenticate=Password(**PASSWORDS))
    assert guarded.get("/", headers={**basic(PASSWORDS["viewer"]), header: "203.0.113.9"}).status_code == 200
    guarded.close()


def test_names_and_passwords_beyond_ascii(dsn: str) -> None:
    site = Site(JobQueue(dsn), authenticate=Password(operator="pässwörd-1"))
    assert site.get("/", headers={"authorization": "Bearer pässwörd-1".encode()}).status_code == 200
    assert site.get("/", headers={"authorization": "Bearer pässwörd-1".encode("latin-1")}).status_code == 200
    assert "Zoë" in site.get("/", headers=basic("pässwörd-1", "Zoë")).text
    assert site.get("/", headers={"authorization": "Bearer pässwörd-2".encode()}).status_code == 401
    site.close()
    header = ProxyHeader("X-Forwarded-User", trusted=["127.0.0.1"], operators=["josé"])
    site = Site(JobQueue(dsn), authenticate=header)
    for name, expected in (("josé".encode(), 303), ("josé".encode("latin-1"), 303), ("josè".encode(), 403)):
        answer = site.post(
            "/jobs", {"type": "mail"}, headers={b"x-forwarded-user": name, b"origin": b"http://localhost"}
        )
        assert answer.status_code == expected
    assert {
        entry["visitor"] for entry in site.get("/api/v1/audit", headers={"x-forwarded-user": "x"}).json()["entries"]
    } == {"josé"}
    site.close()


def test_few_wrong_passwords_can_be_tried_at_once(dsn: str) -> None:
    site = Site(JobQueue(dsn), authenticate=Password(**PASSWORDS))
    site.dashboard._defence.pause = 2

    async def guess(number: int) -> int:
        transport = httpx.ASGITransport(site.dashboard, client=(f"10.0.0.{number}", 5))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as caller:
            return (await caller.get("/", headers=basic(f"guess {number}"))).status_code

    async def guesses() -> list[int]:
        return await asyncio.gather(*map(guess, range(60)))

    answers = site._on_loop(guesses())
    assert (answers.count(401), answers.count(429)) == (MOST_WRONG, 60 - MOST_WRONG)
    assert site.get("/", headers=basic(PASSWORDS["viewer"])).status_code == 200
    site.close()


def test_a_host_beyond_this_machine_needs_authentication(queue: JobQueue) -> None:
    for hosts in (["jobs.example.com"], ["localhost", "10.0.0.5"]):
        with pytest.raises(InvalidOption, match="authenticate"):
            app(queue, hosts=hosts)
    with pytest.raises(InvalidOption, match="names"):
        app(queue, hosts=["*"], authenticate=Password(operator="long enough"))
    app(queue, hosts=["jobs.example.com"], authenticate=Password(operator="long enough"))


def test_every_route_refuses_missing_and_wrong_passwords(dsn: str) -> None:
    site = Site(JobQueue(dsn), authenticate=Password(**PASSWORDS))
    wrong: list[dict[str, str]] = [
        {}, basic("wrong"), basic(""), {"authorization": "Basic !!!"}, {"authorization": "Bearer wrong"},
        {"authorization": "Digest x"}, {"authorization": basic(PASSWORDS["operator"])["authorization"] + "x"},
    ]  # fmt: skip
    for headers in wrong:
        for method, path in every_route(site):
            answer = site.request(method, path, headers={**headers, **ORIGIN})
            assert answer.status_code == 401, (method, path, headers)
            assert answer.headers["www-authenticate"].startswith("Basic ")
    site.close()


def test_a_password_gives_its_role_and_a_name_for_the_audit(dsn: str) -> None:
    site = Site(JobQueue(dsn), authenticate=Password(**PASSWORDS), hosts=["jobs.example.com"])
    operator = basic(PASSWORDS["operator"], "bea")
    assert "viewer" in site.get("/", headers=basic(PASSWORDS["viewer"])).text
    assert site.get("/", headers={"authorization": f"Bearer {PASSWORDS['viewer']}"}).status_code == 200
    origin = {"origin": "https://jobs.example.com"}
    assert (
        site.post(
            "/jobs", {"type": "mail"}, headers={**operator, **origin}, host="jobs.example.com", client="10.1.2.3"
        ).status_code
        == 303
    )
    assert "bea" in site.get("/audit", headers=operator).text
    site.close()


def test_what_is_changed_and_its_entry_in_the_audit_are_one(site: Site, queue: JobQueue, db: Db) -> None:
    db.execute(
        "CREATE TRIGGER audit_refuses BEFORE INSERT ON audit FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()"
    )
    form = {"name": "nightly", "type": "mail", "every": "1h"}
    for path, fields in (("/jobs", {"type": "mail"}), ("/schedules", form)):
        assert site.post(path, fields).status_code >= 500, path
    assert site.request("POST", "/api/v1/jobs", headers=ORIGIN, json={"type": "mail"}).status_code >= 500
    assert len(queue.list()) == 0
    assert queue.schedules.list() == []
    db.execute("DROP TRIGGER audit_refuses ON audit")
    for path, fields in (("/jobs", {"type": "mail"}), ("/schedules", form)):
        assert site.post(path, fields).status_code == 303, path
    assert site.request("POST", "/api/v1/jobs", headers=ORIGIN, json={"type": "mail"}).status_code == 201
    entries = site.get("/api/v1/audit").json()["entries"]
    assert [entry["action"] for entry in entries] == ["create", "save schedule", "create"]


def test_a_new_job_waits_for_room_without_a_transaction(
    site: Site, queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.limits.set_max_pending("mail", 1, when_full="wait")
    queue.enqueue("mail")
    with ThreadPoolExecutor() as threads:
        sent = threads.submit(site.post, "/jobs", {"type": "mail"})
        asks = (
            "SELECT state, xact_start FROM pg_stat_activity WHERE query ~ 'has_room' AND state = 'idle'"
            " AND pid <> pg_backend_pid()"
        )
        until(lambda: db.execute(asks).fetchall(), "the new job waits for room")
        assert all(row["xact_start"] is None for row in db.execute(asks))
        assert queue.claim(["mail"])
        answer = sent.result(60)
    assert answer.status_code == 303
    assert queue.stats()["mail"].pending == 1
    assert [entry["jobs"] for entry in site.get("/api/v1/audit").json()["entries"]] == [1]
    monkeypatch.setattr(plans, "ROOM_TIMEOUT", 0.2)
    refusals: tuple[WhenFull, ...] = ("wait", "raise")
    for when_full in refusals:
        queue.limits.set_max_pending("mail", 1, when_full=when_full)
        assert site.post("/jobs", {"type": "mail"}).status_code == 409
    assert len(site.get("/api/v1/audit").json()["entries"]) == 1


def test_no_other_call_leaves_its_notification_to_a_new_job_that_may_be_rolled_back(queue: JobQueue) -> None:
    plan = plans.enqueue(queue._context, job_type="mail", data={})
    assert isinstance(next(plan), Begin)
    step = plan.send(None)
    assert isinstance(step, Call)
    assert step.arguments["alone"] is False
    plan.close()


@pytest.mark.parametrize("name", ["an\x00n", "ann\n", "\u202eann", "ann\ud800", "a" * 300])
def test_any_name_of_a_visitor_can_be_entered_in_the_audit(dsn: str, name: str) -> None:
    site = Site(JobQueue(dsn), authenticate=lambda _: Visitor(name, "operator"))
    assert site.post("/jobs", {"type": "mail"}).status_code == 303
    (entry,) = site.get("/api/v1/audit").json()["entries"]
    assert entry["visitor"].replace("\N{REPLACEMENT CHARACTER}", "") in ("ann", "a" * 100)
    site.close()


def test_a_password_is_long_and_differs_between_the_roles() -> None:
    for given in ({}, {"operator": "short"}, {"operator": "the same one", "viewer": "the same one"}):
        with pytest.raises(InvalidOption):
            Password(**given)


def test_a_header_is_trusted_from_its_proxy_alone(dsn: str) -> None:
    header = ProxyHeader("X-Forwarded-User", trusted=["10.0.0.0/8"], operators=["ann"])
    site = Site(JobQueue(dsn), authenticate=header, hosts=["jobs.example.com"])

    def status(client: str, headers: Any) -> int:
        return site.get("/", client=client, host="jobs.example.com", headers=headers).status_code

    assert status("10.0.0.5", {"x-forwarded-user": "ann"}) == 200
    assert status("10.0.0.5", {}) == 401
    assert status("192.168.0.1", {"x-forwarded-user": "ann"}) == 401
    assert status("127.0.0.1", {"x-forwarded-user": "ann"}) == 401
    assert status("10.0.0.5", [("x-forwarded-user", "ann"), ("x-forwarded-user", "bob")]) == 401
    origin = {"origin": "http://jobs.example.com"}
    for name, expected in (("ann", 303), ("bob", 403)):
        answer = site.post(
            "/jobs",
            {"type": "mail"},
            client="10.0.0.5",
            host="jobs.example.com",
            headers={"x-forwarded-user": name, **origin},
        )
        assert answer.status_code == expected
    site.close()


def test_a_function_of_the_host_app_authenticates(dsn: str) -> None:
    async def known(scope: Any) -> Visitor | None:
        token = dict(scope["headers"]).get(b"x-token")
        return Visitor("carla", "operator") if token == b"yes" else None

    site = Site(JobQueue(dsn), authenticate=known)
    assert site.get("/").status_code == 401
    assert "carla" in site.get("/", headers={"x-token": "yes"}).text
    site.close()


def test_every_answer_has_a_strict_policy_and_no_page_has_inline_code(site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    for path in ("/", "/jobs", f"/jobs/{job.id}", "/nothing", "/static/howdah.js", "/api/v1/jobs", "/jobs?status=odd"):
        answer = site.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "data:" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert " style=" not in answer.text
        assert " onclick=" not in answer.text
    assert site.get("/jobs").headers["cache-control"] == "no-store"


def test_requests_that_are_too_long_are_refused(site: Site) -> None:
    assert site.get("/jobs?path=" + "x" * 9_000).status_code == 413
    assert site.post("/jobs", {"type": "mail", "data": "x" * MOST_BODY}).status_code == 413
    chunks = (b"x" * 65536 for _ in range(6))

    async def streamed() -> Any:
        for chunk in chunks:
            yield chunk

    assert (
        site.request("POST", "/jobs", headers={**ORIGIN, "content-type": FORM}, content=streamed()).status_code == 413
    )
    assert (
        site.request("POST", "/jobs", headers={**ORIGIN, "content-type": "text/plain"}, content="type=mail").status_code
        == 415
    )


def test_a_redirect_stays_on_this_dashboard(site: Site, queue: JobQueue) -> None:
    for back in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/x\r\nset-cookie: a=b",
    ):
        answer = site.post("/types/pause", {"type": "mail", "back": back})
        assert answer.status_code == 303
        assert answer.headers["location"] == "/types"


def test_the_stream_has_room_for_so_many(dsn: str) -> None:
    site = Site(JobQueue(dsn), max_streams=1)
    live: Any = site.dashboard._live
    live._mailboxes.add(object())
    assert site.get("/live").status_code == 503
    live._mailboxes.clear()
    site.close()


def test_viewers_read_with_the_rights_of_their_role(server_dsn: str) -> None:
    with Tenant(server_dsn, "web_roles") as tenant:
        with tenant.queue("owner") as owner:
            job = owner.enqueue("mail", {"card": "4711-secret"})
            owner.claim(["mail"])
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS))
        answer = site.get(f"/jobs/{job.id}", headers=basic(PASSWORDS["viewer"]))
        assert answer.status_code == 403
        assert "GRANT web_roles_viewer TO web_roles_owner_login" in answer.text
        tenant.execute("GRANT {} TO {}", "web_roles_viewer", "web_roles_owner_login")
        for path in (f"/jobs/{job.id}", f"/api/v1/jobs/{job.id}", "/jobs"):
            assert "4711-secret" not in site.get(path, headers=basic(PASSWORDS["viewer"])).text
        assert "4711-secret" in site.get(f"/jobs/{job.id}", headers=basic(PASSWORDS["operator"])).text
        # A search would find out what is redacted.
        for query in ("path=$.card", "error=x", "key=x"):
            assert site.get(f"/jobs?{query}", headers=basic(PASSWORDS["viewer"])).status_code == 403
            assert site.get(f"/api/v1/jobs?{query}", headers=basic(PASSWORDS["viewer"])).status_code == 403
        site.close()


def test_actions_have_the_rights_of_the_role_of_operators(server_dsn: str) -> None:
    """The login of the dashboard owns the queue, and may do more."""
    with Tenant(server_dsn, "web_roles") as tenant:
        with tenant.queue("owner") as owner:
            jobs = [owner.enqueue("mail") for _ in range(3)]
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS))
        headers = {**basic(PASSWORDS["operator"]), **ORIGIN}

        def cancel(number: int) -> int:
            return site.post(f"/jobs/{jobs[number].id}/cancel", headers=headers).status_code

        revoke = "REVOKE EXECUTE ON FUNCTION web_roles.cancel FROM web_roles_operator"
        tenant.admin.execute(revoke)
        assert cancel(0) == 303  # as the login, because it is no member of the role
        tenant.execute("GRANT {} TO {}", "web_roles_operator", "web_roles_owner_login")
        assert cancel(1) == 403
        run = {"verb": "cancel", "scope": "all", "type": "mail", "status": "pending"}
        begun = site.post("/bulk", run, headers=headers).headers["location"]
        deadline = time.monotonic() + 60
        while "not permitted" not in (page := site.get(begun, headers=headers).text) and "NotPermitted" not in page:
            assert time.monotonic() < deadline, page
            time.sleep(0.02)
        tenant.admin.execute("GRANT EXECUTE ON FUNCTION web_roles.cancel TO web_roles_operator")
        assert cancel(1) == 303
        # What operators are granted is enough for what the pages offer.
        for path, fields in (
            (f"/jobs/{jobs[1].id}/retry", {}),
            (f"/jobs/{jobs[2].id}/reprioritise", {"priority": "7"}),
            (f"/jobs/{jobs[2].id}/reschedule", {"run_at": "2099-01-01T10:00"}),
            (f"/jobs/{jobs[0].id}/delete", {}),
            ("/jobs", {"type": "mail"}),
            ("/types/pause", {"type": "mail", "because": "x"}),
            ("/types/resume", {"type": "mail"}),
            ("/limits", {"what": "limit", "of": "type", "type": "mail", "value": "3"}),
            ("/limits", {"what": "pause", "type": "mail", "per": "ann"}),
            ("/limits", {"what": "max_pending", "type": "mail", "value": "100"}),
            ("/schedules", {"name": "nightly", "type": "mail", "every": "1h"}),
            ("/schedules/run", {"name": "nightly"}),
            ("/schedules/pause", {"name": "nightly"}),
            ("/schedules/resume", {"name": "nightly"}),
            ("/schedules/delete", {"name": "nightly"}),
            ("/signals", {"name": "paid", "key": "17"}),
        ):
            assert site.post(path, fields, headers=headers).status_code == 303, path
        with tenant.queue("owner") as owner, owner.workflow("import") as flow:
            flow.add("download")
        for verb in ("cancel", "retry"):
            assert site.post(f"/workflows/{flow.id}/{verb}", headers=headers).status_code == 303, verb
        site.close()


def test_a_viewer_gets_no_page_of_an_action_on_many_jobs_nor_its_count(server_dsn: str) -> None:
    with Tenant(server_dsn, "web_roles") as tenant:
        tenant.execute("GRANT {} TO {}", "web_roles_viewer", "web_roles_owner_login")
        with tenant.queue("owner") as owner:
            job = owner.enqueue("mail", {"card": "4111"}, key="k", per="p")
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS))
        viewer, operator = (basic(PASSWORDS[role]) for role in ("viewer", "operator"))
        for query in ('path=$.card=="4111"', "error=x", "key=k", "per=p", "type=mail", f"scope=chosen&id={job.id}"):
            page = f"/bulk?verb=cancel&scope=all&{query}"
            answer = site.get(page, headers=viewer)
            assert (answer.status_code, "viewer" in answer.text) == (403, True), query
            assert "Cancel " in site.get(page, headers=operator).text
        begun = site.post("/bulk", {"verb": "cancel", "scope": "all", "key": "k"}, headers={**operator, **ORIGIN})
        run = begun.headers["location"]
        assert site.get(run, headers=operator).status_code == 200
        assert site.get(run, headers=viewer).status_code == 403
        # Also without the page, a count for a viewer has the rights of a viewer.
        inner: Any = site.dashboard._site
        with pytest.raises(NotPermitted):
            site._on_loop(inner.runs.count(Visitor("vera"), Filter(key="k"), "cancel"))
        site.close()


def test_the_audit_hides_from_viewers_what_jobs_do(server_dsn: str) -> None:
    with Tenant(server_dsn, "web_roles") as tenant:
        tenant.execute("GRANT {} TO {}", "web_roles_viewer", "web_roles_owner_login")
        with tenant.queue("owner") as owner:
            job = owner.enqueue("mail", {"card": "4711-secret"})
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS))
        viewer, operator = (basic(PASSWORDS[role]) for role in ("viewer", "operator"))
        headers = {**operator, **ORIGIN}
        searched = {
            "path": '$.card == "4711-secret"',
            "error": "4711-secret",
            "key": "4711-secret",
            "per": "4711-secret",
        }
        bulk = {"verb": "cancel", "scope": "all", "reason": "4711-secret", "type": "mail", **searched}
        key = {"what": "limit", "of": "key", "type": "mail", "per": "4711-secret", "value": "3"}
        sent = [("/bulk", bulk), (f"/jobs/{job.id}/cancel", {"reason": "4711-secret"}), ("/limits", key)]
        # PostgreSQL refuses this path when the action is under way, and its error repeats it.
        sent.append(("/bulk", {"verb": "cancel", "scope": "all", "path": '$."4711-secret" =='}))
        for path, fields in sent:
            assert site.post(path, fields, headers=headers).status_code == 303, path
        deadline = time.monotonic() + 60
        while len(site.get("/api/v1/audit", headers=operator).json()["entries"]) < 6:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        for path in ("/audit", "/api/v1/audit"):
            assert "4711-secret" in site.get(path, headers=operator).text
            seen = site.get(path, headers=viewer).text
            assert "4711-secret" not in seen
            for word in ("[redacted]", "mail", str(job.id), "ended by InvalidOption"):
                assert word in seen
        site.close()
        # Redacted paths are, for operators, too.
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS), redact=["card"])
        target = '{"filter": {"path": "$.pin == 12-34"}, "data": {"card": "12-34", "kind": "visa"}}'
        tenant.admin.execute("SELECT web_roles.record_audit('ann', 'other', %s)", (target,))
        for path in ("/audit", "/api/v1/audit"):
            seen = site.get(path, headers=operator).text
            assert "12-34" not in seen
            assert "$.card" not in seen
            assert "visa" in seen
        site.close()


def test_a_page_cannot_write_and_is_stopped_in_time(site: Site) -> None:
    from howdah.db.plan import Script
    from howdah.web.access import LOCAL

    def run(statement: str) -> Any:
        def plan() -> Any:
            yield Script(statement)

        return site._on_loop(site.dashboard._site.data.read(LOCAL, plan()))

    with pytest.raises(DatabaseUnavailable, match="read-only"):
        run("DELETE FROM howdah.live")
    site.dashboard._site.data._timeout = "50ms"
    with pytest.raises(psycopg.errors.QueryCanceled):
        run("SELECT pg_sleep(10)")


def test_viewers_lose_sight_of_contents_when_the_schema_gets_its_roles(server_dsn: str) -> None:
    """The dashboard runs meanwhile."""
    with Tenant(server_dsn, "web_later", install=False) as tenant:
        with JobQueue(tenant.admin_dsn, "web_later") as owner:
            owner.migrate()
            job = owner.enqueue("mail", {"card": "4711-secret"})
            site = Site(JobQueue(tenant.admin_dsn, "web_later"), authenticate=Password(**PASSWORDS))
            viewer = basic(PASSWORDS["viewer"])
            assert "4711-secret" in site.get(f"/jobs/{job.id}", headers=viewer).text
            owner.migrate(roles=True)
        assert "4711-secret" not in site.get(f"/jobs/{job.id}", headers=viewer).text
        site.close()


def test_the_audit_stores_a_reason_as_the_job_does(dsn: str, db: Db) -> None:
    codec = EncryptedCodec(new_key())
    with JobQueue(dsn, codec=codec) as queue:
        site = Site(JobQueue(dsn, codec=codec))
        with queue.workflow("import") as flow:
            flow.add("download")
        jobs = [queue.enqueue("mail") for _ in range(2)]
        site.post(f"/workflows/{flow.id}/cancel", {"reason": "4711-secret"})
        site.post(f"/jobs/{jobs[0].id}/cancel", {"reason": "4711-secret"})
        run = {"verb": "cancel", "scope": "all", "type": "mail", "status": "pending", "reason": "4711-secret"}
        begun = site.post("/bulk", run).headers["location"]
        deadline = time.monotonic() + 60
        while queue.get(jobs[1]).status != "cancelled" or len(site.get("/api/v1/audit").json()["entries"]) < 4:
            assert time.monotonic() < deadline, site.get(begun).text
            time.sleep(0.02)
        entries = site.get("/api/v1/audit").json()["entries"]
        assert [entry["target"]["reason"] for entry in entries] == ["4711-secret"] * 4
        assert "4711-secret" not in str(db.execute("SELECT target FROM audit").fetchall())
        site.close()
