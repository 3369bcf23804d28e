"""Strict order: one job of the type at a time, in order, across all workers, through retries and crashes.

It needs no worker of its own: here three compete, and every other type runs beside it.
"""

from __future__ import annotations

import asyncio

from howdah import Fixed, Job, JobQueue

queue = JobQueue()
at_once = 0
most_at_once = 0
ledger: list[str] = []


# pause_on_failure=True would stop the type when a job of it has failed for good, instead of going on.
@queue.job(name="example_ledger", ordered=True, retry=Fixed(0.2))
async def book(job: Job, entry: int) -> None:
    global at_once, most_at_once
    at_once += 1
    most_at_once = max(most_at_once, at_once)
    try:
        await asyncio.sleep(0.005)
        if entry == 3 and job.attempts == 1:
            # It backs off for 0.2 seconds. Meanwhile entry 4 is due, and waits for its turn.
            ledger.append("3 fails")
            raise ConnectionError("the ledger is locked")
        ledger.append(str(entry))
    finally:
        at_once -= 1


async def main() -> None:
    async with queue:
        ids = (await book.using().aenqueue_many(({"entry": number} for number in range(1, 9)), return_ids=True)).ids
        workers = [queue.worker(name=f"example-ordered-{number}") for number in (1, 2, 3)]
        running = [asyncio.create_task(worker.run()) for worker in workers]
        for id in ids or []:
            await queue.await_for(id, timeout=30)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)

    print(" → ".join(ledger))
    print(f"at once, at most: {most_at_once}")


if __name__ == "__main__":
    asyncio.run(main())
