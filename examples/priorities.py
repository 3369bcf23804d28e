"""Priorities: what is urgent goes first, however late it comes and however much waits before it."""

from __future__ import annotations

import asyncio
from itertools import groupby

from howdah import JobQueue, Priority

queue = JobQueue()
ran: list[tuple[str, int]] = []


# The priority is the type's: every job has it, unless it is enqueued with another.
@queue.job(name="example_reindex", priority=Priority.BACKFILL)
async def reindex(page: int) -> None:
    if page == 2:
        # A user waits for this one. Even with millions before it, it is the next to start.
        await send_invoice.using(priority=1_000).aenqueue(invoice=99)
    await work("reindex", page)


@queue.job(name="example_resize")
async def resize(photo: int) -> None:
    """No priority is set, so it is Priority.DISCOVERED: 100."""
    await work("resize", photo)


@queue.job(name="example_invoice", priority=Priority.EXPLICIT)
async def send_invoice(invoice: int) -> None:
    await work("the late invoice" if invoice == 99 else "invoice", invoice)


async def work(name: str, number: int) -> None:
    """Takes a moment. Of jobs that take less, a worker has up to a tenth of a second's worth at hand."""
    ran.append((name, number))
    await asyncio.sleep(0.11)


async def main() -> None:
    async with queue:
        # The least urgent first: the order in which they are enqueued does not matter.
        await reindex.aenqueue_many({"page": number} for number in range(5))
        await resize.aenqueue_many({"photo": number} for number in range(2))
        await send_invoice.aenqueue_many({"invoice": number} for number in range(2))

        # One at a time, so that the order can be seen. With fair_share=0.1 every tenth place would go to
        # whatever has waited longest, so that nothing starves under a stream of urgent jobs.
        await queue.run_worker(concurrency=1, drain=True)

    print("in the order in which they ran:")
    for name, group in groupby(ran, key=lambda run: run[0]):
        print(f"{name}: {', '.join(str(number) for _, number in group)}")


if __name__ == "__main__":
    asyncio.run(main())
