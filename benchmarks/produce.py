"""Producers, as a program.

    HOWDAH_DSN=… python -m benchmarks.produce --connections 64 --seconds 5
    HOWDAH_DSN=… python -m benchmarks.produce --rate 5000 --seconds 600

With ``--connections``: so many sessions at once, each of which enqueues one job after the other, as fast as the server
commits them; the client does next to nothing, so that the server is what is measured. With ``--rate``: the client's
``enqueue_many``, in small bulks at an even pace, with the moment of each in its data. Either prints, as JSON, how many
jobs there were, in how many seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import threading
import time

import psycopg
from psycopg import pq

from benchmarks.program import end_with_parent
from benchmarks.server import PAYLOAD, TYPE
from howdah import JobQueue

ENQUEUE = "SELECT created FROM enqueue(p_job_type => $1, p_data => $2, p_alone => true)"
TICK = 0.02


class Session(threading.Thread):
    """A producer that enqueues until it is stopped."""

    def __init__(self, begin: threading.Event, end: threading.Event) -> None:
        super().__init__()
        self.jobs = 0
        self._begin, self._end = begin, end
        self._conn = psycopg.connect(os.environ["HOWDAH_DSN"], autocommit=True)
        self._conn.pgconn.prepare(b"enqueue", ENQUEUE.encode())

    def run(self) -> None:
        values = [TYPE.encode(), PAYLOAD.encode()]
        self._begin.wait()
        while not self._end.is_set():
            answer = self._conn.pgconn.exec_prepared(b"enqueue", values)
            if answer.status != pq.ExecStatus.TUPLES_OK:
                raise RuntimeError(answer.get_error_message())
            self.jobs += 1
        self._conn.close()


def from_many(connections: int, seconds: float) -> tuple[int, float]:
    begin, end = threading.Event(), threading.Event()
    sessions = [Session(begin, end) for _ in range(connections)]
    for session in sessions:
        session.start()
    began = time.monotonic()
    begin.set()
    time.sleep(seconds)
    end.set()
    for session in sessions:
        session.join()
    return sum(session.jobs for session in sessions), time.monotonic() - began


def evenly(rate: float, seconds: float) -> tuple[int, float]:
    began = due = time.monotonic()
    jobs = 0
    with JobQueue() as queue:
        while due < began + seconds:
            due += TICK
            time.sleep(max(due - time.monotonic(), 0))
            bulk = int((due - began) * rate) - jobs
            # When it was due, not when its turn came: a server that stalls the producer, too, must not look quick.
            queue.enqueue_many(TYPE, ({"sent": due} for _ in range(bulk)))
            jobs += bulk
    return jobs, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int)
    parser.add_argument("--rate", type=float, default=5_000)
    parser.add_argument("--seconds", type=float, default=5)
    args = parser.parse_args()
    end_with_parent()
    if args.connections:
        jobs, seconds = from_many(args.connections, args.seconds)
    else:
        jobs, seconds = evenly(args.rate, args.seconds)
    print(json.dumps({"jobs": jobs, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
