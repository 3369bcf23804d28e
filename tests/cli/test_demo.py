"""The demo: real workers, one of which is killed, a closing summary, and an exit code that shows whether it has finished."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pty
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest

from howdah import Job, JobQueue
from howdah.cli.commands.demo import stage, view
from howdah.cli.commands.demo.workload import FEWEST, MOST, USUAL, kinds
from howdah.cli.process import worker_group
from tests.cli.runner import command, default_signals, howdah, schema_of_its_own
from tests.docs.pages import block_of

IN_TERMINAL = "howdah_demo_seen"


class Performance:
    """A demo in a process of its own, and what it has written so far."""

    def __init__(self, dsn: str, folder: Path, *argv: str, terminal: bool = False) -> None:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        look = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "HOWDAH_DSN": dsn, "TMPDIR": str(folder)}
        self._errors = folder.with_suffix(f".{len(argv)}.errors")
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                command("demo", *argv),
                stdout=theirs,
                stderr=errors,
                env=os.environ | look,
                preexec_fn=default_signals,
            )
        os.close(theirs)
        self.out = ""
        self._changed = threading.Condition()
        # At once: a program that draws on an unread terminal blocks when its buffer is full.
        self._reader = threading.Thread(target=self._read, args=(ours,))
        self._reader.start()

    def _read(self, pipe: int) -> None:
        # Linux reports a closed other end of a terminal by an error.
        with contextlib.suppress(OSError):
            while part := os.read(pipe, 65_536):
                with self._changed:
                    self.out += part.decode(errors="replace")
                    self._changed.notify_all()
        os.close(pipe)

    def wait_for(self, pattern: str) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: re.search(pattern, self.out), timeout=180), self.out

    def end(self) -> int:
        """Waits for its exit code, and for all that it has written."""
        code = self.process.wait(timeout=180)
        self._reader.join()
        return code

    @property
    def err(self) -> str:
        return self._errors.read_text()

    @property
    def workers(self) -> list[int]:
        return [int(pid) for pid in re.findall(r"\(pid (\d+)\) has started", self.out)]


def is_gone(pid: int) -> bool:
    """Whether it has ended, also if its exit status has not been read."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def schemas(dsn: str) -> set[str]:
    with psycopg.connect(dsn) as conn:
        return {name for (name,) in conn.execute("SELECT nspname FROM pg_namespace")}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a demo may leave temporary files, and does not."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert not list(folder.iterdir())


# The whole of it


def test_two_workers_one_killed_and_nothing_lost_in_a_pipe_and_in_a_terminal(dsn: str, folder: Path) -> None:
    with schema_of_its_own(dsn, "howdah_demo") as schema, schema_of_its_own(dsn, IN_TERMINAL) as other_schema:
        with JobQueue(dsn, schema) as queue:
            stage.set_up(queue)
            leftover = queue.enqueue("send_invoice", {"of": "an earlier demo"})
        piped = Performance(dsn, folder)
        drawn = Performance(dsn, folder, "--jobs", str(FEWEST), "--schema", other_schema, terminal=True)
        codes = piped.end(), drawn.end()
        assert codes == (0, 0), f"{piped.out}\n{piped.err}\n{drawn.err}"
        assert (piped.err, drawn.err) == ("", "")

        check_the_lines(piped.out)
        for expected in ("━", "0/30", r"scene \d+ of 10 on demo-", "heartbeat", r"killed \d", "Nothing was lost"):
            assert re.search(expected, drawn.out)

        with JobQueue(dsn, schema) as queue:
            jobs = view.read_back(queue)
            assert leftover.id not in {job.id for job in jobs}, "an earlier demo's jobs do not pile up"
            assert not queue.schedules.list()
            assert not queue.workers()
        check_the_summary(jobs)


def check_the_lines(out: str) -> None:
    """Readable without a terminal, and complete."""
    assert "\x1b" not in out
    assert re.search(
        r"Nothing was lost: all 4\d\d jobs \(416 enqueued, \d+ by the schedule\) have ended, 4\d\d completed, 1 failed for good, 1 cancelled\.",
        out,
    )
    assert re.search(r"demo-\d was killed with \d+ jobs in hand; demo-\d took them over [\d.]+s later\.", out)
    rows = {line.split()[0]: line for line in out.splitlines() if line}
    assert re.search(r"150 +event loop +45/45 ", rows["send_invoice"])
    assert re.search(r"100 +event loop +104/105 +1 failed ", rows["resize_photo"])
    assert re.search(r" 30 +event loop +150/150 ", rows["reindex_page"])
    assert re.search(r"0/1 +1 cancelled ", rows["export_everything"])
    story = (
        "416 jobs are enqueued",
        "call_partner, attempt 1: ConnectionError: the partner did not answer",
        "is killed (SIGKILL) in the middle of render_film",
        "are back,",
        "render_film has completed on demo-",
        "every job has ended",
        "howdah list --schema howdah_demo --status failed",
    )
    for shown in lines_that_are_shown():
        assert re.search(shown, out), shown
    positions = [out.find(part) for part in story]
    assert -1 not in positions
    assert positions == sorted(positions)


