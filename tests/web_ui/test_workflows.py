"""The screens of workflows and of signals: what they show, what their forms do, and to which visitors."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

import pytest

from howdah import Flow, Job, JobQueue
from howdah.verbs import signals as verbs
from howdah.web import Password
from howdah.web.plans import MOST_NODES
from tests.conftest import Db
from tests.tenant import Tenant
from tests.web_ui.conftest import ORIGIN, Site
from tests.web_ui.test_access import PASSWORDS, basic
from tests.web_ui.test_pages import ids_in, text_of

shapes = JobQueue()


@shapes.job
def parse(part: int) -> int:
    return part


def imported(queue: JobQueue, name: str = "import", **options: Any) -> Flow:
    """A download, a job for each of three parts, a merge, and a node that runs only if something fails."""
    with queue.workflow(name, **options) as flow:
        fetch = flow.add("download", url="https://example.org/17")
        parts = flow.map(parse, (1, 2, 3), after=fetch)
        flow.add("merge", after=parts)
        flow.add("alarm", after=parts, when="failure")
    return flow


def end(queue: JobQueue, job_type: str, error: str | None = None, count: int = 1) -> list[Job]:
    jobs = queue.claim([job_type], count)
    for job in jobs:
        queue.start(job)
        if error is None:
            queue.complete(job, {"done": job_type})
        else:
            queue.fail(job, error, give_up=True)
    return jobs


def row(text: str, number: int) -> str:
    found = re.search(rf'<tr id="node-{number}">(.*?)</tr>', text, re.DOTALL)
    assert found, number
    return " ".join(re.sub("<[^>]+>", " ", found[1]).split())


def test_a_workflow_shows_its_graph_and_what_each_node_waits_for(site: Site, queue: JobQueue) -> None:
    flow = imported(queue, data={"file": 17})
    end(queue, "download")
    end(queue, "parse")
    page = site.get(f"/workflows/{flow.id}").text
    assert "4 nodes: 1 completed, 1 running, 2 waiting" in page
    assert "parse × 3" in page
    assert page.count('class="box ') == 4
    assert page.count('class="edge') == 3
    assert page.count('class="edge passed"') == 1
    assert "33%" in row(page, 2)
    assert "1 of 3" in row(page, 2)
    assert "parse (33%)" in row(page, 3)
    assert "runs only if one of them fails" in row(page, 4)
    assert "2 of 6 jobs have ended: 2 completed" in " ".join(re.sub("<[^>]+>", "", page).split())
    assert "17" in page.split('id="flow-contents"')[1]


def test_workflows_are_listed_by_name_and_status_page_by_page(site: Site, queue: JobQueue) -> None:
    flows = [imported(queue, "nightly" if n % 2 else "import") for n in range(55)]
    flows[3].cancel("the wrong file")
    assert re.findall(r'<tr id="flow-([0-9a-f-]+)"', site.get("/workflows?name=nightly&status=cancelled").text) == [
        str(flows[3].id)
    ]
    assert "the wrong file" in text_of(site, "/workflows?status=cancelled")
    seen: list[str] = []
    path = "/workflows"
    while path:
        page = site.get(path).text
        seen += re.findall(r'<tr id="flow-([0-9a-f-]+)"', page)
        found = re.search(r'rel="next" href="([^"]+)"', page)
        path = found[1].replace("&amp;", "&") if found else ""
    assert seen == [str(flow.id) for flow in reversed(flows)]
    assert "No workflow matches" in text_of(site, "/workflows?name=other")
    for wrong in ("status=odd", "before=7", "name=" + "x" * 101):
        assert site.get(f"/workflows?{wrong}").status_code == 400, wrong


def test_a_workflow_is_cancelled_and_goes_on_and_each_is_audited(site: Site, queue: JobQueue) -> None:
    flow = imported(queue)
    page = f"/workflows/{flow.id}"
    assert site.post(f"{page}/cancel", {"reason": "the wrong file"}).headers["location"] == page
    assert flow.status() == "cancelled"
    assert "the wrong file" in text_of(site, page)
    assert "Not cancelled" in text_of(site, site.post(f"{page}/cancel").headers["location"])
    assert site.post(f"{page}/retry").headers["location"] == page
    assert flow.status() == "running"
    assert "Nothing runs again" in text_of(site, site.post(f"{page}/retry").headers["location"])
    end(queue, "download")
    assert site.post(f"{page}/retry", {"node": "download"}).status_code == 409
    assert "parse has not ended" in site.post(f"{page}/retry", {"node": "download"}).text
    end(queue, "parse", count=3)
    end(queue, "merge")
    assert flow.status() == "completed"
    assert site.post(f"{page}/retry", {"node": "merge"}).headers["location"] == page
    assert flow.status() == "running"
    assert site.post(f"{page}/explode").status_code == 400
    assert site.get("/workflows/00000000-0000-0000-0000-000000000007").status_code == 404
    audit = site.get("/api/v1/audit").json()["entries"]
    made = [(entry["action"], entry["target"].get("node"), entry["outcome"]) for entry in reversed(audit)]
    assert made[0] == ("cancel workflow", None, "cancelled")
    assert made[1][2] == "not changed: it has ended, or was cancelled before"
    assert made[2] == ("retry workflow", None, "4 nodes run again")
    assert made[-1] == ("retry workflow", "merge", "1 nodes run again")
    assert f'href="/workflows/{flow.id}"' in site.get("/audit").text


def test_the_page_of_a_job_shows_its_place_in_its_workflow(site: Site, queue: JobQueue) -> None:
    flow = imported(queue)
    parts = queue.list(job_type="parse")
    page = text_of(site, f"/jobs/{parts[0].id}")
    assert "It waits for download (running)." in page
    assert "node parse, job 3 of 3, after download" in page
    assert f'href="/workflows/{flow.id}"' in site.get(f"/jobs/{parts[0].id}").text
    # Jobs of a node, whatever came later.
    for _ in range(60):
        queue.enqueue("parse")
    assert sorted(ids_in(site, f"/jobs?workflow={flow.id}&node=parse")) == sorted(str(job.id) for job in parts)
    assert len(ids_in(site, f"/jobs?workflow={flow.id}")) == 6
    assert site.get(f"/jobs?workflow={flow.id}&node=other").status_code == 400
    assert site.get("/jobs?node=parse").status_code == 400
    page = text_of(site, f"/bulk?verb=cancel&scope=all&workflow={flow.id}&node=parse")
    assert "Cancel 3 jobs?" in page


def test_jobs_of_an_old_node_are_found_at_once(site: Site, queue: JobQueue, monkeypatch: Any) -> None:
    """The search begins at them, and not at the newest job."""
    flow = imported(queue)
    for _ in range(30):
        queue.enqueue("mail")
    monkeypatch.setattr("howdah.web.plans.WINDOW", 10)
    assert len(ids_in(site, f"/jobs?workflow={flow.id}&node=parse")) == 3
    assert len(ids_in(site, f"/jobs?workflow={flow.id}")) == 6
    assert ids_in(site, "/jobs?type=parse") == []


def test_many_like_nodes_are_one_box(site: Site, queue: JobQueue) -> None:
    with queue.workflow("fan") as flow:
        first = flow.add("split")
        many = [flow.add("part", name=f"part {n}", n=n, after=first) for n in range(40)]
        flow.add("merge", after=many)
    page = site.get(f"/workflows/{flow.id}").text
    assert page.count('class="box ') == 3
    assert "part × 40 nodes" in page
    assert page.count('<tr id="node-') == 42


def test_a_graph_of_very_many_edges_is_drawn_in_part(site: Site, queue: JobQueue) -> None:
    with queue.workflow("dense") as flow:
        nodes: list[Any] = []
        for n in range(80):
            nodes.append(flow.add(f"step{n}", after=list(nodes)))
    page = site.get(f"/workflows/{flow.id}").text
    assert page.count('class="box ') == 80
    assert page.count('class="edge') == 2_000
    assert "1,160 edges are not drawn" in page
    assert "and 74 more" in row(page, 80)


def test_a_node_that_cannot_be_is_refused(site: Site, queue: JobQueue) -> None:
    flow, headers = imported(queue), {**ORIGIN, "content-type": "application/json"}
    for node in ("\ud800", "a\0b", "x" * 101):
        answer = site.request(
            "POST", f"/api/v1/workflows/{flow.id}/retry", headers=headers, content=json.dumps({"node": node})
        )
        assert (answer.status_code, "the name of a node" in answer.text) == (400, True), ascii(node)


def test_a_graph_of_very_many_nodes_is_shown_in_parts(site: Site, queue: JobQueue) -> None:
    with queue.workflow("long") as flow:
        last = None
        for n in range(MOST_NODES + 30):
            last = flow.add("link", name=f"link {n}", after=[last] if last else ())
    page = site.get(f"/workflows/{flow.id}").text
    assert page.count('class="box ') == MOST_NODES
    found = re.search(r'rel="next" href="([^"]+)"', page)
    assert found
    rest = site.get(found[1]).text
    assert rest.count('class="box ') == 30
    assert f"node {MOST_NODES}" in row(rest, MOST_NODES + 1)


def test_a_viewer_sees_a_workflow_without_its_contents(server_dsn: str) -> None:
    with Tenant(server_dsn, "web_flows") as tenant:
        tenant.execute("GRANT {} TO {}", "web_flows_viewer", "web_flows_owner_login")
        with tenant.queue("owner") as owner:
            flow = imported(owner, data={"card": "4711-secret"}, key="4711-secret", meta={"x": "4711-secret"})
            end(owner, "download", "4711-secret")
            flow.cancel("4711-secret")
            waiting = owner.enqueue("buy")
            wait_for(owner, waiting, "4711-secret")
            owner.signal("paid", {"by": "4711-secret"}, key="4711-secret")
        site = Site(tenant.queue("owner"), authenticate=Password(**PASSWORDS))
        viewer, operator = (basic(PASSWORDS[role]) for role in ("viewer", "operator"))
        paths = ["/workflows", f"/workflows/{flow.id}", "/signals", f"/jobs/{waiting.id}"]
        for path in [*paths, *(f"/api/v1{path}" for path in paths)]:
            seen = site.get(path, headers=viewer)
            assert seen.status_code == 200, path
            assert "4711-secret" not in seen.text, path
            assert 'method="post"' not in seen.text, path
        for path in paths:
            assert "4711-secret" in site.get(path, headers=operator).text, path
        sent = site.post("/signals", {"name": "approved", "key": "4711-secret"}, headers={**operator, **ORIGIN})
        assert sent.headers["location"] == "/signals?sent=1"
        site.post(f"/workflows/{flow.id}/cancel", {"reason": "4711-secret"}, headers={**operator, **ORIGIN})
        assert "4711-secret" in site.get("/audit", headers=operator).text
        assert "4711-secret" not in site.get("/audit", headers=viewer).text
        site.close()


def test_redacted_paths_of_a_workflow_are_hidden_from_all(dsn: str, queue: JobQueue) -> None:
    site = Site(JobQueue(dsn), redact=["card.number", "**.password"])
    flow = imported(queue, data={"card": {"number": "4711-1", "kind": "visa"}}, meta={"password": "4711-2"})
    for path in (f"/workflows/{flow.id}", f"/api/v1/workflows/{flow.id}"):
        seen = site.get(path).text
        assert "4711" not in seen
        assert "visa" in seen
    assert site.post("/signals", {"name": "paid", "data": '{"card": "[redacted]"}'}).status_code == 400
    site.close()


# Signals


def wait_for(queue: JobQueue, job: Job, key: str | None = None) -> None:
    """Lets a job wait for the signal "approved"."""
    (held,) = queue.claim([job.job_type])
    queue.start(held)
    queue._database.run(verbs.wait_signal(held, "signal:approved#1", "approved", key, None))


def test_what_waits_for_which_signal_and_what_is_kept(site: Site, queue: JobQueue) -> None:
    assert "No job waits for a signal" in text_of(site, "/signals")
    first = queue.enqueue("buy")
    wait_for(queue, first, "17")
    wait_for(queue, queue.enqueue("buy"), "17")
    queue.signal("paid", {"by": "ann"})
    page = text_of(site, "/signals")
    assert "approved 17 2" in page
    assert f'href="/jobs/{first.id}"' in site.get("/signals").text
    assert re.search(r"paid – 0 1 ", page)
    assert "approved" not in text_of(site, "/signals?of=paid").split("Send a signal")[0].split("Action")[1]
    seen = {each["signal"]: each for each in site.get("/api/v1/signals").json()["signals"]}
    assert (seen["approved"]["waiting"], seen["approved"]["key"], seen["approved"]["exact"]) == (2, "17", True)
    assert (seen["paid"]["kept"], seen["paid"]["waiting"]) == (1, 0)
    # A job that was cancelled waits no more.
    queue.cancel(first)
    assert "approved 17 1" in text_of(site, "/signals")


def test_more_signals_than_a_page_has(site: Site, queue: JobQueue) -> None:
    for n in range(105):
        queue.signal("paid", key=f"{n:03}")
    page = site.get("/signals").text
    assert page.count('<tr id="signal-') == 100
    found = re.search(r'rel="next" href="([^"]+)"', page)
    assert found
    assert site.get(found[1].replace("&amp;", "&")).text.count('<tr id="signal-') == 5
    for wrong in ("skip=-1", "skip=1000000", "of=" + "x" * 200):
        assert site.get(f"/signals?{wrong}").status_code == 400, wrong


def test_signals_that_no_job_waits_for_any_more_take_no_place_of_a_page(site: Site, queue: JobQueue) -> None:
    for n in range(103):
        job = queue.enqueue("buy")
        wait_for(queue, job, f"{n:03}")
        if n in (1, 7):
            queue.cancel(job)
    page = site.get("/signals").text
    assert page.count('<tr id="signal-') == 100
    found = re.search(r'rel="next" href="([^"]+)"', page)
    assert found
    assert re.findall(r"<td>(\d{3})</td>", site.get(found[1].replace("&amp;", "&")).text) == ["102"]


def test_data_that_is_nested_too_deep_is_refused(site: Site) -> None:
    deep = "[" * 900 + "]" * 900
    for answer in (
        site.post("/signals", {"name": "paid", "data": deep}),
        site.post("/jobs", {"type": "mail", "data": f'{{"x": {deep}}}'}),
    ):
        assert answer.status_code == 400
        assert "nested more than 200 levels deep" in answer.text


def test_a_signal_is_sent_and_audited_without_its_data(site: Site, queue: JobQueue) -> None:
    job = queue.enqueue("buy")
    wait_for(queue, job, "17")
    page = text_of(site, f"/jobs/{job.id}")
    assert "It waits for the signal approved (key 17) since" in page
    assert "signal:approved#1waiting" in page
    form = site.get("/signals?name=approved&key=17").text
    assert 'value="approved"' in form
    assert 'value="17"' in form
    sent = {"name": "approved", "key": "17", "data": '{"by": "4711-secret", "n": 9007199254740993}'}
    answer = site.post("/signals", sent)
    assert "woke 1 job" in text_of(site, answer.headers["location"])
    (held,) = queue.claim(["buy"])
    queue.start(held)
    found = queue._database.run(verbs.wait_signal(held, "signal:approved#1", "approved", "17", None))
    assert found == ("done", {"by": "4711-secret", "n": 9007199254740993})
    assert "is kept" in text_of(site, site.post("/signals", sent).headers["location"])
    audit = site.get("/api/v1/audit").json()["entries"]
    assert [(each["action"], each["jobs"]) for each in audit] == [("signal", 0), ("signal", 1)]
    assert audit[1]["target"] == {"signal": "approved", "key": "17"}
    assert "4711" not in site.get("/audit").text
    for wrong in ({"name": ""}, {"name": "x" * 101}, {"name": "a", "data": "{"}):
        answer = site.post("/signals", wrong)
        assert answer.status_code == 400, wrong
        assert 'role="alert"' in answer.text


def test_a_signal_that_another_transaction_is_sending_is_answered_with_409(site: Site, db: Db) -> None:
    with db.transaction():
        db.execute("SELECT signal('paid')")
        answer = site.post("/signals", {"name": "paid"})
    assert answer.status_code == 409
    assert "Try again" in answer.text


def test_workflows_and_signals_as_json(site: Site, queue: JobQueue) -> None:
    flow = imported(queue, data={"big": 9007199254740993}, key="k")

    def post(path: str, body: Any) -> Any:
        return site.request("POST", f"/api/v1{path}", headers=ORIGIN, json=body)

    found = site.get(f"/api/v1/workflows/{flow.id}").json()
    assert (found["name"], found["key"], found["data"]) == ("import", "k", {"big": 9007199254740993})
    assert [(each["name"], each["parents"], each["status"]) for each in found["nodes"]] == [
        ("download", [], "running"),
        ("parse", [1], "waiting"),
        ("merge", [2], "waiting"),
        ("alarm", [2], "waiting"),
    ]
    assert found["next"] is None
    listed = site.get("/api/v1/workflows?status=running&limit=1").json()
    assert [each["id"] for each in listed["workflows"]] == [str(flow.id)]
    assert "data" not in listed["workflows"][0]
    assert post(f"/workflows/{flow.id}/cancel", {"reason": "no"}).json() == {"changed": 1}
    assert post(f"/workflows/{flow.id}/retry", {}).json() == {"changed": 4}
    assert post(f"/workflows/{flow.id}/retry", {"node": "merge"}).status_code == 409
    assert post("/signals", {"name": "paid", "data": {"n": 1}}).json() == {"woken": 0, "kept": True}
    assert post("/signals", {"name": ""}).status_code == 400
    assert post("/signals", {"name": "paid", "key": 7}).status_code == 400


def test_the_memory_of_a_worker_is_shown(site: Site, queue: JobQueue) -> None:
    @queue.job
    def nothing() -> None: ...

    async def seen() -> None:
        work = asyncio.create_task(queue.run_worker(heartbeat=0.1, lease=5))
        deadline = time.monotonic() + 30
        while not any((worker.memory or 0) > 1 << 20 for worker in await queue.aworkers()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)
        page = await asyncio.to_thread(text_of, site, "/workers")
        assert re.search(r"Memory ?\d+(\.\d)? MiB", page)
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(seen())
