"""A process that uses a queue, and forks: ``python -m tests.faults.forks CHILDREN JOBS``. Each process prints the jobs it has added.

With jobs on a loop of its own as well, because that has another pool.
"""

from __future__ import annotations

import asyncio
import os
import sys

from howdah import JobQueue


def main() -> None:
    children, jobs = int(sys.argv[1]), int(sys.argv[2])
    queue = JobQueue()
    add(queue, "parent", jobs)
    forked = [fork(queue, f"child {number}", jobs) for number in range(children)]
    add(queue, "parent", jobs)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in forked]
    # What they left behind has closed nothing of ours.
    add(queue, "parent", jobs)
    queue.close()
    sys.exit(max(codes))


def fork(queue: JobQueue, name: str, jobs: int) -> int:
    pid = os.fork()
    if pid == 0:
        add(queue, name, jobs)
        # As a child of multiprocessing does, which closes whatever is open.
        sys.exit(0)
    return pid


def add(queue: JobQueue, name: str, jobs: int) -> None:
    for _ in range(jobs):
        tell(queue.enqueue("work", {"seconds": 0}, meta={"process": name}).id)
    asyncio.run(add_on_a_loop(queue, name, jobs))


async def add_on_a_loop(queue: JobQueue, name: str, jobs: int) -> None:
    for _ in range(jobs):
        tell((await queue.aenqueue("work", {"seconds": 0}, meta={"process": name})).id)


def tell(id: object) -> None:
    os.write(1, f"{id}\n".encode())


if __name__ == "__main__":
    main()
