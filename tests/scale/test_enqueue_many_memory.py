"""A bulk from a generator needs no more memory for a million jobs than for some thousands.

Scaled down unless HOWDAH_SCALE=full (`make scale`).
"""

from __future__ import annotations

import subprocess
import sys

from howdah import JobQueue
from tests.size import FULL

JOBS = 1_000_000 if FULL else 60_000
FEW = 10_000
MOST_MEGABYTES = 150
MOST_GROWTH = 10

SCRIPT = """
import re, sys, time
from pathlib import Path
import howdah

def peak():
    # Not getrusage's: that begins with what the process held that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

def bulk(name, jobs):
    return int(queue.enqueue_many(name, ({"n": n, "user": f"user-{n}"} for n in range(jobs))))

dsn, few, jobs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with howdah.JobQueue(dsn) as queue:
    bulk("few", few)
    early, began = peak(), time.perf_counter()
    count = bulk("bulk", jobs)
    seconds = time.perf_counter() - began
print(count, early, peak(), round(count / seconds))
"""


def test_a_bulk_from_a_generator_needs_little_memory(dsn: str, queue: JobQueue) -> None:
    output = subprocess.run(
        [sys.executable, "-c", SCRIPT, dsn, str(FEW), str(JOBS)], check=True, capture_output=True, text=True
    ).stdout
    count, early, megabytes, rate = map(int, output.split())
    print(f"{count:,} jobs, peak {megabytes} MB, {early} MB after {FEW:,}, {rate:,} jobs/s")
    assert count == JOBS
    assert megabytes < MOST_MEGABYTES
    assert megabytes - early < MOST_GROWTH
    assert queue.stats()["bulk"].pending == JOBS
    assert [job.data["n"] for job in queue.claim(["bulk"], 5)] == [0, 1, 2, 3, 4]
