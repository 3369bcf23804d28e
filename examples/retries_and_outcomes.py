"""How a job ends: retries and their policies, and the outcomes that a handler may return or raise besides a result."""

from __future__ import annotations

import asyncio
from uuid import UUID

from howdah import Cancel, Fail, Fixed, Job, JobQueue, Retry, Snooze

queue = JobQueue()
snoozed: set[UUID] = set()


class RateLimited(Exception):
    """The error of a service that asks its callers to wait."""


# Without retry=, the delay is 2 seconds, then 4, 8, … with some jitter: Exponential(). Here it is short.
# A dict of policies goes by the exception; give_up lists those after which another attempt is no use.
@queue.job(
    name="example_flaky",
    max_attempts=4,
    retry={RateLimited: Fixed(0.2), ConnectionError: Fixed(0.05)},
    give_up=[PermissionError],
)
async def flaky(job: Job, problem: str) -> str:
    if problem == "permission":
        raise PermissionError("the key is not valid any more")
    if job.attempts == 1:
        raise ConnectionError("the line was cut")
    if job.attempts == 2:
        raise RateLimited("too many requests")
    return f"done at attempt {job.attempts}"


# Outcomes can be returned or raised.
@queue.job(name="example_outcomes", max_attempts=2)
async def outcomes(job: Job, say: str) -> object:
    match say:
        case "retry" if job.attempts == 1:
            return Retry("the file is not there yet", delay=0.1)  # costs an attempt
        case "snooze" if job.id not in snoozed:
            snoozed.add(job.id)
            return Snooze(0.1)  # costs none
        case "cancel":
            raise Cancel("no longer wanted")
        case "fail":
            raise Fail("there is no such user")  # whatever attempts are left
    return {"said": say}


async def main() -> None:
    async with queue:
        jobs: list[Job] = [await flaky.aenqueue(problem=problem) for problem in ("network", "permission")]
        jobs += [await outcomes.aenqueue(say=say) for say in ("retry", "snooze", "cancel", "fail")]

        worker = queue.worker()
        running = asyncio.create_task(worker.run())
        for job in jobs:
            ended = await queue.await_for(job, timeout=30)
            name = " ".join(map(str, ended.data.values()))
            print(f"{name:<11} {ended.status:<10} attempts {ended.attempts}  {ended.result or ended.last_error}")
            for error in ended.errors:
                print(f"{'':<11} attempt {error.attempt}: {error.error}")
        worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
