"""A web page that shows a job's progress, live: Starlette, Server-Sent Events, and twenty lines of page.

Run as a program it plays the browser itself, and ends. To see the page, serve it in this folder:

    uvicorn live_web_page:app --timeout-graceful-shutdown 5

A browser that loses its connection reconnects by itself, sends the id of the last event, and misses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Mount, Route

from howdah import Job, JobQueue
from howdah.sse import EventStream

queue = JobQueue()

PAGE = """<!doctype html>
<title>A report</title>
<button onclick="start()">Make a report</button>
<progress id="bar" max="100" value="0"></progress> <span id="stage"></span>
<ul id="events"></ul>
<script>
async function start() {
  const { job } = await (await fetch("/reports", { method: "POST" })).json();
  const source = new EventSource("/progress/" + job);
  source.addEventListener("progress", message => {
    const { job } = JSON.parse(message.data);
    document.getElementById("bar").value = job.percent;
    document.getElementById("stage").textContent = job.current_stage ?? job.status;
  });
  source.addEventListener("event", message => {
    const { name, data } = JSON.parse(message.data);
    const item = document.createElement("li");
    item.textContent = `${name} ${data.page}`;
    document.getElementById("events").append(item);
  });
  source.addEventListener("end", () => source.close());
}
</script>
"""


@queue.job(name="example_report")
async def make_report(job: Job, pages: int) -> None:
    for page in job.track(range(1, pages + 1), stage="drawing"):
        await asyncio.sleep(0.3)
        job.event("drawn", page=page)


async def index(_: Request) -> HTMLResponse:
    return HTMLResponse(PAGE)


async def start(_: Request) -> JSONResponse:
    job = await make_report.aenqueue(pages=3)
    return JSONResponse({"job": str(job.id)}, status_code=201)


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    worker = queue.worker(concurrency=5)
    running = asyncio.create_task(worker.run())
    async with queue:
        yield
        worker.stop()
        await running


app = Starlette(
    routes=[
        Route("/", index),
        Route("/reports", start, methods=["POST"]),
        # Only jobs of this type are served. To restrict it further, pass authorize=, or use a middleware.
        Mount("/progress", EventStream(queue, types=["example_report"])),
    ],
    lifespan=lifespan,
)


def messages(stream: str) -> Iterator[dict[str, Any]]:
    """The messages of an event stream, as a browser would take them apart."""
    for block in stream.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            yield {**fields, "data": json.loads(fields["data"])}


async def main() -> None:
    # Instead of a server: the app is called in this process. Its client hands a stream over when that has ended.
    transport = httpx.ASGITransport(app=app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://localhost") as web,
    ):
        print(f"GET /: {(await web.get('/')).status_code}")
        job = (await web.post("/reports")).json()["job"]

        seen = list(messages((await web.get(f"/progress/{job}", timeout=30)).text))
        for message in seen:
            if message["event"] == "event":
                print(f"{message['data']['name']} {message['data']['data']['page']}")
        standing = next(each for each in reversed(seen) if each["event"] == "progress")["data"]["job"]
        print(f"{standing['percent']}%, {standing['status']}; then: {seen[-1]['event']}")

        # A connection that was lost behind the first of them:
        first = next(each for each in seen if each["event"] == "event")
        again = await web.get(f"/progress/{job}", headers={"Last-Event-ID": first["id"]})
        rest = [each["data"]["data"]["page"] for each in messages(again.text) if each["event"] == "event"]
        print(f"after page 1 was seen: pages {rest}")

        # A browser that has seen the end gets 204, so that it does not reconnect.
        last = [each["id"] for each in seen if "id" in each][-1]
        print(f"after the end: {(await web.get(f'/progress/{job}', headers={'Last-Event-ID': last})).status_code}")


if __name__ == "__main__":
    asyncio.run(main())
