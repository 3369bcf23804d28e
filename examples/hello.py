"""The first handler: a function becomes a job type, a call becomes a job, and a worker runs it."""

from __future__ import annotations

import asyncio

from howdah import JobQueue

# Nothing is opened yet. The database is HOWDAH_DSN, else DATABASE_URL, else an embedded PostgreSQL.
queue = JobQueue()


@queue.job
async def say_hello(name: str, times: int = 1) -> str:
    """An async function runs on the worker's loop. A plain one (``def``) would run in a thread."""
    print(f"Hello, {name}!" * times)
    return f"{name} was greeted"


async def main() -> None:
    async with queue:
        # Arguments are checked against the annotations here, and again before the handler runs.
        job = await say_hello.aenqueue(name="Ada")
        await say_hello.aenqueue(name="Grace", times=2)
        later = await say_hello.using(delay=3600).aenqueue(name="Tomorrow")
        print(f"enqueued: job {(await queue.aget(job)).status}")

        # In production this is a process of its own: howdah work hello:queue
        report = await queue.run_worker(drain=True)
        print(f"the worker has drained the queue: {report.counts['completed']} completed")

        ended = await queue.aget(job)
        print(f"job {ended.status} after {ended.attempts} attempt: {ended.result!r}")
        print(f"the one for later is still {(await queue.aget(later)).status}")
        await queue.acancel(later, "this is only an example")


if __name__ == "__main__":
    asyncio.run(main())
