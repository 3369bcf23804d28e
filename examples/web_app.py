"""A web app that enqueues in its own transaction: an order and the job that confirms it.

Both are stored, or neither is: no job for an order that was rolled back, no order without its job.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import httpx
import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from howdah import JobQueue

queue = JobQueue()


@queue.job(name="example_confirm_order")
async def confirm_order(order: int) -> None:
    print(f"worker: the confirmation of order {order} is sent")


class OutOfStock(Exception):
    """Whatever is raised inside a transaction rolls it back, and with it what was enqueued there."""


async def place_order(request: Request) -> JSONResponse:
    item = (await request.json())["item"]
    try:
        # A connection of your own, from your own pool or ORM: of asyncpg, or an AsyncSession of SQLAlchemy, too.
        async with await psycopg.AsyncConnection.connect(queue.dsn) as conn:
            added = await conn.execute("INSERT INTO example_orders (item) VALUES (%s) RETURNING id", (item,))
            row = await added.fetchone()
            assert row is not None
            job = await confirm_order.using(conn=conn).aenqueue(order=row[0])
            if item == "unicorn":
                raise OutOfStock
    except OutOfStock:
        return JSONResponse({"error": f"we are out of {item}s"}, status_code=409)
    return JSONResponse({"order": row[0], "job": str(job.id)}, status_code=201)


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    """A small app may have its worker inside. A larger one runs it by itself: howdah work web_app:queue"""
    worker = queue.worker(concurrency=5)
    running = asyncio.create_task(worker.run())
    async with queue:
        yield
        worker.stop()
        await running


app = Starlette(routes=[Route("/orders", place_order, methods=["POST"])], lifespan=lifespan)


async def main() -> None:
    with psycopg.connect(queue.dsn) as conn:
        conn.execute("CREATE TABLE IF NOT EXISTS example_orders (id int GENERATED ALWAYS AS IDENTITY, item text)")
    # Instead of a server: the app is called in this process, so that the example ends by itself.
    transport = httpx.ASGITransport(app=app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url="http://app") as web:
        for item in ("teapot", "unicorn"):
            answer = await web.post("/orders", json={"item": item})
            print(f"POST {item}: {answer.status_code} {', '.join(answer.json())}")
            if "job" in answer.json():
                await queue.await_for(answer.json()["job"], timeout=30)
        jobs = (await queue.astats())["example_confirm_order"]
        print(f"jobs that wait for an order that is not there: {jobs.pending}")
    with psycopg.connect(queue.dsn) as conn:
        orders = conn.execute("SELECT item FROM example_orders").fetchall()
        conn.execute("DROP TABLE example_orders")
    print(f"orders: {', '.join(item for (item,) in orders)}")


if __name__ == "__main__":
    asyncio.run(main())
