"""Progress that can be watched: stages, counts, events, logs, and a checkpoint from which the next attempt goes on.

The same is to be seen in a terminal (howdah watch ID), in a browser (live_web_page.py) and in SQL.
"""

from __future__ import annotations

import asyncio
import logging

from howdah import Immediately, Job, JobQueue, Update

queue = JobQueue()
log = logging.getLogger("example")


@queue.job(name="example_import", retry=Immediately())
async def import_rows(job: Job, rows: int) -> str:
    # What the attempt before has kept; None in the first one.
    first = job.resumed["row"] if job.resumed else 0

    # A stage is a part of the job: this one takes it from 0 to 20 percent.
    with job.stage("download", weight=20):
        await asyncio.sleep(0.1)
        job.event("downloaded", rows=rows)

    # The other 80 percent. A report for every single row costs next to nothing: the worker writes it a few times a second.
    for row in job.track(range(first, rows), stage="load", done=first):
        if row % 100 == 0:
            # Returns when it is committed: whatever happens from here on, no row before this one is loaded again.
            await job.acheckpoint({"row": row})
            log.info("%d rows are safe", row)
        if row == 250 and job.attempts == 1:
            raise ConnectionError("the line was cut")
        await asyncio.sleep(0.001)
    return f"loaded from row {first} on, at attempt {job.attempts}"


def show(update: Update) -> None:
    match update.kind:
        case "event":
            print(f"attempt {update.attempt}: {update.name} {update.data}")
        case "log":
            print(f"attempt {update.attempt}: {update.name} {update.data['message']}")
        case "status":
            print(f"attempt {update.attempt}: {update.data['cause']}, and the job is {update.name}")
        case "progress":
            # Where it stands now: the newest there is, so that some in between may be left out.
            assert update.job is not None
            print(f"    {update.job.percent}% {update.job.current_stage or ''}")


async def main() -> None:
    async with queue:
        job = await import_rows.aenqueue(rows=500)
        worker = asyncio.create_task(queue.run_worker(drain=True))

        async for update in queue.awatch(job):
            show(update)

        await worker
        done = await queue.aget(job)
        print(done.result)
        assert done.record is not None
        print(f"attempts in its history: {sorted({point.attempt for point in done.record.history})}")
        # All of it stays, and can be read again.
        print(f"{len(await queue.aevents(job))} entries, {done.events_count} of them events of its handler")


if __name__ == "__main__":
    asyncio.run(main())
