"""``python -m tests.worker.killed_steps DSN``: runs a handler of steps in processes that are killed at each of its round trips.

At each they are killed before the statement is sent, when it was sent, and when the server has answered, before the answer arrives
where it was asked for. The round trip and the moment are in the type of the job. The last job of all is not killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Generator
from typing import Any, Final

import psycopg
from psycopg.waiting import Ready, Wait

from howdah import Job, JobQueue
from howdah.db.plan import Plan
from howdah.worker.progress.tracker import Tracker
from howdah.worker.run.run import Run, RunServices

MOMENTS: Final = ("before", "sent", "answered")


class NoSink:
    def changed(self, tracker: Tracker) -> None: ...

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:
        return True

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:
        return True

    def rest(self, tracker: Tracker) -> Plan[None]:
        yield from ()


def order(job: Job, dsn: str) -> None:
    """Two effects in the transactions of their steps, one beside a step, and the completion in the last transaction."""
    with psycopg.connect(dsn) as conn:
        for name in ("reserve", "charge"):
            job.step(name, insert, job.job_type, name, conn=conn)
            conn.commit()
        job.step("notify", notify, job.job_type, dsn)
        job.step("ship", insert, job.job_type, "ship", conn=conn)
        job.complete("done", conn=conn)


def insert(job_type: str, name: str, conn: psycopg.Connection[Any]) -> str:
    conn.execute("INSERT INTO public.effects VALUES (%s, %s)", (job_type, name))
    return name


def notify(job_type: str, dsn: str) -> str:
    with psycopg.connect(dsn, autocommit=True) as conn:
        return insert(job_type, "notify", conn)


def attempt(queue: JobQueue, job: Job, dsn: str) -> None:
    """Calls the handler as a worker would."""
    handler = queue.handlers.get(job.job_type) or queue.job(name=job.job_type)(order)
    going = Run(handler, [job], RunServices({}, queue._context, queue._database, NoSink()))
    going.bind()
    order(job, dsn)


def die_at(round_trip: int, moment: str) -> None:
    """Kills this process at the n-th time that it would wait for the server."""
    wait, count = psycopg.Connection.wait, 0

    def counted(self: Any, *args: Any, **options: Any) -> Any:
        nonlocal count
        count += 1
        if count <= round_trip:
            return wait(self, *args, **options)
        if moment == "sent":
            send(self, *args)
        answer = wait(self, *args, **options) if moment == "answered" else None
        os.kill(os.getpid(), signal.SIGKILL)
        return answer

    psycopg.Connection.wait = counted  # type: ignore[method-assign]


def send(conn: psycopg.Connection[Any], gen: Generator[Any, Any, Any]) -> None:
    """Sends all of a statement, and reads nothing of the answer. There may be nothing to send, such as for a commit of nothing."""
    with contextlib.suppress(StopIteration):
        state = next(gen)
        while state & Wait.W:
            select.select([], [conn.fileno()], [])
            state = gen.send(Ready.W)


def type_of(round_trip: int, moment: str) -> str:
    return f"killed-{round_trip}-{moment}"


def in_a_child(dsn: str, round_trip: int, moment: str) -> int:
    """Claims the job and runs it. Returns how the process ended."""
    pid = os.fork()
    if pid == 0:
        try:
            with JobQueue(dsn) as queue:
                (job,) = queue.claim([type_of(round_trip, moment)])
                queue.start(job)
                die_at(round_trip, moment)
                attempt(queue, job, dsn)
                os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(dsn: str) -> None:
    """Prints how many points there were."""
    for round_trip in range(1000):
        for moment in MOMENTS:
            with JobQueue(dsn) as queue:
                queue.enqueue(type_of(round_trip, moment))
            ended = in_a_child(dsn, round_trip, moment)
            if ended == 0:
                print(round_trip)
                return
            assert ended == -signal.SIGKILL, (round_trip, moment, ended)


if __name__ == "__main__":
    main(*sys.argv[1:])
