"""A page that opens its stream before the job is committed: FastAPI ends a dependency's transaction after the response."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
from fastapi import Depends, FastAPI
from psycopg_pool import AsyncConnectionPool
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from howdah import Job, JobNotFound, JobQueue
from howdah.sse import EventStream
from tests.web.served import served

PAGES = 200

Conn = psycopg.AsyncConnection[Any]


class Watched(JobQueue):
    """A queue that records which jobs a page has not found."""

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self.missed: defaultdict[uuid.UUID, asyncio.Event] = defaultdict(asyncio.Event)

    async def aget(self, job: Any, *, conn: Any = None) -> Job[Any]:
        try:
            return await super().aget(job, conn=conn)
        except JobNotFound:
            self.missed[job].set()
            raise


def shop(queue: Watched) -> FastAPI:
    """An app that commits each job after its page has looked for it once."""

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncConnectionPool(queue.dsn, max_size=20, open=False, timeout=120) as app.state.pool:
            yield

    app = FastAPI(lifespan=lifespan)

    async def db() -> AsyncIterator[Conn]:
        async with app.state.pool.connection() as conn:
            yield conn
            (row,) = await (await conn.execute("SELECT current_setting('shop.job')::uuid")).fetchall()
            await queue.missed[row[0]].wait()

    @app.post("/orders")
    async def order(conn: Conn = Depends(db)) -> dict[str, str]:
        job = await queue.aenqueue("confirm", conn=conn)
        await conn.execute("SELECT set_config('shop.job', %s, true)", (str(job.id),))
        return {"job": str(job.id)}

    app.mount("/progress", EventStream(queue, commit_timeout=60))
    return app


def test_two_hundred_pages_that_are_opened_right_after_the_response_get_their_streams(dsn: str) -> None:
    async def page(web: httpx.AsyncClient, at_once: asyncio.Barrier) -> int:
        job = (await web.post("/orders")).json()["job"]
        async with web.stream("GET", f"/progress/{job}") as response:
            lines = response.aiter_lines()
            if response.status_code == 200:
                while not (await anext(lines)).startswith("event: progress"):
                    pass
            # All streams stay open until the last page has its own.
            await at_once.wait()
            return response.status_code

    async def visit(port: int) -> list[int]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120, limits=limits) as web:
            at_once = asyncio.Barrier(PAGES)
            return await asyncio.gather(*(page(web, at_once) for _ in range(PAGES)))

    with Watched(dsn) as queue, served(shop(queue)) as port:
        assert asyncio.run(visit(port)) == [200] * PAGES


def test_a_stream_that_waits_for_a_commit_does_not_hold_up_the_end_of_the_server(queue: JobQueue) -> None:
    waiting = threading.Event()

    def looked(scope: Any, job_id: uuid.UUID | None) -> bool:
        waiting.set()
        return True

    stream = EventStream(queue, authorize=looked, commit_timeout=3600)

    async def close(scope: Any, receive: Any, send: Any) -> None:
        stream.close()
        await PlainTextResponse("closed")(scope, receive, send)

    with served(Starlette(routes=[Mount("/close", close), Mount("/", stream)])) as port:
        base, answers = f"http://127.0.0.1:{port}", list[int]()

        def wait() -> None:
            answers.append(httpx.get(f"{base}/{uuid.UUID(int=7)}", timeout=120).status_code)

        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(60)
        httpx.get(f"{base}/close/")
        thread.join(60)
        assert answers == [503]
