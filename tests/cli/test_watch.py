"""``watch``: in a pipe, for a program and in a terminal, while jobs run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from howdah import Job, JobQueue
from howdah.cli.commands.watch.watcher import Beginning, first_look, wanted
from tests import servers
from tests.cli.runner import command, default_signals, failed_job, howdah, tell_many
from tests.cli.sample import HOSTILE
from tests.cli.terminal import Terminal
from tests.cli.test_terminal_escape import dangers
from tests.conftest import Db
from tests.talking import Talking
from tests.worker.durable_server import DurableServer

LINE = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC [0-9a-f-]{36} "

APP = """
import logging, pathlib, time
from howdah import Job, JobQueue

queue = JobQueue()
log = logging.getLogger("app.photos")

def wait_for(name):
    while not pathlib.Path(name).exists():
        time.sleep(0.01)

@queue.job
def resize_photo(job: Job, photos: int) -> int:
    with job.stage("decode", weight=40):
        for photo in job.track(range(photos)):
            log.info("photo %s", photo)
    job.event("decoded", photos=photos)
    wait_for("half")
    with job.stage("write"):
        for photo in job.track(range(photos)):
            pass
        job.event("written", name={hostile!r})
        wait_for("done")
    return photos
"""


def running(queue: JobQueue, job_type: str = "resize_photo", **options: Any) -> Job:
    """A job that has been started, and is now the caller's to work on."""
    queue.enqueue(job_type, **options)
    (job,) = queue.claim([job_type])
    queue.start(job)
    return job


@contextlib.contextmanager
def watching(dsn: str, *argv: str) -> Iterator[Talking]:
    """A ``howdah watch`` whose output goes into a pipe."""
    process = subprocess.Popen(
        command("watch", *argv),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=os.environ | {"HOWDAH_DSN": dsn},
        preexec_fn=default_signals,
    )
    talking = Talking(process)
    try:
        yield talking
    finally:
        talking.close()


# Jobs that have ended


