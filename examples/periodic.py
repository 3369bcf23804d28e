"""Jobs that come again and again: declared in code, or made at run time.

Each fire happens exactly once, however many workers there are: this example runs two.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from howdah import Job, JobQueue

queue = JobQueue()
beats: Counter[object] = Counter()
enough = asyncio.Event()


# Workers store it in the database when they start. Instead of every=1 it may be a cron expression, such as
# "*/5 * * * *", by the wall clock of timezone="Europe/Berlin"; with six fields, the first is seconds.
@queue.periodic(every=1, name="example pulse")
@queue.job(name="example_pulse")
async def pulse(job: Job) -> None:
    beats[job.run_at] += 1
    if len(beats) == 2:
        enough.set()


@queue.job(name="example_report")
async def report(about: str) -> None:
    print(f"a report about {about}")


async def main() -> None:
    async with queue:
        # At run time: creates the schedule, or changes the one of this name.
        nightly = await queue.schedules.aset(
            "example nightly", "example_report", {"about": "sales"}, cron="30 2 * * *", timezone="Europe/Berlin"
        )
        print(f"{nightly.name} is stored: {nightly.cron} in {nightly.timezone}")

        workers = [queue.worker(name=f"example-periodic-{number}", poll=0.5) for number in (1, 2)]
        running = [asyncio.create_task(worker.run()) for worker in workers]

        # Not at night, but now. The rhythm goes on as if nothing had been.
        await queue.await_for(await queue.schedules.arun("example nightly"), timeout=30)

        await asyncio.wait_for(enough.wait(), timeout=30)
        await queue.schedules.apause("example pulse")
        last = (await queue.schedules.aget("example pulse")).last_job_id
        assert last is not None
        await queue.await_for(last, timeout=30)
        for worker in workers:
            worker.stop()
        await asyncio.gather(*running)
        print(f"two workers, and for each fire of the pulse {max(beats.values())} job")

        for name in ("example nightly", "example pulse"):
            await queue.schedules.adelete(name)
        left = [each.name for each in await queue.schedules.alist() if each.name.startswith("example ")]
        print(f"schedules left behind: {len(left)}")


if __name__ == "__main__":
    asyncio.run(main())