def lines_that_are_shown() -> list[str]:
    """What the page of the command shows of a demo, but for its numbers."""
    _, _, *lines = block_of("docs/reference/command.md", "$ howdah demo").text.splitlines()
    return [
        re.sub(r"(\\ )+", r"\\s+", re.sub(r"\d+(\\\.\d+)?m?s?", r"[\\d.]+m?s?", re.escape(line.strip())))
        for line in lines
        if "…" not in line
    ]


def check_the_summary(jobs: list[Job]) -> None:
    """It counts the jobs, and finds one that is missing or has not ended."""
    expected = kinds(USUAL)
    assert view.conclusion(expected, view.summaries(expected, jobs))[0]
    lost = [job for job in jobs if job.job_type != "send_reminder"]
    assert view.conclusion(expected, view.summaries(expected, lost)) == (
        False,
        f"1 of the enqueued jobs are missing, and 0 have not ended: {len(jobs) - 3} completed, 1 failed for good, 1 cancelled.",
    )
    unended = [dataclasses.replace(job, status="running") if job.job_type == "render_film" else job for job in jobs]
    assert not view.conclusion(expected, view.summaries(expected, unended))[0]


# Its beginning


@pytest.mark.parametrize("jobs", [FEWEST, USUAL, MOST])
def test_every_priority_gets_its_share(jobs: int) -> None:
    shares = [kind.count or 0 for kind in kinds(jobs)[:3]]
    assert sum(shares) == jobs
    assert min(shares) >= 9


@pytest.mark.parametrize("jobs", [str(FEWEST - 1), str(MOST + 1), "many"])
def test_a_wrong_number_of_jobs_exits_with_2(dsn: str, jobs: str) -> None:
    assert howdah("demo", "--jobs", jobs, dsn=dsn).code == 2


def test_the_help_names_its_own_schema() -> None:
    said = " ".join(howdah("demo", "--help").out.split())
    assert "--schema NAME a schema of its own, cleared each time (default: howdah_demo)" in said
    assert "HOWDAH_SCHEMA" not in said


def test_a_schema_that_it_did_not_make_is_not_touched(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("send_invoice", priority=1_000)
    outcome = howdah("demo", "--schema", "howdah", dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert "the demo did not make" in outcome.err
    assert queue.get(job.id) == job


def test_a_demo_does_not_clear_another_one_away(dsn: str) -> None:
    with schema_of_its_own(dsn, "howdah_demo") as schema, JobQueue(dsn, schema) as queue:
        stage.set_up(queue)
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("SELECT howdah_demo.register_worker('busy', gen_random_uuid())")
        outcome = howdah("demo", dsn=dsn)
        assert (outcome.code, outcome.out) == (2, "")
        assert "workers are busy in schema howdah_demo" in outcome.err


# Its end, when it comes too soon


@pytest.mark.parametrize("as_json", [False, True], ids=["lines", "json"])
def test_it_has_not_finished_when_workers_do_not_start(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(worker_group, "_COMMAND", ("-c", "print('no legs'); raise SystemExit(3)"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with schema_of_its_own(dsn, "howdah_demo"):
        outcome = howdah("demo", *(["--json"] if as_json else []), dsn=dsn)
    assert outcome.code == 1
    (logs,) = tmp_path.iterdir()
    assert f"the workers' logs are in {logs}" in outcome.err
    # The second one may be ended with the first, before it has printed anything.
    assert {log.read_text() for log in logs.iterdir()} - {""} == {"no legs\n"}
    if as_json:
        (answer,) = outcome.lines
        assert answer["finished"] is False
        assert answer["story"][-1]["bad"]
    else:
        assert "has ended by itself, with exit code 3" in outcome.out
        assert "The demo has not finished" in outcome.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_interrupted_it_leaves_nothing_behind(dsn: str, folder: Path, number: signal.Signals) -> None:
    with schema_of_its_own(dsn, "howdah_demo") as schema:
        show = Performance(dsn, folder)
        show.wait_for(r"has started")
        show.process.send_signal(number)
        assert (show.end(), show.err) == (130, "howdah: interrupted\n")
        assert all(map(is_gone, show.workers))
        assert schema not in schemas(dsn)


def test_killed_it_takes_its_workers_with_it(dsn: str, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    with schema_of_its_own(dsn, "howdah_demo"):
        show = Performance(dsn, tmp_path / "temporary")
        show.wait_for(r"(?s)has started.*has started")
        show.process.kill()
        show.end()
        deadline = time.monotonic() + 60
        while not all(map(is_gone, show.workers)):
            assert time.monotonic() < deadline, "its workers live on"
            time.sleep(0.05)
