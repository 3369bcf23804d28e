"""The effect of a job and its completion in one transaction: both happen, or neither does.

Jobs run at least once: a worker may die after its handler's effect and before the job is marked as done.
Where the effect is in the same database, this makes it exactly once.
"""

from __future__ import annotations

import asyncio

import psycopg

from howdah import Immediately, Job, JobQueue

queue = JobQueue()


class PowerCut(Exception):
    """Stands for anything that ends an attempt between its effect and its commit."""


# A plain function: it runs in a thread, and may block.
@queue.job(name="example_transfer", retry=Immediately())
def transfer(job: Job, amount: int) -> None:
    with psycopg.connect(queue.dsn) as conn:
        conn.execute("UPDATE example_accounts SET balance = balance - %s", (amount,))
        # Part of this transaction. Once it has committed, the worker writes nothing more.
        job.complete({"transferred": amount}, conn=conn)
        if job.attempts == 1:
            raise PowerCut("the lights went out")
    print(f"attempt {job.attempts}: committed, the balance is {balance()}")


def balance() -> int:
    with psycopg.connect(queue.dsn) as conn:
        row = conn.execute("SELECT balance FROM example_accounts").fetchone()
    assert row is not None
    return int(row[0])


async def main() -> None:
    with psycopg.connect(queue.dsn) as conn:
        conn.execute("DROP TABLE IF EXISTS example_accounts")
        conn.execute("CREATE TABLE example_accounts (balance int NOT NULL)")
        conn.execute("INSERT INTO example_accounts VALUES (100)")
    async with queue:
        job = await transfer.aenqueue(amount=30)
        await queue.run_worker(drain=True)
        ended = await queue.aget(job)
    for error in ended.errors:
        print(f"attempt {error.attempt} was rolled back, job and balance: {error.error}")
    print(f"the job is {ended.status} with {ended.result}, and the balance is {balance()}")
    with psycopg.connect(queue.dsn) as conn:
        conn.execute("DROP TABLE example_accounts")


if __name__ == "__main__":
    asyncio.run(main())
