"""``work``, as a process of its own: its jobs, output, signals and exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from howdah import JobQueue
from howdah.worker.shutdown import ECHO
from tests.cli.runner import Outcome, default_signals, howdah, schema_of_its_own
from tests.talking import PATIENCE, Talking

APP = """
import asyncio, logging, os, time
from howdah import JobQueue

queue = JobQueue()
log = logging.getLogger("app")

@queue.job
async def greet(name: str) -> str:
    return name

@queue.job
def tell(words: str) -> None:
    print(words, flush=True)

@queue.job
def mumble() -> None:
    print("unread")

@queue.job(max_attempts=1)
def fail(secret: str) -> None:
    raise ValueError("broken\\n2030-01-01 forged \\x1b[31m")

@queue.job
async def wait_for_file(path: str) -> None:
    print("running", os.getpid(), flush=True)
    while not os.path.exists(path):
        await asyncio.sleep(0.01)

@queue.job
def hang() -> None:
    print("running", os.getpid(), flush=True)
    time.sleep(3600)
"""

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")
PASSWORD = "s3cret"

READY = '"event": "ready"'
STOPPING = '"event": "stopping"'
ENDED = '"event": "stopped"'


@pytest.fixture
def app(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(APP)
    return file


Start = Callable[..., Talking]


@pytest.fixture
def start(dsn: str, app: Path) -> Iterator[Start]:
    """Starts ``howdah work`` where app.py is; what its handlers print comes between its logs."""
    started: list[Talking] = []

    def start(*argv: str, wrapper: tuple[str, ...] = (), **environment: str) -> Talking:
        process = subprocess.Popen(
            [*wrapper, *command(*argv, "--json")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=app.parent,
            env=os.environ | {"HOWDAH_DSN": dsn, "PYTHONDONTWRITEBYTECODE": "1"} | environment,
            preexec_fn=default_signals,
        )
        started.append(Talking(process))
        return started[-1]

    yield start
    for talking in started:
        talking.close()


def command(*argv: str) -> list[str]:
    return [sys.executable, "-m", "howdah", "work", *argv]


def work(app: Path, *argv: str, **environment: str) -> Outcome:
    """A whole run, with its output apart from its remarks."""
    done = subprocess.run(
        command(*argv),
        capture_output=True,
        text=True,
        cwd=app.parent,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)


# Its work and its output


def test_it_runs_due_jobs_and_prints_its_settings_and_a_summary(dsn: str, queue: JobQueue, app: Path) -> None:
    job = queue.enqueue("greet", {"name": "ann"})
    failed = queue.enqueue("fail", {"secret": PASSWORD}, max_attempts=1)
    outcome = work(app, "app:queue", "--drain", "--name", "mail", HOWDAH_DSN=f"{dsn} password={PASSWORD}")
    assert (outcome.code, outcome.out) == (0, "")
    assert (queue.get(job.id).result, queue.get(failed.id).status) == ("ann", "failed")
    first, *_, last = outcome.err.splitlines()
    for expected in (
        "mail",
        "fail, greet, hang, mumble, tell, wait_for_file",
        "50 at once",
        "10 in threads",
        "schema howdah",
    ):
        assert expected in first
    assert "1 completed" in last
    assert "1 failed" in last
    assert PASSWORD not in outcome.err
    assert "\x1b" not in outcome.err
    assert not re.search(r"^2030", outcome.err, flags=re.MULTILINE)


def test_logs_for_programs_are_json_and_never_hold_arguments(dsn: str, queue: JobQueue, app: Path) -> None:
    queue.enqueue("fail", {"secret": PASSWORD}, max_attempts=1)
    queue.enqueue("greet", {"name": PASSWORD})
    outcome = work(app, "app", "--drain", "--json", "--log-level", "debug", HOWDAH_DSN=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    assert PASSWORD not in outcome.out
    events = {line["event"]: line for line in outcome.lines if "event" in line}
    assert {"starting", "ready", "failed", "stopped"} <= events.keys()
    assert events["failed"]["job_type"] == "fail"
    assert events["ready"]["worker_id"] == events["starting"]["worker_id"]


def test_a_quiet_worker_prints_nothing_without_a_fault(dsn: str, queue: JobQueue, app: Path) -> None:
    queue.enqueue("greet", {"name": "ann"})
    for processes in ("1", "2"):
        outcome = work(app, "app", "--drain", "--quiet", "--processes", processes, HOWDAH_DSN=dsn)
        assert outcome == Outcome(0, "", "")
    assert queue.stats().total.completed == 1


@pytest.mark.parametrize(
    ("argv", "kept"),
    [(["--quiet"], ["noted"]), (["--no-logs"], []), (["--no-logs", "--processes", "2"], [])],
    ids=" ".join,
)
def test_logs_of_handlers_are_kept_unless_that_is_off(
    dsn: str, queue: JobQueue, app: Path, argv: list[str], kept: list[str]
) -> None:
    app.write_text(f'{APP}\n@queue.job\ndef note() -> None:\n    log.info("noted")\n')
    job = queue.enqueue("note")
    assert work(app, "app", "--drain", *argv, HOWDAH_DSN=dsn).code == 0
    assert queue.get(job).status == "completed"
    assert [event.data["message"] for event in queue.events(job, kinds=["log"])] == kept


def test_child_processes_log_as_the_worker_does(dsn: str, queue: JobQueue, app: Path) -> None:
    note = '@queue.job(process=True)\ndef note() -> None:\n    log.info("noted")\n    log.debug("not wanted")\n'
    app.write_text(f"{APP}\n{note}")
    job = queue.enqueue("note")
    outcome = work(app, "app", "--drain", HOWDAH_DSN=dsn)
    assert re.search(r"^\S+ \S+ info    app: noted$", outcome.err, flags=re.MULTILINE), outcome.err
    assert "not wanted" not in outcome.err
    assert [event.data["message"] for event in queue.events(job, kinds=["log"])] == ["noted"]
    queue.retry(job)
    shown = [json.loads(line) for line in work(app, "app", "--drain", "--json", HOWDAH_DSN=dsn).out.splitlines()]
    assert [(line["logger"], line["level"]) for line in shown if line["message"] == "noted"] == [("app", "info")]


@pytest.mark.parametrize("processes", ["1", "2"])
@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_a_child_process_has_its_job_where_the_worker_was_started_without_standard_streams(
    dsn: str, queue: JobQueue, app: Path, closed: str, processes: str
) -> None:
    app.write_text(f"{APP}\n@queue.job(process=True)\ndef add(a: int, b: int) -> int:\n    return a + b\n")
    jobs = [queue.enqueue("add", {"a": 1, "b": 2}, max_attempts=1), queue.enqueue("greet", {"name": "ann"})]
    shell = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh"]
    line = [*shell, *command("app", "--drain", "--processes", processes, "--lease", "60s")]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "HOWDAH_DSN": dsn}
    process = subprocess.Popen(line, cwd=app.parent, env=environment, stderr=subprocess.DEVNULL)
    try:
        assert [queue.wait_for(job, timeout=PATIENCE).result for job in jobs] == [3, "ann"]
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()


def test_the_schema_of_the_environment_is_everybodys(dsn: str, app: Path) -> None:
    with schema_of_its_own(dsn, "cli_work") as schema, JobQueue(dsn, schema) as queue:
        queue.migrate()
        job = queue.enqueue("greet", {"name": "ann"})
        outcome = work(app, "app", "--drain", HOWDAH_DSN=dsn, HOWDAH_SCHEMA=schema)
        assert (outcome.code, queue.get(job.id).status) == (0, "completed")


def test_only_the_types_that_were_asked_for(dsn: str, queue: JobQueue, app: Path) -> None:
    for job_type in ("greet", "tell", "fail"):
        queue.enqueue(job_type, {"name": "ann", "words": "hello", "secret": "x"})
    outcome = work(app, "app", "--drain", "--types", "greet,", "--types", " tell", HOWDAH_DSN=dsn)
    assert "greet, tell (" in outcome.err
    stats = queue.stats()
    assert (stats["fail"].pending, stats["greet"].pending, stats["tell"].pending) == (1, 0, 0)


def test_the_database_of_the_command_line_stands_above_the_queues_own(dsn: str, app: Path) -> None:
    app.write_text(APP.replace("JobQueue()", "JobQueue('host=nowhere dbname=nothing', 'other')"))
    with schema_of_its_own(dsn, "cli_work") as schema, JobQueue(dsn, schema) as queue:
        queue.migrate()
        job = queue.enqueue("greet", {"name": "ann"})
        outcome = work(app, "app", "--drain", "--dsn", dsn, "--schema", schema)
        assert outcome.code == 0
        assert queue.get(job.id).status == "completed"
        assert f"schema {schema}" in outcome.err


def test_logging_that_the_user_configured_is_kept_and_the_worker_still_logs(dsn: str, app: Path) -> None:
    choice = (
        "import logging.config\nlogging.config.dictConfig({'version': 1,"
        " 'formatters': {'own': {'format': 'OWN %(name)s %(message)s'}},"
        " 'handlers': {'own': {'class': 'logging.StreamHandler', 'formatter': 'own'}},"
        " 'root': {'level': 'INFO', 'handlers': ['own']}})\n"
    )
    app.write_text(choice + APP)
    outcome = work(app, "app", "--drain", HOWDAH_DSN=dsn)
    assert outcome.code == 0
    assert re.search(r"^OWN howdah\.worker ", outcome.err, flags=re.MULTILINE)


def test_uvloop_is_used_where_it_is_installed(dsn: str, app: Path) -> None:
    app.with_name("uvloop.py").write_text(
        "import asyncio\ndef new_event_loop():\n    print('fast')\n    return asyncio.new_event_loop()\n"
    )
    assert work(app, "app", "--drain", HOWDAH_DSN=dsn).out == "fast\n"


@pytest.mark.parametrize("job_type", ["greet", "mumble"])
def test_a_reader_of_the_logs_that_leaves_early_stops_nothing(
    dsn: str, queue: JobQueue, start: Start, job_type: str
) -> None:
    job = queue.enqueue(job_type, {"name": "ann"} if job_type == "greet" else {}, delay=0.5)
    worker = start("app", "--poll", "0.1s", PYTHONUNBUFFERED="")
    worker.await_line(READY)
    assert worker.process.stdout is not None
    worker.process.stdout.close()
    assert queue.wait_for(job.id, timeout=60).status == "completed"
    worker.signal(signal.SIGTERM)
    assert worker.process.wait(timeout=60) == 0


def test_a_live_worker_is_healthy(dsn: str, queue: JobQueue, start: Start) -> None:
    worker = start("app", "--name", "mail", "--heartbeat", "0.1s", "--lease", "30s")
    worker.await_line(READY)
    until(lambda: any(each.ready for each in queue.workers()))
    for argv in ([], ["--ready"], ["--worker", "mail", "--ready"]):
        outcome = howdah("health", *argv, dsn=dsn)
        assert (outcome.code, outcome.err) == (0, "")
        assert "alive, ready" in outcome.out
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert howdah("health", "--worker", "mail", dsn=dsn).code == 1


# Wrong calls


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nowhere"], "there is no module 'nowhere' in the current directory"),
        (["app:log"], "app:log is a Logger, not a JobQueue; its JobQueue is app:queue"),
        (["empty"], "no handlers"),
        (["app", "--types", "sing"], "no handler for sing"),
        (["app", "--drain", "--reload"], "choose one"),
        (["app", "--processes", "0"], "--processes is 1 or more"),
        (["app", "--lease", "1s", "--heartbeat", "1s"], "the lease must be at least twice the heartbeat"),
        (["app", "--lease", "1s", "--heartbeat", "1s", "--processes", "2"], "the lease must be at least twice"),
        (["app", "--concurrency", "0"], "concurrency"),
        (["app", "--grace", "long"], "is not a duration"),
        (["app", "--quiet", "--log-level", "debug"], "not allowed with"),
        (["nowhere", "--processes", "2"], "there is no module 'nowhere' in the current directory"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_call_exits_with_2_and_names_the_mistake(dsn: str, app: Path, argv: list[str], message: str) -> None:
    app.with_name("empty.py").write_text("from howdah import JobQueue\nqueue = JobQueue()\n")
    outcome = work(app, *argv, HOWDAH_DSN=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_missing_schema_exits_with_3(dsn: str, app: Path, processes: str) -> None:
    outcome = work(app, "app", "--schema", "nowhere", "--processes", processes, HOWDAH_DSN=dsn)
    assert outcome.code == 3
    assert "howdah migrate --schema nowhere" in outcome.err


# Signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_running_jobs_finish(queue: JobQueue, app: Path, start: Start, number: signal.Signals) -> None:
    job = queue.enqueue("wait_for_file", {"path": str(app.with_name("go"))})
    worker = start("app")
    worker.await_line("^running")
    worker.signal(number)
    worker.await_line(STOPPING)
    app.with_name("go").touch()
    assert worker.ended() == 0
    assert queue.get(job.id).status == "completed"


@pytest.mark.parametrize("job_type", ["wait_for_file", "hang"])
def test_the_exit_code_shows_that_the_grace_ran_out(queue: JobQueue, start: Start, job_type: str) -> None:
    job = queue.enqueue(job_type, {"path": "/nowhere"} if job_type == "wait_for_file" else None)
    worker = start("app", "--grace", "0.1s")
    worker.await_line("^running")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 6
    after = queue.get(job.id)
    assert (after.status, after.attempts) == ("pending", 0)


def test_a_second_signal_hurries(queue: JobQueue, start: Start) -> None:
    queue.enqueue("wait_for_file", {"path": "/nowhere"})
    worker = start("app", "--grace", "1h")
    worker.await_line("^running")
    worker.signal(signal.SIGTERM)
    worker.await_line(STOPPING)
    # Before that it would be taken for an echo of the first; several would end the process by the last of them.
    echo_over = time.monotonic() + ECHO
    until(lambda: time.monotonic() > echo_over)
    worker.signal(signal.SIGTERM)
    worker.await_line('"event": "grace_over"')
    assert worker.ended() == 6


def test_sigterm_while_the_module_is_imported_just_ends_it(app: Path, start: Start) -> None:
    app.write_text("import time\nprint('importing', flush=True)\ntime.sleep(3600)\n")
    worker = start("app")
    worker.await_line("importing")
    worker.signal(signal.SIGTERM)
    assert worker.ended() == -signal.SIGTERM


def test_hangup_begins_anew_with_new_code_in_the_same_process(queue: JobQueue, app: Path, start: Start) -> None:
    go = app.with_name("go")
    # What the code does to its process is undone for the next.
    app.write_text(f"{APP}\nprint('old code', os.getpid(), flush=True)\nos.environ['STAINED'] = 'yes'\nos.chdir('/')\n")
    worker = start("app", "--name", "mail")
    old = worker.await_line("^old code")
    job = queue.enqueue("wait_for_file", {"path": str(go)})
    worker.await_line("^running")
    app.write_text(f"{APP}\nprint('new code', os.getpid(), os.environ.get('STAINED'), flush=True)\n")
    worker.signal(signal.SIGHUP)
    worker.await_line(STOPPING)
    go.touch()
    assert worker.await_line("^new code") == old.replace("old", "new") + " None"
    assert queue.get(job.id).status == "completed"
    worker.await_line(READY)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_sigterm_after_a_hangup_ends_the_worker(queue: JobQueue, app: Path, start: Start) -> None:
    queue.enqueue("wait_for_file", {"path": str(app.with_name("go"))})
    worker = start("app")
    worker.await_line("^running")
    worker.signal(signal.SIGHUP)
    worker.await_line(STOPPING)
    worker.signal(signal.SIGTERM)
    until(lambda: not pending(worker.process.pid, signal.SIGTERM))
    app.with_name("go").touch()
    assert worker.ended() == 0
    assert len(re.findall(READY, worker.said)) == 1


# Several processes


def test_the_jobs_of_a_killed_process_come_back_with_its_name_and_not_a_lease_later(
    queue: JobQueue, app: Path, start: Start
) -> None:
    go = app.with_name("go")
    job = queue.enqueue("wait_for_file", {"path": str(go)})
    worker = start("app", "--processes", "2", "--lease", "1h", "--heartbeat", "10m", "--sweep", "1h", "--poll", "0.1s")
    first = worker.await_line("^running")
    os.kill(int(first.split()[1]), signal.SIGKILL)
    worker.await_line("was ended by SIGKILL; starting it again")
    assert worker.await_line("^running") != first
    go.touch()
    assert queue.wait_for(job.id, timeout=60).attempts == 2
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert not queue.workers()


def test_several_processes_drain_the_queue_together(dsn: str, queue: JobQueue, app: Path) -> None:
    queue.enqueue_many("greet", ({"name": str(number)} for number in range(500)))
    outcome = work(app, "app", "--processes", "2", "--drain", "--json", "--name", "mail", HOWDAH_DSN=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    assert queue.stats()["greet"].completed == 500
    assert {line["worker_id"] for line in outcome.lines if "worker_id" in line} == {"mail.1", "mail.2"}


def test_hangup_renews_the_processes_one_after_the_other(queue: JobQueue, app: Path, start: Start) -> None:
    worker = start("app", "--processes", "2", "--name", "mail", "--log-level", "debug")
    for _ in range(2):
        worker.await_line(r"worker \d \(pid \d+\) is ready")
    before = {each.worker_id: each.pid for each in queue.workers()}
    worker.signal(signal.SIGHUP)
    for number in (1, 2):
        worker.await_line(rf"worker {number} \(pid \d+\) is ready")
    after = {each.worker_id: each.pid for each in queue.workers()}
    assert before.keys() == after.keys() == {"mail.1", "mail.2"}
    assert not set(before.values()) & set(after.values())
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0


def test_a_changed_file_restarts_the_worker(queue: JobQueue, app: Path, start: Start) -> None:
    worker = start("app", "--reload")
    worker.await_line(READY)
    app.write_text("import nothing_like_this")
    worker.await_line(r"app\.py has changed: restarting")
    worker.await_line("importing app failed: .*nothing_like_this")
    app.write_text(f"{APP}\nprint('new code', flush=True)")
    worker.await_line("^new code")
    worker.await_line(READY)
    worker.signal(signal.SIGINT)
    assert worker.ended() == 0


def test_workers_end_with_a_killed_supervisor(queue: JobQueue, app: Path, start: Start) -> None:
    worker = start("app", "--processes", "2")
    for _ in range(2):
        worker.await_line(READY)
    worker.signal(signal.SIGKILL)
    worker.ended()
    assert len(re.findall(ENDED, worker.said)) == 2
    assert not queue.workers()


def may_unshare() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not may_unshare(), reason="making a PID namespace (unshare --pid) is not permitted here")
def test_as_pid_1_it_obeys_signals(queue: JobQueue, app: Path, start: Start) -> None:
    job = queue.enqueue("wait_for_file", {"path": str(app.with_name("go"))})
    worker = start("app", wrapper=NAMESPACE)
    worker.await_line("^running")
    first = Path(f"/proc/{worker.process.pid}/task/{worker.process.pid}/children").read_text().split()[0]
    os.kill(int(first), signal.SIGTERM)
    worker.await_line(STOPPING)
    app.with_name("go").touch()
    assert worker.ended() == 0
    assert queue.get(job.id).status == "completed"


# Helpers


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def pending(pid: int, number: signal.Signals) -> bool:
    """Whether a signal still waits for its process."""
    masks = re.findall(r"^(?:Sig|Shd)Pnd:\s+(\w+)", Path(f"/proc/{pid}/status").read_text(), flags=re.MULTILINE)
    return any(int(mask, 16) >> (number - 1) & 1 for mask in masks)
