"""The bare loop: our SQL functions as a worker calls them, without handlers, and without decoding anything.

A claim's ids and tokens come as two arrays, in PostgreSQL's own encoding, and go back as they are in the completion.
Each connection is a registered worker in a thread of its own, which spends its time in libpq.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

from psycopg import pq

from benchmarks import meter
from benchmarks.server import TYPE, Connection, Place

NAME = "bench-bare"
TEXT, BINARY = pq.Format.TEXT, pq.Format.BINARY

CLAIM = """
    SELECT array_agg(c.id), array_agg(c.token), (array_agg(c.run_at))[count(*)], (array_agg(c.id))[count(*)]
    FROM claim(
        p_worker_id => $1, p_incarnation => $2, p_job_types => ARRAY[$3::varchar], p_batch_size => $4, p_start => $5,
        p_cursor_types => ARRAY[$3::varchar], p_cursor_priorities => ARRAY[100],
        p_cursor_run_ats => ARRAY[$6::timestamptz], p_cursor_ids => ARRAY[$7::uuid]
    ) AS c
"""
START = "SELECT count(*) FROM start(p_ids => $1, p_tokens => $2)"
COMPLETE = "SELECT count(*) FROM complete(p_ids => $1, p_tokens => $2)"


class Batch(NamedTuple):
    """Claimed jobs: their ids and tokens as they came, and the place of the last one."""

    ids: bytes
    tokens: bytes
    run_at: bytes
    last_id: bytes


FRONT = Batch(b"", b"", b"\x80" + bytes(7), bytes(16))
"""Before any job: the smallest time and the smallest id, as they are sent."""


class Shape(NamedTuple):
    """How the loop goes."""

    connections: int = 1
    batch: int = 1_000
    start_apart: bool = False

    def __str__(self) -> str:
        apart = ", started apart" if self.start_apart else ""
        return f"{self.connections} × {self.batch}{apart}"


class Loop:
    """One connection's."""

    def __init__(self, place: Place, shape: Shape) -> None:
        self.conn: Connection = place.connect(NAME)
        self._boot = str(uuid.uuid4())
        # As long as the name of a real worker, because it is written into every row.
        self._name = f"bare-loop:{self._boot[:8]}"
        self._shape = shape
        # A lease that outlives the run stands for the heartbeats.
        self.conn.execute(
            "SELECT register_worker(p_worker_id => %s, p_incarnation => %s, p_lease => '1 day')",
            (self._name, self._boot),
        )
        for statement, text in (("claim", CLAIM), ("start", START), ("complete", COMPLETE)):
            self.conn.pgconn.prepare(statement.encode(), text.encode())

    def drain(self) -> None:
        """Until nothing is due: behind its cursor, and then from the front."""
        last = FRONT
        while (batch := self.claim(last)) or last is not FRONT:
            if batch:
                self.complete(batch)
            last = batch or FRONT

    def claim(self, last: Batch) -> Batch | None:
        size = str(self._shape.batch)
        options = [self._name, self._boot, TYPE, size, "0" if self._shape.start_apart else size]
        values = [*(option.encode() for option in options), last.run_at, last.last_id]
        answer = self._call("claim", values, [TEXT] * 5 + [BINARY] * 2)
        if answer.get_value(0, 0) is None:
            return None
        batch = Batch(*(answer.get_value(0, column) or b"" for column in range(4)))
        if self._shape.start_apart:
            self._call("start", [batch.ids, batch.tokens], [BINARY] * 2)
        return batch

    def complete(self, batch: Batch) -> None:
        self._call("complete", [batch.ids, batch.tokens], [BINARY] * 2)

    def _call(self, statement: str, values: Sequence[bytes], formats: Sequence[int]) -> pq.abc.PGresult:
        answer = self.conn.pgconn.exec_prepared(statement.encode(), values, formats, BINARY)
        if answer.status != pq.ExecStatus.TUPLES_OK:
            raise RuntimeError(f"{statement}: {answer.get_error_message()}")
        return answer


def run(place: Place, shape: Shape, task: Callable[[Loop], None] = Loop.drain) -> float:
    """Runs the loops side by side until all have ended. Returns the CPU seconds of their backends."""
    loops = [Loop(place, shape) for _ in range(shape.connections)]
    pids = [loop.conn.info.backend_pid for loop in loops]
    before = meter.cpu_seconds(pids)
    failures: list[BaseException] = []
    threads = [threading.Thread(target=_guarded, args=(task, loop, failures)) for loop in loops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = meter.cpu_seconds(pids) - before
    for loop in loops:
        loop.conn.close()
    meter.await_end_of(place, NAME)
    if failures:
        raise failures[0]
    return spent


def _guarded(task: Callable[[Loop], None], loop: Loop, failures: list[BaseException]) -> None:
    try:
        task(loop)
    except Exception as error:  # noqa: BLE001 - raised again by the waiting thread
        failures.append(error)
