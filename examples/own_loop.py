"""A worker loop of your own: claims jobs in batches and runs them until there are none left.

A job that fails is tried again later. If this process dies, its jobs are recovered when their
lease has expired and a sweep runs: `queue.recover()` here, or `howdah recover` from cron.
"""

from __future__ import annotations

from collections import Counter

from howdah import Job, JobQueue, LeaseLost, Priority

JOB_TYPE = "example_resize"


def resize(queue: JobQueue, job: Job) -> dict[str, int]:
    """The work. It reports how far it is, which also renews the lease."""
    for percent in (25, 50, 75):
        queue.progress(job, percent, f"{percent}% of {job.data['picture']}")
    if job.data["picture"] == "broken.png" and job.attempts == 1:
        raise OSError("the picture could not be read")
    return {"bytes": 1000 * len(job.data["picture"])}


def run_one(queue: JobQueue, job: Job) -> str:
    try:
        queue.start(job)
        result = resize(queue, job)
        queue.complete(job, result)
        return "completed"
    except LeaseLost:
        # Another worker has the job by now, or it was cancelled: nothing was changed.
        return "lost"
    except Exception as error:  # noqa: BLE001 - whatever a job raises is that job's failure, not the loop's
        # With delay=0 the example need not wait; without it the retry policy sets the delay.
        status = queue.fail(job, error, delay=0)
        return f"failed, now {status}"


def main() -> None:
    with JobQueue() as queue:
        for picture in ("one.png", "two.png", "broken.png"):
            queue.enqueue(JOB_TYPE, {"picture": picture})
        queue.enqueue(JOB_TYPE, {"picture": "urgent.png"}, priority=Priority.EXPLICIT)

        outcomes: Counter[str] = Counter()
        while batch := queue.claim([JOB_TYPE], batch_size=2):
            for job in batch:
                outcome = run_one(queue, job)
                outcomes[outcome] += 1
                print(f"{job.data['picture']:<12} attempt {job.attempts}: {outcome}")
        queue.recover()
        print(dict(outcomes))


if __name__ == "__main__":
    main()
