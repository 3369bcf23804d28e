"""The effect of a job and its completion in one transaction: both happen, or neither does."""

from __future__ import annotations

import psycopg

from howdah import JobQueue

JOB_TYPE = "example_transfer"


class PowerCut(Exception):
    """Stands for anything that ends a process between its effect and its commit."""


def transfer(queue: JobQueue, dsn: str, *, interrupted: bool) -> None:
    (job,) = queue.claim([JOB_TYPE], batch_size=1)
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE example_accounts SET balance = balance - %s", (job.data["amount"],))
        queue.complete(job, {"amount": job.data["amount"]}, conn=conn)
        if interrupted:
            raise PowerCut
    print(f"transferred: job {queue.get(job).status}")


def balance(dsn: str) -> int:
    with psycopg.connect(dsn) as conn:
        row = conn.execute("SELECT balance FROM example_accounts").fetchone()
    assert row is not None
    return int(row[0])


def main() -> None:
    with JobQueue() as queue:
        dsn = queue.dsn
        with psycopg.connect(dsn) as conn:
            conn.execute("DROP TABLE IF EXISTS example_accounts")
            conn.execute("CREATE TABLE example_accounts (balance int NOT NULL)")
            conn.execute("INSERT INTO example_accounts VALUES (100)")

        queue.enqueue(JOB_TYPE, {"amount": 30})
        try:
            transfer(queue, dsn, interrupted=True)
        except PowerCut:
            print(f"interrupted: nothing happened, the balance is {balance(dsn)}")

        # The dead claim is taken back: here at once, otherwise when its lease has passed.
        queue.recover_stale_jobs(0)
        transfer(queue, dsn, interrupted=False)
        print(f"the balance is {balance(dsn)}")

        with psycopg.connect(dsn) as conn:
            conn.execute("DROP TABLE example_accounts")


if __name__ == "__main__":
    main()
