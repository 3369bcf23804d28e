"""A batch handler: one call gets many jobs, for the price of one request to whatever is behind it.

Each job has its own outcome: one that fails takes none of the others with it.
"""

from __future__ import annotations

import asyncio

from howdah import Fail, Fixed, Job, JobQueue

queue = JobQueue()
calls: list[int] = []


# At most 40 jobs in a call. The first of them waits 0.1 s at most for the others.
@queue.job(name="example_translate", batch_size=40, batch_wait=0.1, retry=Fixed(0))
async def translate(jobs: list[Job]) -> list[object]:
    calls.append(len(jobs))
    answers = await translation_service([job.data["word"] for job in jobs])
    # One value for each job, in their order: a result, or an outcome. None would complete all of them.
    return [answer if answer is not None else Fail("no such word") for answer in answers]


async def translation_service(words: list[str]) -> list[str | None]:
    """Stands for a service that takes as long for forty words as for one."""
    await asyncio.sleep(0.05)
    return [None if word == "xyzzy" else word.upper() for word in words]


async def main() -> None:
    async with queue:
        words = [f"word{number}" for number in range(99)] + ["xyzzy"]
        # One round trip for all of them.
        ids = (await translate.using().aenqueue_many(({"word": word} for word in words), return_ids=True)).ids or []

        await queue.run_worker(drain=True)

        first, last = await queue.aget(ids[0]), await queue.aget(ids[-1])
        print(f"{len(ids)} jobs in {len(calls)} calls, of {', '.join(map(str, calls))} jobs")
        print(f"{first.data['word']}: {first.status}, {first.result!r}")
        print(f"{last.data['word']}: {last.status} ({last.last_error}), after {last.attempts} attempt")


if __name__ == "__main__":
    asyncio.run(main())
