"""The stream of a workflow for browsers, as an HTTP client sees it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from howdah import InvalidOption, JobQueue
from howdah.sse import EventStream
from howdah.verbs.flows import Flow
from tests.web.served import served
from tests.web.test_sse import Message, messages, read


@pytest.fixture
def base(queue: JobQueue) -> Iterator[str]:
    app = Starlette(
        routes=[
            Mount("/all", EventStream(queue, commit_timeout=0)),
            Mount("/some", EventStream(queue, commit_timeout=0, types=["fetch"], workflows=["import"])),
            Mount("/types", EventStream(queue, commit_timeout=0, types=["fetch"])),
            Mount("/imports", EventStream(queue, commit_timeout=0, workflows=["import"])),
            Mount("/mine", EventStream(queue, commit_timeout=0, authorize=lambda _, id: id == allowed[0])),
        ]
    )
    with served(app) as port:
        yield f"http://127.0.0.1:{port}"


allowed: list[uuid.UUID | None] = [None]


def enqueued(queue: JobQueue, name: str = "import") -> Flow:
    with queue.workflow(name, data={"secret": "payload"}, key="secret key") as flow:
        flow.add("merge", after=flow.add("fetch", number="secret argument"))
    return flow


def run(queue: JobQueue, job_type: str, *, fails: bool = False) -> None:
    for job in queue.claim([job_type]):
        queue.start(job)
        queue.event(job, "seen", {"n": 1})
        queue.fail(job, "secret error", give_up=True) if fails else queue.complete(job)


def streamed(url: str, **options: Any) -> list[Message]:
    with httpx.stream("GET", url, timeout=120, **options) as response:
        assert response.status_code == 200
        return list(messages(response))


def without_progress(seen: list[Message]) -> list[tuple[str, str, str | None]]:
    data = [(message["event"], json.loads(message["data"])) for message in seen if message["event"] != "end"]
    return [(kind, each["job_type"], each["name"]) for kind, each in data if kind != "progress"]


EVERYTHING = [
    ("status", "import", "running"),
    ("event", "fetch", "seen"),
    ("status", "fetch", "completed"),
    ("event", "merge", "seen"),
    ("status", "merge", "completed"),
    ("status", "import", "completed"),
]


def test_a_workflow_is_streamed_until_it_has_ended(queue: JobQueue, base: str) -> None:
    flow = enqueued(queue)
    url = f"{base}/all/workflows/{flow.id}"
    with httpx.stream("GET", url, timeout=120) as response:
        stream = messages(response)
        seen = [next(stream)]
        run(queue, "fetch")
        run(queue, "merge")
        seen += stream
    assert without_progress(seen) == EVERYTHING
    assert [message["event"] for message in seen][-2:] == ["progress", "end"]
    first, last = (json.loads(seen[place]["data"])["workflow"] for place in (0, -2))
    assert (first["status"], first["percent"]) == ("running", 0)
    assert (last["status"], last["progress"]["completed"], last["percent"]) == ("completed", 2, 100)
    assert "secret" not in json.dumps(seen)


def test_a_browser_resumes_behind_any_message_and_not_behind_the_end(queue: JobQueue, base: str) -> None:
    flow = enqueued(queue)
    url = f"{base}/all/workflows/{flow.id}"
    run(queue, "fetch")
    run(queue, "merge")
    seen = streamed(url)
    for place, message in enumerate(seen[:-2]):
        rest = streamed(url, headers={"Last-Event-ID": message["id"]})
        assert without_progress(rest) == without_progress(seen[place + 1 :])
        assert rest[-1]["event"] == "end"
    assert httpx.get(url, headers={"Last-Event-ID": seen[-1]["id"]}).status_code == 204
    assert flow.retry("merge") == 1
    with httpx.stream("GET", url, headers={"Last-Event-ID": seen[-1]["id"]}, timeout=120) as response:
        stream = messages(response)
        again = [next(stream)]
        run(queue, "merge")
        assert without_progress([*again, *stream])[1:] == [EVERYTHING[0], *EVERYTHING[3:]]


def test_kinds_and_types_of_it_may_be_wanted(queue: JobQueue, base: str) -> None:
    flow = enqueued(queue)
    run(queue, "fetch")
    run(queue, "merge")
    url = f"{base}/all/workflows/{flow.id}"
    assert without_progress(streamed(f"{url}?kinds=event")) == [EVERYTHING[1], EVERYTHING[3]]
    assert without_progress(streamed(f"{url}?kinds=status&types=merge")) == [EVERYTHING[0], *EVERYTHING[4:]]
    for wrong in ("?after=nonsense", "?kinds=nonsense"):
        assert httpx.get(url + wrong).status_code == 400
    # In the form of a position, but of a future that this database does not have.
    lost = streamed(f"{url}?after=1:1:@999999999")
    assert (lost[0]["event"], without_progress(lost[1:])) == ("reset", EVERYTHING)


def test_an_error_or_a_reason_is_not_shown(queue: JobQueue, base: str) -> None:
    flow = enqueued(queue)
    run(queue, "fetch", fails=True)
    flow.cancel("secret reason")
    seen = streamed(f"{base}/all/workflows/{flow.id}")
    assert [json.loads(each["data"])["workflow"]["status"] for each in seen if each["event"] == "progress"] == [
        "failed"
    ]
    assert "secret" not in json.dumps(seen)


def test_only_some_workflows_may_be_served(queue: JobQueue, base: str) -> None:
    one, other = enqueued(queue), enqueued(queue, "other")
    for flow in (one, other):
        flow.cancel()
    assert without_progress(streamed(f"{base}/some/workflows/{one.id}"))[0] == EVERYTHING[0]
    refused = [
        f"/some/workflows/{other.id}",
        f"/types/workflows/{one.id}",
        f"/all/workflows/{uuid.uuid4()}",
        f"/all/{one.id}",
        "/all/workflows/nonsense",
        f"/all/other/{one.id}",
        f"/all/workflows/x/{one.id}",
    ]
    assert {httpx.get(base + path).status_code for path in refused} == {404}
    allowed[0] = other.id
    assert httpx.get(f"{base}/mine/workflows/{one.id}").status_code == 403
    assert streamed(f"{base}/mine/workflows/{other.id}")[-1]["event"] == "end"
    with pytest.raises(InvalidOption, match="workflows is a list"):
        EventStream(queue, workflows="import")


def test_foreign_hosts_and_pages_are_refused(queue: JobQueue, base: str) -> None:
    url = f"{base}/all/workflows/{enqueued(queue).id}"
    for headers in (
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ):
        assert httpx.get(url, headers=headers).status_code == 403
    first = read(url, 1, headers={"Origin": base})
    assert json.loads(first[0]["data"])["workflow"]["name"] == "import"


@pytest.mark.parametrize(("app", "workflow"), [("types", "fetch"), ("imports", "export")])
def test_the_stream_of_all_has_no_status_of_workflows_that_are_not_served(
    queue: JobQueue, base: str, app: str, workflow: str
) -> None:
    position = queue.stream_position()
    enqueued(queue, workflow)
    run(queue, "fetch")
    assert without_progress(read(f"{base}/{app}/?after={position}", 1)) == [("event", "fetch", "seen")]
