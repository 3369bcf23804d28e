"""Work for the processor: in child processes, beside the event loop and beside each other.

A child process can also be killed. So can what runs in it: a handler that never ends, or one that takes
its process down, costs nothing but its own job.
"""

from __future__ import annotations

import asyncio
import os
import signal

from howdah import Job, JobQueue

# A child process imports this file and looks for its handlers at the top level, so that is where they are.
queue = JobQueue()


@queue.job(name="example_primes", process=True)
def count_primes(below: int, job: Job) -> dict[str, int]:
    """Plain Python that keeps a core busy. It can report how far it is, as every handler can."""
    found = 0
    for number in range(2, below):
        if number % 1_000 == 0:
            job.progress(100 * number // below)
        found += all(number % divisor for divisor in range(2, int(number**0.5) + 1))
    return {"primes": found, "pid": os.getpid()}


@queue.job(name="example_endless", process=True, timeout=0.5, max_attempts=1)
def never_ends() -> None:
    while True:
        pass


@queue.job(name="example_crash", process=True, max_crashes=1)
def takes_its_process_down() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    async with queue:
        numbers = [await count_primes.aenqueue(below=below) for below in (10_000, 20_000, 30_000)]
        bad = [await never_ends.aenqueue(), await takes_its_process_down.aenqueue()]

        # As many children as there are cores, without children=.
        await queue.run_worker(children=2, drain=True)

        for job in [await queue.aget(job) for job in numbers]:
            elsewhere = "in a child process" if job.result["pid"] != os.getpid() else "here"
            print(f"{job.result['primes']:,} primes below {job.data['below']:,}, counted {elsewhere}")
        for job in [await queue.aget(job) for job in bad]:
            print(f"{job.job_type}: {job.status}: {job.last_error}")


# The children import this file too: without this line each would start workers of its own.
if __name__ == "__main__":
    asyncio.run(main())