def test_an_ended_job_is_shown_with_its_events_and_its_end(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.event(job, "opened", {"rows": 3})
    queue.complete(job)
    outcome = howdah("watch", str(job.id), dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    event, end = outcome.out.splitlines()
    assert re.match(LINE + r'resize_photo event opened {"rows":3}$', event)
    assert re.match(LINE + r"resize_photo status completed after ", end)


def test_a_job_without_reports_ends_with_a_line_too(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.complete(job)
    outcome = howdah("watch", str(job.id), dsn=dsn)
    assert outcome.code == 0
    assert re.match(LINE + r"resize_photo progress completed after \S+\n$", outcome.out)


def test_the_exit_code_shows_whether_all_have_completed(dsn: str, queue: JobQueue) -> None:
    failed, cancelled = failed_job(queue, "x", "broken"), queue.enqueue("x")
    queue.cancel(cancelled, "not needed")
    done = running(queue)
    queue.complete(done)
    assert howdah("watch", str(done.id), dsn=dsn).code == 0
    for job, said in ((failed, "failed: broken"), (cancelled, "cancelled: not needed")):
        outcome = howdah("watch", str(done.id), str(job.id), dsn=dsn)
        assert outcome.code == 1
        assert outcome.out.count("\n") == 2
        assert said in outcome.out


@pytest.mark.parametrize("argv", [[], ["--json"]])
def test_a_job_that_is_not_there_exits_with_1(dsn: str, queue: JobQueue, argv: list[str]) -> None:
    missing = str(uuid.uuid4())
    for ids in ([missing], [str(queue.enqueue("x").id), missing], [missing, str(uuid.uuid4())]):
        outcome = howdah("watch", *argv, *ids, dsn=dsn)
        assert outcome.code == 1
        assert f"howdah: there is no job {missing}" in outcome.err


@pytest.mark.parametrize(
    "argv",
    [
        ["--kinds", "nonsense"],
        ["--kinds", ""],
        ["--kinds", "event,nonsense"],
        ["x" * 51],
        [""],
        ["--after", "nonsense"],
        [str(uuid.UUID(int=1)), str(uuid.UUID(int=2)), "--after", "1"],
    ],
)
def test_a_wrong_call_exits_with_2(dsn: str, argv: list[str]) -> None:
    outcome = howdah("watch", *argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


def test_a_wrong_position_of_a_job_exits_with_2(dsn: str, queue: JobQueue) -> None:
    assert howdah("watch", str(queue.enqueue("x").id), "--after", "nonsense", dsn=dsn).code == 2


def test_without_a_database_it_exits_with_4_at_once() -> None:
    for argv in ([], ["x"], [str(uuid.uuid4())]):
        assert howdah("watch", *argv, dsn="postgresql://127.0.0.1:1/jobs").code == 4


def test_ids_from_standard_input(dsn: str, queue: JobQueue) -> None:
    jobs = [running(queue) for _ in range(30)]
    for job in jobs:
        queue.complete(job)
    outcome = howdah("watch", "-", dsn=dsn, stdin="".join(f"{job.id}\n" for job in jobs))
    assert outcome.code == 0
    assert sorted(line.split()[3] for line in outcome.out.splitlines()) == sorted(str(job.id) for job in jobs)
    nothing = howdah("watch", "-", dsn=dsn)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing to watch\n")


# While they run, in a pipe


def test_a_line_for_each_update_until_the_job_has_ended(dsn: str, queue: JobQueue) -> None:
    job = running(queue, max_attempts=2)
    with watching(dsn, str(job.id)) as watch:
        watch.await_line(LINE + "resize_photo progress running 0%$")
        queue.progress(job, stage="decode", done=3, total=10)
        watch.await_line("progress running 30%, 3/10, decode$")
        queue.event(job, "decoded", {"photo": "Jürgen"})
        watch.await_line('event decoded {"photo":"Jürgen"}$')
        queue.fail(job, "no such photo", delay=0)
        watch.await_line("status attempt 1 failed: no such photo; again at once$")
        (again,) = queue.claim(["resize_photo"])
        queue.complete(again)
        watch.await_line("status attempt 2 completed")
        assert watch.ended() == 0
    assert len(watch.lines) == len(set(watch.lines))


def test_a_waiting_job_is_shown_with_its_queue_position(dsn: str, queue: JobQueue) -> None:
    queue.enqueue_many("resize_photo", ({} for _ in range(12)))
    last = queue.enqueue("resize_photo")
    with watching(dsn, str(last.id)) as watch:
        watch.await_line("progress pending, 12 before it, no live worker handles this type$")
        queue.cancel(last)
        watch.await_line("cancelled$")
        assert watch.ended() == 1


def test_types_are_watched_until_an_interruption(dsn: str, queue: JobQueue) -> None:
    before = running(queue, "a")
    queue.progress(before, 10)
    with watching(dsn, "a", "b") as watch:
        watch.await_line(rf"{before.id} a progress running 10%$")
        found, other = running(queue, "b"), running(queue, "c")
        queue.event(other, "unseen")
        queue.event(found, "seen")
        watch.await_line(rf"{found.id} b event seen$")
        queue.fail(found, "broken", give_up=True)
        watch.await_line(rf"{found.id} b status failed: broken$")
        queue.complete(before)
        watch.await_line(rf"{before.id} a status completed")
        watch.signal(signal.SIGINT)
        assert watch.ended() == 130
    assert watch.lines[-1] == "howdah: interrupted"
    assert "unseen" not in watch.said
    assert "Traceback" not in watch.said


def test_a_type_without_jobs_gets_a_note(dsn: str, queue: JobQueue) -> None:
    with watching(dsn, "resise_photo", "--kinds", "event") as watch:
        watch.await_line("there are no jobs of type resise_photo yet")
        watch.signal(signal.SIGINT)
        assert watch.ended() == 130


@pytest.mark.parametrize(("give_up", "code"), [(False, 0), (True, 1)])
def test_until_nothing_is_left_to_do(dsn: str, queue: JobQueue, give_up: bool, code: int) -> None:
    failed_job(queue, "a", "long ago")
    first = running(queue, "a")
    queue.event(first, "begun")
    with watching(dsn, "a", "--until-done", "--after", "") as watch:
        watch.await_line("event begun")
        second = running(queue, "a")
        queue.complete(first)
        watch.await_line("completed")
        if give_up:
            queue.fail(second, "broken", give_up=True)
        else:
            queue.complete(second)
        assert watch.ended() == code
    assert howdah("watch", "a", "--until-done", dsn=dsn).code == 0


def test_it_is_not_done_before_the_last_event_is_shown(dsn: str, queue: JobQueue, db: Db) -> None:
    job = running(queue, "a")
    tell_many(db, job, 2_500)
    queue.complete(job)
    # However often it looks whether there is anything left to do, and however late the events come.
    with mock.patch("howdah.cli.commands.watch.watcher._LOOK_EVERY", 0):
        outcome = howdah("watch", "a", "--after", "", "--until-done", "--json", "--kinds", "event,status", dsn=dsn)
    assert outcome.code == 0
    assert [line["name"] for line in outcome.lines] == [*(f"e{n}" for n in range(1, 2_501)), "completed"]


def test_what_happens_after_the_first_look_is_shown(dsn: str, queue: JobQueue) -> None:
    job = running(queue, "a")

    async def looked_first() -> Beginning:
        async with JobQueue(dsn) as other:
            return await first_look(other, wanted(["a"], until_done=True))

    before = asyncio.run(looked_first())
    queue.event(job, "meanwhile")
    queue.complete(job)
    with mock.patch("howdah.cli.commands.watch.command.first_look", mock.AsyncMock(return_value=before)):
        outcome = howdah("watch", "a", "--until-done", "--json", "--kinds", "event", dsn=dsn)
    assert [line["name"] for line in outcome.lines] == ["meanwhile"]


def test_only_the_kinds_that_are_asked_for(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.event(job, "opened")
    queue.progress(job, 50)
    queue.complete(job)
    for kind in ("event", "status"):
        lines = howdah("watch", str(job.id), "--kinds", kind, dsn=dsn).out.splitlines()
        assert len(lines) == 1
        assert f"resize_photo {kind} " in lines[0]
    assert howdah("watch", str(job.id), "--kinds", "log", dsn=dsn).out == ""


def test_a_closed_output_ends_it(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    with watching(dsn, str(job.id)) as watch:
        watch.await_line("running")
        assert watch.process.stdout is not None
        watch.process.stdout.close()
        queue.event(job, "unread")
        assert watch.process.wait(timeout=60) == 141


# For programs


def test_json_is_an_object_for_each_update_from_which_one_can_go_on(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.event(job, "first", {"name": "Jürgen\x1b[31m"})
    queue.event(job, "second")
    queue.complete(job, {"sum": 3})
    outcome = howdah("watch", str(job.id), "--json", dsn=dsn)
    assert outcome.code == 0
    assert outcome.out.isascii()
    first, second, status, end = outcome.lines
    assert (first["kind"], first["name"], first["data"]) == ("event", "first", {"name": "Jürgen\x1b[31m"})
    assert (first["job_id"], first["job_type"], first["attempt"]) == (str(job.id), "resize_photo", 1)
    assert (status["kind"], status["name"], status["data"]["cause"]) == ("status", "completed", "completed")
    assert (end["kind"], end["job"]["status"], end["job"]["result"]) == ("progress", "completed", {"sum": 3})
    rest = howdah("watch", str(job.id), "--json", "--after", first["position"], dsn=dsn).lines
    assert [each["name"] for each in rest] == ["second", "completed", None]
    assert second["position"] == rest[0]["position"]


def test_json_of_types_from_the_oldest_that_is_kept(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.event(job, "first")
    queue.event(job, "second")
    with watching(dsn, "--json", "--kinds", "event", "--after", "") as watch:
        first = json.loads(watch.await_line("first"))
        watch.await_line("second")
        watch.signal(signal.SIGINT)
        watch.ended()
    with watching(dsn, "--json", "--kinds", "event", "--after", first["position"]) as watch:
        assert json.loads(watch.await_line("{"))["name"] == "second"


def test_json_of_a_waiting_job_has_its_place(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("resize_photo")
    job = queue.enqueue("resize_photo")
    with watching(dsn, "--json", str(job.id)) as watch:
        seen = json.loads(watch.await_line("{"))
        assert (seen["job"]["status"], seen["place"]["ahead"], seen["place"]["exact"]) == ("pending", 1, True)
        queue.cancel(job)
        assert watch.ended() == 1


# What others wrote


def test_nothing_of_others_reaches_the_pipe_as_a_command(dsn: str, queue: JobQueue) -> None:
    hostile = HOSTILE.replace("\x00", "")
    printable = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", hostile)
    job = running(queue, printable[:50])
    queue.progress(job, 10, printable[:100])
    queue.event(job, printable[:100], {hostile: [hostile]})
    queue.fail(job, hostile, give_up=True)
    for argv in ([], ["--json"]):
        outcome = howdah("watch", str(job.id), *argv, dsn=dsn)
        assert outcome.code == 1
        assert not dangers(outcome.out + outcome.err)
        assert all(str(job.id) in line for line in outcome.out.splitlines())


# The database goes away


def test_a_restart_of_the_database_is_remarked_upon_and_survived() -> None:
    binaries = servers.find(servers.MAJORS[0])
    if binaries is None:
        pytest.skip(f"PostgreSQL {servers.MAJORS[0]} is not installed here")
    with DurableServer(binaries) as server, JobQueue(server.dsn) as queue:
        queue.migrate()
        job = running(queue)
        queue.enqueue("waiting")
        last = queue.enqueue("waiting")
        with (
            watching(server.dsn, str(job.id)) as watch,
            Terminal("watch", str(job.id), str(last.id), "resize_photo", HOWDAH_DSN=server.dsn) as terminal,
        ):
            queue.event(job, "before")
            watch.await_line("event before$")
            terminal.wait_for("before$")
            terminal.wait_for("1 before it, no live worker")
            server.halt("immediate")
            watch.await_line("^howdah: .*trying again until it is back$")
            terminal.wait_for(r"^howdah: [^━]*trying again")  # the line may be too long for the screen
            server.start()
            watch.await_line("^howdah: the database is back after ")
            terminal.wait_for("^howdah: the database is back after ")
            with JobQueue(server.dsn) as fresh:
                fresh.event(job, "after")
                fresh.complete(job)
                fresh.pause("waiting")
            watch.await_line("event after$")
            watch.await_line("status completed")
            assert watch.ended() == 0
            terminal.wait_for("completed after")
            terminal.wait_for("1 before it, its type is paused")
            terminal.signal(signal.SIGINT)
            assert terminal.end() == 130
        assert watch.said.count("event before") == 1
        assert all(re.match(rf"{LINE}|howdah: ", line) for line in watch.lines)
        assert terminal.everything.count(" after\n") == terminal.everything.count("trying again") == 1
        assert "error connecting" not in terminal.everything


# In a terminal


@pytest.fixture
def worker(dsn: str, tmp_path: Path) -> Iterator[Path]:
    """A real worker, and the folder in which files make its handler continue."""
    hostile = "\x1b]0;owned\x07\u202e[red]x[/red]"
    (tmp_path / "app.py").write_text(APP.replace("{hostile!r}", repr(hostile)))
    process = subprocess.Popen(
        command("work", "app:queue", "--threads", "2", "--log-level", "info"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"HOWDAH_DSN": dsn},
    )
    yield tmp_path
    for name in ("half", "done"):
        (tmp_path / name).touch()
    process.terminate()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said.decode()


def test_a_bar_goes_to_its_end_below_what_happens(dsn: str, queue: JobQueue, worker: Path) -> None:
    job = queue.enqueue("resize_photo", {"photos": 4})
    short = f"…{str(job.id)[-8:]}"
    with Terminal("watch", str(job.id), HOWDAH_DSN=dsn) as terminal:
        above = rf"^\d\d:\d\d:\d\d {short} resize_photo INFO app.photos: photo 3\n\d\d:\d\d:\d\d {short} resize_photo decoded {{\"photos\":4}}\n"
        terminal.wait_for(rf"{above}resize_photo {short} ━+.* 40% .*$")
        assert not terminal.shows_cursor()
        (worker / "half").touch()
        written = r'written {"name":"\\u001b\]0;owned\\u0007\\u202e\[red\]x\[/red\]"}$'
        terminal.wait_for(rf"{written}\nresize_photo {short} ━+ 100% .*write\Z")
        (worker / "done").touch()
        assert terminal.end() == 0
        assert re.search(rf"^\d\d:\d\d:\d\d {short} resize_photo completed after ", terminal.screen.splitlines()[-1])
        assert "100%" not in terminal.screen
        assert terminal.shows_cursor()
        assert b"\x1b]0;" not in terminal.raw
        assert not dangers(terminal.everything)
        assert terminal.everything.count("photo 3") == 1


def test_a_failure_is_the_last_line_and_the_exit_code(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.progress(job, 10, "[bold]x[/bold]\u202e")
    with Terminal("watch", str(job.id), HOWDAH_DSN=dsn) as terminal:
        terminal.wait_for(r"10% .*\[bold\]x\[/bold\]\\u202e")
        queue.fail(job, "no such photo\x1b[2J", give_up=True)
        assert terminal.end() == 1
        assert terminal.screen.endswith("resize_photo failed: no such photo\\x1b[2J")


def test_a_waiting_jobs_place_changes_as_others_go(dsn: str, queue: JobQueue) -> None:
    first, second = queue.enqueue("resize_photo"), queue.enqueue("resize_photo")
    with Terminal("watch", str(second.id), HOWDAH_DSN=dsn) as terminal:
        terminal.wait_for("1 before it, no live worker handles this type")
        queue.cancel(first)
        terminal.wait_for(r"[0-9a-f]{8} +no live worker handles this type")
        queue.cancel(second, "enough")
        assert terminal.end() == 1
        assert terminal.screen.endswith("cancelled: enough")


def test_a_low_terminal_shows_some_and_counts_the_others(dsn: str, queue: JobQueue) -> None:
    jobs = [running(queue, "resize_photo") for _ in range(20)]
    for job in jobs:
        queue.progress(job, 10)
    with Terminal("watch", "resize_photo", lines=10, columns=80, HOWDAH_DSN=dsn) as terminal:
        terminal.wait_until(lambda screen: screen.count("10%") == 8 and screen.endswith("\nand 12 more"))
        assert len(terminal.screen.splitlines()) == 9
        for job in jobs[:15]:
            queue.complete(job)
        terminal.wait_until(lambda screen: screen.count("10%") == 5 and "more" not in screen)
        terminal.signal(signal.SIGINT)
        assert terminal.end() == 130
        assert terminal.everything.count("completed after") == 15
        assert terminal.screen.endswith("howdah: interrupted")
        assert terminal.shows_cursor()


def test_sigterm_ends_it_and_restores_the_terminal(dsn: str) -> None:
    with Terminal("watch", HOWDAH_DSN=dsn) as terminal:
        terminal.wait_for("no running job reports its progress")
        terminal.signal(signal.SIGTERM)
        assert terminal.end() == 143
        assert terminal.shows_cursor()
        assert terminal.screen == ""
