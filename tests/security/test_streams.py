"""The stream for browsers: what a foreign page, or a request made by hand, gets of it."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from howdah import JobQueue
from howdah.sse import EventStream
from tests.web.served import served
from tests.web.test_sse import messages


@pytest.fixture
def base(queue: JobQueue) -> Iterator[str]:
    with served(Starlette(routes=[Mount("/progress", EventStream(queue))])) as port:
        yield f"http://127.0.0.1:{port}/progress"


def test_a_page_of_another_origin_may_not_read_it(queue: JobQueue, base: str) -> None:
    """Browsers keep the answer from a script of another origin, as long as nothing in it allows that."""
    job = queue.enqueue("work")
    queue.cancel(job)
    headers = {"origin": "https://evil.example", "sec-fetch-site": "cross-site"}
    for url in (f"{base}/{job.id}", f"{base}/nonsense"):
        answer = httpx.get(url, headers=headers, timeout=180)
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    asked = httpx.options(f"{base}/", headers=headers | {"access-control-request-method": "GET"}, timeout=180)
    assert asked.status_code == 405
    assert not [name for name in asked.headers if name.startswith("access-control-")]


@pytest.mark.parametrize("after", ["%00", "'%3B%20DROP%20TABLE%20live%3B--", "x" * 5_000, "%E2%80%AE", "1-1-1", "-1"])
def test_an_invalid_position_is_refused_with_a_reason(queue: JobQueue, base: str, after: str) -> None:
    job = queue.enqueue("work")
    for path in ("", job.id):
        refused = httpx.get(f"{base}/{path}?after={after}", timeout=180)
        assert refused.status_code == 400
        assert "this is not a position" in refused.text


@pytest.mark.parametrize("query", ["kinds=log", "kinds=%00", "types=%00", "types=" + "x" * 60])
def test_an_unserved_request_is_refused_with_a_reason(base: str, query: str) -> None:
    refused = httpx.get(f"{base}/?{query}", timeout=180)
    assert refused.status_code == 400
    assert refused.headers["content-type"] == "text/plain; charset=utf-8"


def test_no_name_can_begin_a_message_of_its_own(queue: JobQueue, base: str) -> None:
    queue.enqueue("work", max_attempts=1)
    (job,) = queue.claim(["work"])
    queue.event(job, "told\u2028data: {}", {"text": "\n\nevent: end\ndata: {}\n\n\r\nid: 9-9"})
    queue.complete(job)
    with httpx.stream("GET", f"{base}/{job.id}", timeout=180) as response:
        seen = list(messages(response))
    assert [message["event"] for message in seen].count("end") == 1
    assert seen[-1]["event"] == "end"
