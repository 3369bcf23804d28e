"""Many jobs at once: streamed from a generator, in one transaction or in chunks."""

from __future__ import annotations

from collections.abc import Iterator

from howdah import InvalidItem, JobQueue, Priority

JOB_TYPE = "example_reindex"


def pages(count: int) -> Iterator[dict[str, object]]:
    """Stands for a query or a file of any length: it is never in memory as a whole."""
    for number in range(count):
        yield {"page": number}


def pages_with_a_bad_one() -> Iterator[dict[str, object]]:
    yield from pages(250)
    yield {"page": float("nan")}


def main() -> None:
    with JobQueue() as queue:
        count = queue.enqueue_many(JOB_TYPE, pages(500), priority=Priority.BACKFILL)
        print(f"{count:,} jobs in one transaction")

        try:
            queue.enqueue_many(JOB_TYPE, pages_with_a_bad_one())
        except InvalidItem as error:
            print(f"item {error.index:,} was refused; {error.enqueued:,} jobs are in")

        try:
            queue.enqueue_many(JOB_TYPE, pages_with_a_bad_one(), chunk_size=100)
        except InvalidItem as error:
            print(f"in chunks: item {error.index:,} was refused; {error.enqueued:,} jobs are in")

        print(f"{queue.stats()[JOB_TYPE].pending:,} jobs wait")

        # Leave the queue as it was: this is an example.
        ended = 0
        while batch := queue.claim([JOB_TYPE], batch_size=500):
            for job in batch:
                queue.complete(job)
            ended += len(batch)
        print(f"{ended:,} jobs completed")


if __name__ == "__main__":
    main()
