"""The program of a worker process: ``python -m howdah.bench.worker_process``, started by ``crew`` and by nobody else."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final, Self

from howdah.bench import handlers
from howdah.bench.soak import handlers as soak
from howdah.bench.tally import Tally
from howdah.queue import JobQueue
from howdah.worker.event_loop import loop_factory

VARIABLE: Final = "HOWDAH_BENCH_WORKER"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a worker process is told, in its environment: no list of processes shows that, nor the password in it."""

    dsn: str
    schema: str
    types: tuple[str, ...]
    tally: int
    """The file of its tally, which it inherits."""
    options: Mapping[str, Any]

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    @classmethod
    def of_this_process(cls) -> Self:
        return cls(**json.loads(os.environ.pop(VARIABLE)))


def main() -> int:
    errand = Errand.of_this_process()
    threading.Thread(target=_end_with_the_bench, daemon=True).start()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_work(errand))


async def _work(errand: Errand) -> int:
    async with _queue(errand) as queue:
        report = await queue.run_worker(signals=True, types=errand.types, **errand.options)
    return report.exit_code


def _queue(errand: Errand) -> JobQueue:
    if set(errand.types) <= set(soak.queue.handlers):
        soak.queue.connect_to(errand.dsn, errand.schema)
        return soak.queue
    queue = JobQueue(errand.dsn, errand.schema)
    handlers.register(queue, Tally(errand.tally))
    return queue


def _end_with_the_bench() -> None:
    """However that ends: nobody writes into this pipe, and the kernel closes it."""
    # Not by sys.stdin: the end of the interpreter would wait for its lock.
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
