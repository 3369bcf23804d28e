"""``howdah bench``: its output, and that it touches nothing but what is its own. No figure is checked for its size."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest

from howdah import JobQueue, Priority
from howdah.cli.commands.bench import command as bench_command
from howdah.cli.commands.bench.handlers import ASYNC, JOB_TYPES
from howdah.cli.commands.bench.scenarios import SCENARIOS, WHAT, run
from howdah.cli.commands.bench.schema import BenchSchema
from howdah.cli.process import worker_group
from tests.cli.runner import command, default_signals, howdah, schema_of_its_own
from tests.cli.terminal import Terminal

SCHEMA = "howdah_bench"
SMALL = ("--jobs", "10", "--rounds", "1")


@pytest.fixture(autouse=True)
def no_schema(dsn: str) -> Iterator[None]:
    with schema_of_its_own(dsn, SCHEMA):
        yield


def schemas(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as conn:
        return {name for (name,) in conn.execute("SELECT nspname FROM pg_namespace")}


class Running:
    """A program in a process of its own, and what it has written to stderr so far."""

    def __init__(self, dsn: str, argv: list[str]) -> None:
        self.process = subprocess.Popen(
            argv,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"HOWDAH_DSN": dsn},
            preexec_fn=default_signals,
        )
        self.err = ""
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._changed:
                self.err += line
                self._changed.notify_all()

    def wait_for(self, pattern: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: re.search(pattern, self.err), timeout=180), self.err

    def workers(self) -> list[psutil.Process]:
        return list(psutil.Process(self.process.pid).children())

    def end(self) -> int:
        code = self.process.wait(timeout=180)
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


# The whole of it


def test_everything_is_measured_and_reported_and_nothing_is_left(dsn: str, queue: JobQueue) -> None:
    mine = queue.enqueue(ASYNC, {"n": 1}, priority=Priority.EXPLICIT)
    options = ("--payload", "100", "--concurrency", "20")
    outcome = howdah("bench", *SMALL, *options, "--json", dsn=dsn, HOWDAH_SCHEMA="howdah")
    assert outcome.code == 0, outcome.err
    (report,) = outcome.lines
    check_the_report(report)
    assert SCHEMA not in schemas(dsn)
    assert queue.get(mine) == mine, "a job of the user's, though of a type that a bench handles, is not touched"


def check_the_report(report: dict[str, Any]) -> None:
    assert set(report) == {"howdah", "at", "seconds", "machine", "server", "warnings", "options", "results"}
    machine, server, options, results = (report[name] for name in ("machine", "server", "options", "results"))
    assert set(machine) == {"cores", "cpu", "system", "python", "loop", "driver"}
    assert set(server) == {"version", "connection", "round_trip_ms", "settings"}
    wanted = {"synchronous_commit", "fsync", "full_page_writes", "wal_level", "shared_buffers"}
    assert wanted <= set(server["settings"])
    assert server["connection"] == "a socket"
    chosen = {"jobs": 10, "rounds": 1, "processes": 1, "concurrency": 20, "payload": 100}
    assert options == chosen
    assert [(each["what"], each["how"]) for each in results] == [(each.what, each.how) for each in SCENARIOS]
    for result, scenario in zip(results, SCENARIOS, strict=True):
        assert {figure["name"]: figure["unit"] for figure in result["figures"]} == scenario.units
        (played,) = result["rounds"]
        assert (played["jobs"], result["warm_up"]["jobs"]) == (10, 10)
        for figure in result["figures"]:
            assert figure["rounds"] == [played["values"][figure["name"]]]
            assert figure["min"] == figure["median"] == figure["max"] > 0
    by_what = {result["what"]: result["rounds"][0]["samples"] for result in results}
    assert len(by_what["pickup"]) == 10


def test_in_a_pipe_it_is_plain_text_and_what_is_kept_can_be_looked_at_and_is_replaced(dsn: str) -> None:
    outcome = howdah("bench", "enqueue", "--jobs", "10", "--rounds", "2", "--keep", dsn=dsn)
    assert outcome.code == 0, outcome.err
    assert "\x1b" not in outcome.out + outcome.err
    first, settings, *_ = outcome.out.splitlines()
    assert re.match(r"PostgreSQL 18\S* over a socket, round trip \S+ ms; CPython \S+, asyncio, psycopg", first)
    assert settings == "synchronous_commit on, fsync off, full_page_writes off, wal_level replica, shared_buffers 256MB"
    assert "Mind: fsync is off: a crash of the machine may destroy the database" in outcome.out
    assert re.search(r"^ +median +min +max +unit$", outcome.out, flags=re.MULTILINE)
    for label in ("one by one", "16 threads", "async, one by one", "enqueue_many"):
        assert re.search(rf"^  {label}( +[\d,.]+){{3}}  jobs/s$", outcome.out, flags=re.MULTILINE)
    assert "2 rounds of each after a warm-up, 1 worker process, in " in outcome.out
    for line in ("fsync is off", "enqueue, enqueue_many: warm-up: ", "enqueue, 16 threads: round 2 of 2: "):
        assert line in outcome.err
    with JobQueue(dsn, SCHEMA) as kept:
        assert kept.stats()[ASYNC].pending == 30, "of the last of them"
    assert howdah("bench", "enqueue", *SMALL, dsn=dsn).code == 0
    assert SCHEMA not in schemas(dsn)


def test_in_a_terminal_there_is_a_bar_and_then_a_table(dsn: str) -> None:
    with Terminal("bench", "enqueue", *SMALL, HOWDAH_DSN=dsn) as terminal:
        assert terminal.end() == 0
        assert "enqueue, one by one: warm-up" in terminal.raw.decode()
        assert "round 1 of 1" in terminal.raw.decode()
        assert "round 1 of 1" not in terminal.everything
        assert re.search(r"^  16 threads( +[\d,.]+){3}  jobs/s$", terminal.everything, flags=re.MULTILINE)
        assert terminal.shows_cursor()


# What it refuses


def refused(dsn: str, *argv: str, because: str) -> None:
    outcome = howdah("bench", *argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert because in outcome.err


def test_a_schema_that_no_bench_made_is_not_touched(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("send_invoice")
    refused(dsn, "enqueue", *SMALL, "--schema", "howdah", because="there is a schema howdah that no bench made")
    assert queue.get(job) == job
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("CREATE SCHEMA howdah_bench")
        refused(dsn, "enqueue", *SMALL, because="name one that does not exist, by --schema")
        assert SCHEMA in schemas(dsn)


def test_a_schema_of_a_bench_in_which_others_have_jobs_is_not_touched(dsn: str) -> None:
    assert howdah("bench", "enqueue", *SMALL, "--keep", dsn=dsn).code == 0
    with JobQueue(dsn, SCHEMA) as queue:
        job = queue.enqueue("send_invoice")
        refused(dsn, "enqueue", *SMALL, because="there are jobs in it that are not a bench's (send_invoice)")
        assert queue.get(job) == job


def test_two_benches_at_once_are_kept_apart(dsn: str) -> None:
    with JobQueue(dsn, SCHEMA) as queue, BenchSchema(queue, JOB_TYPES) as schema:
        schema.renew()
        refused(dsn, "enqueue", *SMALL, because="another bench runs in schema howdah_bench")
        assert SCHEMA in schemas(dsn)
        with schema_of_its_own(dsn, "howdah_other_bench") as other:
            assert howdah("bench", "enqueue", *SMALL, "--schema", other, dsn=dsn).code == 0
    assert SCHEMA not in schemas(dsn)


def test_a_schema_that_is_created_in_the_meantime_is_not_touched(dsn: str) -> None:
    with JobQueue(dsn, SCHEMA) as queue, psycopg.connect(dsn, autocommit=True) as conn:
        with BenchSchema(queue, JOB_TYPES) as schema:
            conn.execute("CREATE SCHEMA howdah_bench")
            with pytest.raises(psycopg.errors.DuplicateSchema):
                schema.renew()
        assert SCHEMA in schemas(dsn)


def test_the_lock_of_a_bench_keeps_no_row_alive(dsn: str) -> None:
    with JobQueue(dsn, SCHEMA) as queue, BenchSchema(queue, JOB_TYPES), psycopg.connect(dsn) as conn:
        (held,) = conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%bench%'"
            " AND backend_xid IS NULL AND backend_xmin IS NULL"
        ).fetchone() or (0,)
        assert held == 1


@pytest.mark.parametrize(
    ("argv", "because"),
    [
        (("fly",), f"there is no bench 'fly': choose from {', '.join(WHAT)}"),
        (("--jobs", "0"), "--jobs is 0; the bench takes 1 to 10,000,000"),
        (("--rounds", "0"), "--rounds is 0"),
        (("--processes", "101"), "--processes is 101"),
        (("--payload", "-1"), "--payload is -1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_refused_before_anything_is_made(dsn: str, argv: tuple[str, ...], because: str) -> None:
    refused(dsn, *argv, because=because)
    assert SCHEMA not in schemas(dsn)


def test_without_a_database_the_exit_code_is_that_of_an_outage(tmp_path: Path) -> None:
    outcome = howdah("bench", "enqueue", dsn=f"host={tmp_path} user=nobody dbname=nothing")
    assert (outcome.code, outcome.out) == (4, "")


def test_the_help_names_its_own_schema() -> None:
    said = " ".join(howdah("bench", "--help").out.split())
    assert "--schema NAME a schema of its own, created and dropped (default: howdah_bench)" in said
    assert ", ".join(WHAT) in said
    assert "HOWDAH_SCHEMA" not in said


# Its end, when it comes too soon


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_it_leaves_nothing_behind(dsn: str, number: signal.Signals) -> None:
    bench = Running(dsn, command("bench", "drain", "--jobs", "50", "--rounds", "1000", "--processes", "2", "--keep"))
    bench.wait_for(r"round 1 of 1000")
    workers = bench.workers()
    bench.process.send_signal(number)
    with contextlib.suppress(ProcessLookupError):
        # A second signal, while it is cleaning up.
        bench.process.send_signal(number)
    assert bench.end() == 130, bench.err
    assert bench.err.endswith("howdah: interrupted\n")
    assert len(workers) == 2
    assert not any(worker.is_running() for worker in workers)
    assert SCHEMA not in schemas(dsn)


def test_interrupted_in_the_middle_of_a_statement_it_leaves_nothing_behind(dsn: str) -> None:
    with (
        JobQueue(dsn, SCHEMA) as queue,
        contextlib.suppress(KeyboardInterrupt),
        BenchSchema(queue, JOB_TYPES, keep=True) as schema,
    ):
        schema.renew()
        schema.conn.pgconn.send_query(b"SELECT pg_sleep(60)")
        raise KeyboardInterrupt
    assert schema.could_be_dropped
    assert SCHEMA not in schemas(dsn)


def test_interrupted_while_threads_enqueue_it_leaves_nothing_behind(dsn: str) -> None:
    bench = Running(dsn, command("bench", "enqueue", "--jobs", "1000000", "--rounds", "1"))
    bench.wait_for(r"16 threads: warm-up|one by one: warm-up")
    bench.process.send_signal(signal.SIGTERM)
    assert bench.end() == 130
    assert SCHEMA not in schemas(dsn)


def test_killed_it_takes_its_workers_with_it_and_the_next_one_clears_up(dsn: str) -> None:
    bench = Running(dsn, command("bench", "drain", "--jobs", "50", "--rounds", "1000"))
    bench.wait_for(r"round 1 of 1000")
    workers = bench.workers()
    bench.process.kill()
    bench.end()
    _, alive = psutil.wait_procs(workers, timeout=180)
    assert not alive
    assert SCHEMA in schemas(dsn)
    assert howdah("bench", "enqueue", *SMALL, dsn=dsn).code == 0
    assert SCHEMA not in schemas(dsn)


def test_a_worker_that_does_not_start_is_reported_with_its_output(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_group, "_COMMAND", ("-c", "print('no legs'); raise SystemExit(3)"))
    outcome = howdah("bench", "drain", *SMALL, dsn=dsn)
    assert (outcome.code, outcome.out) == (1, "")
    assert "the worker bench-1 has ended by itself, with exit code 3. Its output:\nno legs" in outcome.err
    assert SCHEMA not in schemas(dsn)


def test_a_session_that_uses_the_schema_is_in_the_way_and_is_reported(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(dsn) as onlooker:

        def run_and_look(*arguments: Any) -> Any:
            result = run(*arguments)
            if result.scenario is SCENARIOS[3]:
                onlooker.execute("SELECT FROM howdah_bench.live")
            return result

        monkeypatch.setattr(bench_command, "run", run_and_look)
        outcome = howdah("bench", "enqueue", *SMALL, "--json", dsn=dsn)
        assert outcome.code == 0
        assert outcome.lines[0]["results"], "what was measured is not lost"
        assert "schema howdah_bench could not be dropped" in outcome.err
        outcome = howdah("bench", "enqueue", *SMALL, dsn=dsn)
        assert (outcome.code, outcome.out) == (1, "")
        assert "schema howdah_bench cannot be replaced, because another session uses it" in outcome.err
