"""The stream for browsers, as an HTTP client sees it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from howdah import Job, JobQueue
from howdah.sse import EventStream
from tests.web.served import served

Message = dict[str, str]


def messages(response: httpx.Response) -> Iterator[Message]:
    message: Message = {}
    for line in response.iter_lines():
        name, _, value = line.partition(": ")
        if line:
            message[name] = value
        elif message:
            if "data" in message:
                yield message
            message = {}


def read(url: str, count: int, **options: Any) -> list[Message]:
    """The first messages of a stream."""
    with httpx.stream("GET", url, timeout=120, **options) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        stream = messages(response)
        return [next(stream) for _ in range(count)]


@pytest.fixture
def base(queue: JobQueue) -> Iterator[str]:
    app = Starlette(routes=[Mount("/progress", EventStream(queue, commit_timeout=0))])
    with served(app) as port:
        yield f"http://127.0.0.1:{port}/progress"


def running(queue: JobQueue, job_type: str = "import") -> Job:
    queue.enqueue(job_type, {"secret": "payload"})
    (job,) = queue.claim([job_type], 1)
    queue.start(job)
    return job


def test_a_job_is_streamed_until_it_has_ended(queue: JobQueue, base: str) -> None:
    job = running(queue)
    queue.progress(job, 40, "loading")
    queue.event(job, "row", {"n": 1})
    queue.complete(job, {"secret": "result"})
    with httpx.stream("GET", f"{base}/{job.id}", timeout=120) as response:
        seen = list(messages(response))
    kinds = [message["event"] for message in seen]
    assert kinds[0] == "progress"
    assert kinds[-1] == "end"
    rows = [json.loads(message["data"]) for message in seen if message["event"] == "event"]
    assert [(row["name"], row["data"]) for row in rows] == [("row", {"n": 1})]
    last = json.loads(seen[-2]["data"])["job"]
    assert (last["status"], last["percent"]) == ("completed", 100)


def test_neither_payload_nor_result_nor_error_nor_log_reaches_the_browser(queue: JobQueue, base: str) -> None:
    job = running(queue)
    queue.fail(job, "secret error", give_up=True)
    with httpx.stream("GET", f"{base}/{job.id}?kinds=log,event,status,progress", timeout=120) as response:
        assert "secret" not in response.read().decode()


def test_it_goes_on_where_it_was_cut_off(queue: JobQueue, base: str) -> None:
    job = running(queue)
    for n in range(5):
        queue.event(job, "row", {"n": n})
    seen = read(f"{base}/{job.id}?kinds=event", 3)
    queue.complete(job)
    resumed = {"last-event-id": seen[-1]["id"]}
    with httpx.stream("GET", f"{base}/{job.id}?kinds=event", headers=resumed, timeout=120) as response:
        seen += [message for message in messages(response) if message["event"] == "event"]
    assert [json.loads(message["data"])["data"]["n"] for message in seen] == [0, 1, 2, 3, 4]


def test_a_reconnect_after_the_end_gets_204(queue: JobQueue, base: str) -> None:
    job = running(queue)
    queue.complete(job)
    with httpx.stream("GET", f"{base}/{job.id}", timeout=120) as response:
        end = [message["id"] for message in messages(response) if "id" in message][-1]
    assert httpx.get(f"{base}/{job.id}", headers={"last-event-id": end}).status_code == 204


def test_all_jobs_of_some_types_are_streamed_and_resumed(queue: JobQueue, base: str) -> None:
    mail, other = running(queue, "mail"), running(queue, "other")
    start = queue.stream_position()
    for job in (mail, other, mail):
        queue.event(job, "told", {"type": job.job_type})
    url = f"{base}/?types=mail&kinds=event"
    first = read(url, 1, params={"types": "mail", "kinds": "event", "after": start})
    second = read(url, 1, headers={"last-event-id": first[0]["id"]})
    both = [json.loads(message["data"]) for message in first + second]
    assert [each["job_type"] for each in both] == ["mail", "mail"]
    assert first[0]["id"] != second[0]["id"]


def test_a_stream_without_events_already_has_an_id_to_resume_from(queue: JobQueue, base: str) -> None:
    job = running(queue)
    with httpx.stream("GET", f"{base}/?kinds=event", timeout=120) as response:
        lines = response.iter_lines()
        place = next(line.removeprefix("id: ") for line in lines if line.startswith("id: "))
    queue.event(job, "meanwhile")
    (message,) = read(f"{base}/?kinds=event", 1, headers={"last-event-id": place})
    assert json.loads(message["data"])["name"] == "meanwhile"


def test_an_unusable_position_sends_a_reset_and_the_stream_continues(queue: JobQueue, base: str) -> None:
    job = running(queue)
    with httpx.stream("GET", f"{base}/?kinds=event", headers={"last-event-id": "99"}, timeout=120) as response:
        stream = messages(response)
        assert next(stream)["event"] == "reset"
        queue.event(job, "after")
        assert json.loads(next(stream)["data"])["name"] == "after"


@pytest.mark.parametrize(
    ("path", "status"),
    [(f"/{uuid.UUID(int=7)}", 404), ("/favicon.ico", 404), ("/?kinds=rumours", 400), ("/?kinds=log", 400)],
)
def test_what_is_not_there_is_refused(base: str, path: str, status: int) -> None:
    assert httpx.get(f"{base}{path}").status_code == status


def test_a_bad_position_of_one_job_resets_the_stream_to_its_beginning(queue: JobQueue, base: str) -> None:
    job = running(queue)
    queue.event(job, "row")
    seen = read(f"{base}/{job.id}?after=7:7:@7&kinds=event", 2)
    assert [message["event"] for message in seen] == ["reset", "event"]


@pytest.mark.parametrize(
    "position", ["nonsense", "1-", "-1", "1;2", "7:7@7", "1" * 20_000, "7:7:" + "1," * 10_000 + "@7", "é"]
)
@pytest.mark.parametrize("path", ["/", f"/{uuid.UUID(int=7)}"])
def test_what_cannot_be_a_position_is_refused(base: str, path: str, position: str) -> None:
    by_query = httpx.get(f"{base}{path}", params={"after": position}, timeout=30)
    by_header = httpx.get(f"{base}{path}", headers=[(b"last-event-id", position.encode("latin-1"))], timeout=30)
    for answer in (by_query, by_header):
        assert (answer.status_code, answer.text.startswith("this is not a position")) == (400, True)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "localhost:8000"}, 200),
        ({"host": "web.localhost"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "evil.example"}, 403),
        ({"host": "localhost.evil.example:80"}, 403),
        ({"host": "localhost@evil.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "jobs.example.com"}, 200),
        ({"host": "JOBS.example.com:8443"}, 200),
        ({"host": "jobs.example.com", "origin": "https://jobs.example.com"}, 200),
        ({"host": "jobs.example.com", "origin": "https://www.example.com", "sec-fetch-site": "same-site"}, 200),
        ({"host": "jobs.example.com", "origin": "https://evil.example"}, 403),
        ({"host": "jobs.example.com", "origin": "null"}, 403),
        ({"host": "jobs.example.com", "origin": "http://[::1"}, 403),
        ({"host": "jobs.example.com", "sec-fetch-site": "same-origin"}, 200),
        ({"host": "jobs.example.com", "sec-fetch-site": "none"}, 200),
        ({"host": "jobs.example.com", "sec-fetch-site": "same-site"}, 403),
        ({"host": "jobs.example.com", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_only_known_hosts_are_served_and_only_to_known_origins(
    queue: JobQueue, headers: dict[str, str], status: int
) -> None:
    stream = EventStream(queue, hosts=["jobs.example.com"], origins=["https://www.example.com/"])
    with served(stream) as port:
        answer = httpx.head(f"http://127.0.0.1:{port}/", headers=headers)
    assert answer.status_code == status
    assert answer.headers.get("access-control-allow-origin") == (headers.get("origin") if status == 200 else None)


def test_a_refusal_names_the_option_to_set(queue: JobQueue) -> None:
    with served(EventStream(queue)) as port:
        url = f"http://127.0.0.1:{port}/"
        assert "EventStream(hosts=" in httpx.get(url, headers={"host": "jobs.example.com"}).text
        assert "EventStream(origins=" in httpx.get(url, headers={"origin": "https://www.example.com"}).text


def test_any_host_and_any_origin_can_be_asked_for(queue: JobQueue) -> None:
    with served(EventStream(queue, hosts=["*"], origins=["*"])) as port:
        headers = {"host": "whatever.example", "origin": "null", "sec-fetch-site": "cross-site"}
        assert httpx.head(f"http://127.0.0.1:{port}/", headers=headers).status_code == 200


def test_a_stream_without_updates_is_answered_at_once(queue: JobQueue) -> None:
    job = running(queue)
    with served(EventStream(queue, max_streams=1)) as port:
        url = f"http://127.0.0.1:{port}/{job.id}?kinds=event"
        with httpx.stream("GET", url, timeout=120) as response:
            assert response.status_code == 200
        # A client that disconnects while there are no updates frees its stream.
        while httpx.head(url).status_code == 503:
            pass


def test_a_stream_of_events_only_has_the_end_too(queue: JobQueue, base: str) -> None:
    job = running(queue)
    queue.event(job, "row")
    queue.complete(job)
    row, end = read(f"{base}/{job.id}?kinds=event", 2)
    assert (row["event"], end["event"]) == ("event", "end")
    again = httpx.get(f"{base}/{job.id}?kinds=event", headers={"last-event-id": end["id"]})
    assert again.status_code == 204


def test_during_an_outage_a_browser_gets_a_retry_and_others_a_503(tmp_path: Path) -> None:
    with JobQueue(f"host={tmp_path} dbname=gone", timeout=1) as queue, served(EventStream(queue)) as port:
        url = f"http://127.0.0.1:{port}/{uuid.UUID(int=7)}"
        browser = httpx.get(url, headers={"accept": "text/event-stream"}, timeout=120)
        assert (browser.status_code, browser.text) == (200, "retry: 5000\n\n")
        assert httpx.get(url, timeout=120).status_code == 503


def test_streams_can_be_ended_so_that_the_server_can_stop(queue: JobQueue) -> None:
    job = running(queue)
    stream = EventStream(queue)

    async def close(scope: Any, receive: Any, send: Any) -> None:
        stream.close()
        await PlainTextResponse("closed")(scope, receive, send)

    app = Starlette(routes=[Mount("/close", close), Mount("/", stream)])
    with served(app) as port:
        base = f"http://127.0.0.1:{port}"
        with httpx.stream("GET", f"{base}/{job.id}", timeout=120) as response:
            seen = messages(response)
            next(seen)
            assert httpx.get(f"{base}/close/").text == "closed"
            assert list(seen) == []
        assert httpx.get(f"{base}/{job.id}").status_code == 503


def test_nothing_but_get_is_answered(base: str) -> None:
    assert httpx.post(base + "/").status_code == 405
    assert httpx.head(base + "/").status_code == 200


def test_an_app_can_restrict_readers_and_types(queue: JobQueue) -> None:
    job, other = running(queue), running(queue, "other")

    async def authorize(scope: Any, job_id: uuid.UUID | None) -> bool:
        return (b"authorization", b"let me in") in scope["headers"] and job_id is not None

    with served(EventStream(queue, types=["import"], authorize=authorize, commit_timeout=0)) as port:
        base, let_in = f"http://127.0.0.1:{port}", {"authorization": "let me in"}
        assert httpx.get(f"{base}/{job.id}").status_code == 403
        assert httpx.get(f"{base}/", headers=let_in).status_code == 403
        assert httpx.get(f"{base}/{other.id}", headers=let_in).status_code == 404
        assert read(f"{base}/{job.id}", 1, headers=let_in)[0]["event"] == "progress"


def test_there_is_a_limit_to_the_streams_that_are_open(queue: JobQueue) -> None:
    job = running(queue)
    with served(EventStream(queue, max_streams=1)) as port:
        url = f"http://127.0.0.1:{port}/{job.id}"
        with httpx.stream("GET", url, timeout=120) as response:
            stream = messages(response)
            next(stream)
            assert httpx.get(url).status_code == 503
        # When the first has gone, there is room again.
        while httpx.head(url).status_code == 503:
            pass


def test_silence_is_filled_with_comments(queue: JobQueue) -> None:
    job = running(queue)
    with (
        served(EventStream(queue, keepalive=0.05)) as port,
        httpx.stream("GET", f"http://127.0.0.1:{port}/{job.id}", timeout=120) as response,
    ):
        assert next(line for line in response.iter_lines() if line.startswith(":")) == ": still here"
