"""Results: wait for one job or for many, get back what the handler returned, and its error where it failed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from howdah import Group, Job, JobFailed, JobQueue, NotEnded, WaitTimeout

queue = JobQueue()


@dataclass
class Thumbnail:
    picture: str
    width: int
    height: int


@queue.job(name="example_thumbnail", max_attempts=1)
async def make_thumbnail(job: Job, picture: str, width: int = 100) -> Thumbnail:
    for _ in job.track(range(10)):
        await asyncio.sleep(0.01)
    if picture.endswith(".txt"):
        raise ValueError(f"{picture} is not a picture")
    return Thumbnail(picture, width, width * 3 // 4)


async def main() -> None:
    async with queue:
        job = await make_thumbnail.aenqueue(picture="cat.png")

        # No worker runs yet.
        try:
            await job.await_for(timeout=0.1)
        except WaitTimeout:
            print("not yet; the job goes on")
        try:
            job.value()
        except NotEnded:
            print("no value yet")

        worker = queue.worker()
        running = asyncio.create_task(worker.run())

        # The value is what the function returned, and a type checker knows what that is.
        thumbnail = (await job.await_for(timeout=30)).value()
        print(f"{thumbnail.picture}: {thumbnail.width} x {thumbnail.height}")

        # Many at once, with the progress of all of them together.
        groups: list[Group] = []
        jobs = [await make_thumbnail.aenqueue(picture=f"{number}.png", width=number) for number in range(40, 60)]
        ended = await queue.await_for(jobs, timeout=30, on_progress=groups.append)
        print(f"{groups[-1].ended} of {groups[-1].total} have ended, {groups[-1].percent:.0f}%")
        print(f"in the order in which they were asked for: {[job.value().width for job in ended][:3]} …")

        # What it raised is an error here, too, with the traceback of the process in which it happened.
        failed = await make_thumbnail.aenqueue(picture="notes.txt")
        try:
            (await failed.await_for(timeout=30)).value()
        except JobFailed as error:
            print(f"{error.kind}: {error.error}")
            print((error.remote_traceback or "").splitlines()[-2].strip())

        worker.stop()
        await running


if __name__ == "__main__":
    asyncio.run(main())
