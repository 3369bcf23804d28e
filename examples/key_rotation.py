"""Changes the key of an encrypted queue while jobs wait in it: nothing stops, and nothing is lost.

Needs the extra: pip install 'howdah[encryption]'
"""

from __future__ import annotations

import asyncio
from typing import Any

from howdah import Job, JobQueue, Unreadable
from howdah.encryption import EncryptedCodec, new_key

JOB_TYPE = "example_charge"


def queue_with(*keys: str) -> JobQueue:
    """A process that was given these keys: the first one encrypts, all of them decrypt."""
    queue = JobQueue(codec=EncryptedCodec(keys))

    @queue.job(name=JOB_TYPE)
    async def charge(card: str) -> str:
        return f"{card} was charged"

    return queue


def seen_by(queue: JobQueue, job: Job) -> str:
    data: Any = queue.get(job).data
    return "cannot be read" if isinstance(data, Unreadable) else f"card {data['card']}"


async def main() -> None:
    old, new = new_key(), new_key()
    async with queue_with(old) as before, queue_with(old, new) as between, queue_with(new, old) as after:
        first = before.enqueue(JOB_TYPE, {"card": "4242"})
        print(f"0. one key:             {seen_by(before, first)}")

        # Every process gets the new key too, as a second one: all can read it before the first one encrypts with it.
        second = between.enqueue(JOB_TYPE, {"card": "0005"})
        print(f"1. both, old one first: {seen_by(between, first)}, {seen_by(before, second)}")

        # Then the new one comes first. Processes that were not restarted yet can still read new jobs.
        third = after.enqueue(JOB_TYPE, {"card": "1117"})
        print(f"2. both, new one first: {seen_by(after, first)}, {seen_by(between, third)}")
        print(f"   without the new key: {seen_by(before, third)}")

        await after.run_worker(drain=True)
        for job in (first, second, third):
            print(f"   {after.get(job).result}")

        # After the retention, no value has the old key any more, and it can be removed.
        async with queue_with(new) as at_last:
            fourth = at_last.enqueue(JOB_TYPE, {"card": "9995"})
            print(f"3. the new one alone:   {seen_by(at_last, fourth)}, {seen_by(at_last, first)}")
            await at_last.run_worker(drain=True)


if __name__ == "__main__":
    asyncio.run(main())
