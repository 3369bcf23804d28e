"""The report of a day."""

import psycopg

from depot import journal, mail, queue
from howdah import Job


@queue.job(name="example_draw")
def draw(job: Job, day: str) -> None:
    with psycopg.connect(queue.dsn) as conn:
        # One transaction: this job is completed, and the other two are there, or nothing of it has happened.
        mail.send.using(conn=conn).enqueue("boss@example.org", f"the report of {day}")
        journal.record.using(conn=conn).enqueue(what=f"the report of {day} was drawn")
        job.complete(conn=conn)
