"""A bulk from a generator needs no more memory for a million jobs than for some thousands.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

import os
import subprocess
import sys

from howdah import JobQueue

JOBS = 1_000_000 if os.environ.get("HOWDAH_SCALE") == "full" else 60_000
MOST_MEGABYTES = 150

SCRIPT = """
import resource, sys, time
import howdah

dsn, jobs = sys.argv[1], int(sys.argv[2])
with howdah.JobQueue(dsn) as queue:
    began = time.perf_counter()
    count = queue.enqueue_many("bulk", ({"n": n, "user": f"user-{n}"} for n in range(jobs)))
    seconds = time.perf_counter() - began
print(int(count), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, round(count / seconds))
"""


def test_a_bulk_from_a_generator_needs_little_memory(dsn: str, queue: JobQueue) -> None:
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT, dsn, str(JOBS)], check=True, capture_output=True, text=True
    ).stdout
    count, megabytes, rate = map(int, output.split())
    print(f"{count:,} jobs, peak {megabytes} MB, {rate:,} jobs/s")
    assert count == JOBS
    assert megabytes < MOST_MEGABYTES
    assert queue.stats()["bulk"].pending == JOBS
    assert [job.data["n"] for job in queue.claim(["bulk"], 5)] == [0, 1, 2, 3, 4]
