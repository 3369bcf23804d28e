"""Resources that a worker opens once and handlers ask for, and middleware around every handler."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from howdah import Job, JobQueue, resource


class MailServer:
    """Stands for a connection pool, a client with a session, a model in memory: dear to open, good to share."""

    def __init__(self) -> None:
        print("the mail server is connected")
        self.sent: list[str] = []

    def send(self, to: str) -> None:
        self.sent.append(to)

    def close(self) -> None:
        print(f"the mail server is disconnected, after {len(self.sent)} mails")


@contextlib.asynccontextmanager
async def lifespan(_: JobQueue) -> AsyncIterator[dict[str | type, Any]]:
    """Entered by each worker when it starts, and left when it has ended its last job."""
    server = MailServer()
    yield {MailServer: server, "sender": "shop@example.org"}
    server.close()


queue = JobQueue(lifespan=lifespan)


# Around every handler, the first one outermost: for logs, measurements, tracing, a tenant's settings.
@queue.middleware
async def measured(job: Job, call_next: Callable[[Job], Awaitable[Any]]) -> Any:
    began = time.perf_counter()
    try:
        return await call_next(job)
    finally:
        print(f"{job.job_type} took {'less' if time.perf_counter() - began < 60 else 'more'} than a minute")


@queue.job(name="example_mail")
async def send_mail(
    to: str,
    server: MailServer = resource(),  # by its type: no part of the job's data
    sender: str = resource("sender"),  # by its name
) -> str:
    server.send(to)
    return f"from {sender} to {to}"


async def main() -> None:
    async with queue:
        job = await send_mail.aenqueue(to="ann@example.org")
        await send_mail.aenqueue(to="bob@example.org")
        await queue.run_worker(drain=True)
        print((await queue.aget(job)).result)


if __name__ == "__main__":
    asyncio.run(main())
