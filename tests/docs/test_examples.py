"""The examples run against a real PostgreSQL, show their documented output, end by themselves, and can be run again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from howdah import JobQueue
from tests.docs.pages import ROOT

SHOWS = {
    "hello": (
        "enqueued: job pending",
        "Hello, Ada!",
        "Hello, Grace!Hello, Grace!",
        "the worker has drained the queue: 2 completed",
        "job completed after 1 attempt: 'Ada was greeted'",
        "the one for later is still pending",
    ),
    "priorities": (
        "in the order in which they ran:",
        "invoice: 0, 1",
        "resize: 0, 1",
        "reindex: 0, 1, 2",
        "the late invoice: 99",
        "reindex: 3, 4",
    ),
    "retries_and_outcomes": (
        "network     completed  attempts 3  done at attempt 3",
        "            attempt 1: ConnectionError: the line was cut",
        "            attempt 2: RateLimited: too many requests",
        "permission  failed     attempts 1  PermissionError: the key is not valid any more",
        "            attempt 1: PermissionError: the key is not valid any more",
        "retry       completed  attempts 2  {'said': 'retry'}",
        "            attempt 1: the file is not there yet",
        "snooze      completed  attempts 1  {'said': 'snooze'}",
        "cancel      cancelled  attempts 1  no longer wanted",
        "fail        failed     attempts 1  there is no such user",
        "            attempt 1: there is no such user",
    ),
    "periodic": (
        "example nightly is stored: 30 2 * * * in Europe/Berlin",
        "a report about sales",
        "two workers, and for each fire of the pulse 1 job",
        "schedules left behind: 0",
    ),
    "web_app": (
        "POST teapot: 201 order, job",
        "worker: the confirmation of order 1 is sent",
        "POST unicorn: 409 error",
        "jobs that wait for an order that is not there: 0",
        "orders: teapot",
    ),
    "progress_and_events": (
        "attempt 1: downloaded {'rows': 500}",
        "attempt 1: INFO 200 rows are safe",
        "attempt 1: failed, and the job is pending",
        "attempt 2: downloaded {'rows': 500}",
        "attempt 2: INFO 200 rows are safe",
        "attempt 2: completed, and the job is completed",
        "    100% load",
        "loaded from row 200 on, at attempt 2",
        "attempts in its history: [1, 2]",
        "10 entries, 2 of them events of its handler",
    ),
    "waiting_for_results": (
        "not yet; the job goes on",
        "no value yet",
        "cat.png: 100 x 75",
        "20 of 20 have ended, 100%",
        "in the order in which they were asked for: [40, 41, 42] …",
        "failed: ValueError: notes.txt is not a picture",
        'raise ValueError(f"{picture} is not a picture")',
    ),
    "live_web_page": (
        "GET /: 200",
        "drawn 1",
        "drawn 2",
        "drawn 3",
        "100%, completed; then: end",
        "after page 1 was seen: pages [2, 3]",
        "after the end: 204",
    ),
    "transactional_completion": (
        "attempt 2: committed, the balance is 70",
        "attempt 1 was rolled back, job and balance: PowerCut: the lights went out",
        "the job is completed with {'transferred': 30}, and the balance is 70",
    ),
    "batch_handler": (
        "100 jobs in 3 calls, of 40, 40, 20 jobs",
        "word0: completed, 'WORD0'",
        "xyzzy: failed (no such word), after 1 attempt",
    ),
    "cpu_in_processes": (
        "1,229 primes below 10,000, counted in a child process",
        "2,262 primes below 20,000, counted in a child process",
        "3,245 primes below 30,000, counted in a child process",
        "example_endless: failed: timed out after 0.5 s",
        "example_crash: failed: the child process that ran the job was killed by SIGKILL (worker died once)",
    ),
    "resources_and_middleware": (
        "the mail server is connected",
        "example_mail took less than a minute",
        "example_mail took less than a minute",
        "the mail server is disconnected, after 2 mails",
        "from shop@example.org to ann@example.org",
    ),
    "workflow": (
        "an editor reads about a workflow: True",
        "the workflow has failed: node translate failed",
        "list       completed  1 of 1",
        "translate  failed     4 of 4",
        "bind       skipped    1 of 1 not needed: translate failed",
        "tell       completed  1 of 1",
        "2 nodes run again",
        "the workflow has completed, 7 jobs have completed",
        "bind       completed  1 of 1",
        "bound: Emma 1, Emma 2, Emma 3, Emma 4",
    ),
    "ordered": (
        "1 → 2 → 3 fails → 3 → 4 → 5 → 6 → 7 → 8",
        "at once, at most: 1",
    ),
    "bulk_enqueue": (
        "500 jobs in one transaction",
        "item 250 was refused; 0 jobs are in",
        "in chunks: item 250 was refused; 200 jobs are in",
        "700 jobs wait",
        "700 jobs completed",
    ),
    "several_modules": (
        "to boss@example.org: the report of Monday",
        "types of the queue: example_draw, example_send",
        "recorded: the report of Monday was drawn",
        "types of the audit: example_record",
    ),
    "key_rotation": (
        "0. one key:             card 4242",
        "1. both, old one first: card 4242, card 0005",
        "2. both, new one first: card 4242, card 1117",
        "   without the new key: cannot be read",
        "   4242 was charged",
        "   0005 was charged",
        "   1117 was charged",
        "3. the new one alone:   card 9995, cannot be read",
    ),
    "own_loop": (
        "urgent.png   attempt 1: completed",
        "broken.png   attempt 1: failed, now pending",
        "broken.png   attempt 2: completed",
        "{'completed': 4, 'failed, now pending': 1}",
    ),
}
"""What each example prints, among other things and in this order: what its reader would miss."""

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_shows_its_output_and_runs_again(example: Path, dsn: str, tmp_path: Path) -> None:
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "error", str(example)],
            env={**os.environ, "HOWDAH_DSN": dsn},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        printed = iter(done.stdout.splitlines())
        for line in SHOWS[example.stem]:
            assert line in printed, f"{line!r} is missing, or not in its place, in:\n{done.stdout}\n{done.stderr}"
        # What the worker logs of jobs that are meant to fail, and nothing else.
        assert all(line.startswith("example_") for line in done.stderr.splitlines()), done.stderr
    with JobQueue(dsn) as queue:
        total = queue.stats().total
        assert (total.pending, total.claimed, total.running) == (0, 0, 0), "it leaves no jobs behind"
        assert not queue.workers()


def test_every_example_is_described_and_checked() -> None:
    described = (ROOT / "examples/README.md").read_text(encoding="utf-8")
    assert {example.stem for example in EXAMPLES} == set(SHOWS)
    for example in EXAMPLES:
        assert f"]({example.name})" in described
