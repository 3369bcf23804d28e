from __future__ import annotations

import re
import uuid
from unittest import mock

import psycopg
import pytest

from howdah import Job, JobQueue
from tests.cli.runner import failed_job, howdah
from tests.cli.sample import HOSTILE
from tests.cli.test_logs import logged
from tests.cli.test_terminal_escape import dangers
from tests.clock import TestClock
from tests.conftest import Db


def test_everything_of_a_failed_job_can_be_read(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("send_invoice", {"invoice": {"number": 17}}, priority=150, key="k-17", timeout=90)
    for attempt in ("first", "second"):
        (claimed,) = queue.claim(["send_invoice"], worker_id="worker-a")
        queue.start(claimed)
        queue.progress(claimed, 40, "rendering")
        try:
            raise ValueError(f"the {attempt} went wrong")
        except ValueError as error:
            queue.fail(claimed, error, delay=0, give_up=attempt == "second")
    outcome = howdah("show", str(job.id), dsn=dsn)
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "send_invoice  failed",
        str(job.id),
        "150 (explicit)",
        "2 of 3",
        "40%, rendering",
        "k-17",
        "1m",
        '"number": 17',
        "attempt 1 failed",
        "(on worker-a)",
        "ValueError: the first went wrong",
        "ValueError: the second went wrong",
        "Traceback (most recent call last):",
        'raise ValueError(f"the {attempt} went wrong")',
    ):
        assert expected in outcome.out
    timeline, errors = re.split(r"^(?:timeline|errors)$", outcome.out, flags=re.MULTILINE)[1:]
    assert timeline.count("ValueError: the first went wrong") == errors.count("ValueError: the first went wrong") == 1


def test_the_result_of_a_completed_job(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    queue.complete(queue.claim(["x"])[0], {"sum": [1, 2], "name": "Jürgen"})
    outcome = howdah("show", str(job.id), dsn=dsn)
    assert "x  completed" in outcome.out
    assert '"name": "Jürgen"' in outcome.out
    assert "errors" not in outcome.out


def test_a_held_job_has_no_due_time(dsn: str, queue: JobQueue) -> None:
    job = queue.enqueue("x")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE howdah.live SET run_at = 'infinity'")
    assert "never by itself" in howdah("show", str(job.id), dsn=dsn).out
    assert "held" in howdah("list", dsn=dsn).out
    assert howdah("show", str(job.id), "--json", dsn=dsn).lines[0]["run_at"] == "infinity"


def test_json_is_one_object(dsn: str, queue: JobQueue) -> None:
    job = failed_job(queue, "x", "broken", data=[1])
    (shown,) = howdah("show", str(job.id), "--json", dsn=dsn).lines
    assert (shown["id"], shown["data"], shown["last_error"]) == (str(job.id), [1], "broken")


# How far it is


def running(queue: JobQueue, job_type: str = "resize_photo", worker_id: str = "worker-a") -> Job:
    """A job that has been started, and is now the caller's to work on."""
    queue.enqueue(job_type)
    (job,) = queue.claim([job_type], worker_id=worker_id)
    queue.start(job)
    return job


def fact(out: str, name: str) -> str:
    found = re.search(rf"^  {name}  +(.+?) *$", out, flags=re.MULTILINE)
    assert found, out
    return found[1]


def test_the_record_of_a_running_job(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    job = running(queue)
    for done in range(0, 1_000, 100):
        queue.progress(job, stage="decoding", done=done, total=1_000)
        clock.advance(10)
    out = howdah("show", str(job.id), dsn=dsn).out
    assert fact(out, "done") == "90%, decoding"
    assert fact(out, "counted") == "900 of 1,000"
    assert fact(out, "rate") == "10/s"
    assert re.search(r"UTC  \(in .+\)$", fact(out, "done at"))
    assert fact(out, "last report").startswith("20")
    history = fact(out, "history")
    assert re.fullmatch("▁+▂+▃+▄+▅+▆+▇+█+ 1m", history)
    assert re.search(r"^ +━{36} *$", out, flags=re.MULTILINE)


def test_a_stalled_job_is_shown_with_the_time_since_its_last_report(
    dsn: str, queue: JobQueue, clock: TestClock
) -> None:
    job = running(queue)
    queue.progress(job, 10, "decoding")
    clock.advance(3_600)
    out = howdah("show", str(job.id), dsn=dsn).out
    assert out.startswith("resize_photo  running  stalled\n")
    assert "longer than usual" in fact(out, "stalled")
    assert "stalled: it has reported nothing since" in out
    assert "done at" not in out


def test_a_waiting_job_is_shown_with_its_queue_position(dsn: str, queue: JobQueue) -> None:
    queue.enqueue_many("x", ({} for _ in range(3)))
    job = queue.enqueue("x")
    assert fact(howdah("show", str(job.id), dsn=dsn).out, "place").startswith("3 before it, no live worker")
    (shown,) = howdah("show", str(job.id), "--json", dsn=dsn).lines
    assert (shown["place"]["ahead"], shown["place"]["exact"]) == (3, True)


def test_an_error_of_several_lines_is_whole_below_and_one_line_elsewhere(dsn: str, queue: JobQueue, db: Db) -> None:
    try:
        db.execute("SELECT 'nine euros'::int")
    except psycopg.Error as error:
        job = failed_job(queue, "resize_photo", error)
    out = howdah("show", str(job.id), dsn=dsn).out
    told = 'InvalidTextRepresentation: invalid input syntax for type integer: "nine euros"'
    assert fact(out, "last error") == told
    assert f"\n    {told}\n    LINE 1: SELECT 'nine euros'::int\n" in out
    assert "psycopg.errors." not in out, "a class is not torn apart"
    assert "raise " in out
    assert "\\n" not in out + howdah("list", dsn=dsn).out


# The timeline


def timeline_of(out: str) -> list[str]:
    """The texts of the timeline, each with its attempt before it."""
    lines = re.split(r"^[a-z]+$", out.partition("\ntimeline\n")[2], flags=re.MULTILINE)[0].splitlines()
    times = r"^  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\S+ +"
    return [re.sub(times, "", line.rstrip()) for line in lines[1:] if line.strip()]


def test_two_attempts_one_after_the_other(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    job = running(queue)
    clock.advance(1)
    queue.event(job, "decoded", {"photo": 7})
    logged(queue, job, ("INFO", "hidden"), ("WARNING", "slow\nindeed"))
    clock.advance(1)
    queue.fail(job, ValueError("no such photo"), delay=4)
    clock.advance(5)
    (again,) = queue.claim(["resize_photo"], worker_id="worker-b")
    queue.start(again)
    clock.advance(2)
    queue.complete(again)
    out = howdah("show", str(job.id), dsn=dsn).out
    assert timeline_of(out) == [
        "created",
        "due",
        "1  started on worker-a",
        '1  decoded {"photo":7}',
        "1  WARNING app: slow (+1 line)",
        "1  failed: ValueError: no such photo; again in 4.0s",
        "2  started on worker-b",
        "2  completed after 2.0s",
        f"    and 1 log line below WARNING: howdah logs {job.id}",
    ]
    assert "1  INFO app: hidden" in timeline_of(howdah("show", str(job.id), "--logs", dsn=dsn).out)
    after = [line.split()[2] for line in out.partition("timeline\n")[2].splitlines()[1:9]]
    assert after == ["0ms", "0ms", "0ms", "1.0s", "1.0s", "2.0s", "7.0s", "9.0s"]


def test_a_worker_that_died_and_a_new_life_are_in_it(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    job = running(queue)
    queue.event(job, "begun")
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE howdah.live SET lease_until = now() - interval '1 minute', own_write = NOT own_write")
    clock.advance(1)
    queue.recover()
    clock.advance(1)
    queue.cancel(job, "enough")
    clock.advance(1)
    queue.retry(job)
    seen = timeline_of(howdah("show", str(job.id), dsn=dsn).out)
    assert seen[:3] == ["created", "1  started on worker-a", "1  begun"]
    assert seen[3].startswith("1  lease passed: the lease of worker worker-a expired")
    assert seen[4:] == ["1  cancelled: enough", "due", "retried"]


def test_a_long_timeline_is_cut_with_a_hint_for_the_rest(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    with psycopg.connect(dsn) as conn:
        conn.execute(
            "SELECT count(*) FROM generate_series(1, 1200) AS n, LATERAL howdah.record_events("
            "p_ids => ARRAY[%s]::uuid[], p_tokens => ARRAY[%s]::bigint[], p_names => ARRAY['e' || n])",
            (job.id, job.token),
        )
    cut = timeline_of(howdah("show", str(job.id), dsn=dsn).out)
    assert len(cut) == 101
    assert cut[49:52] == ["1  e47", cut[50], "1  e1151"]
    assert cut[50].strip() == f"… 1,103 more: howdah show {job.id} --all"
    assert cut[-1] == "1  e1200"
    assert len(timeline_of(howdah("show", str(job.id), "--all", dsn=dsn).out)) == 1_203


def test_in_a_narrow_terminal_the_day_is_shown_once(dsn: str, queue: JobQueue, clock: TestClock) -> None:
    job = running(queue)
    out = howdah("show", str(job.id), dsn=dsn, COLUMNS="80").out
    header, first, *_ = out.partition("timeline\n")[2].splitlines()
    assert header.split() == [f"{clock.now:%Y-%m-%d}", "(UTC)", "after", "try"]
    assert first.split() == [f"{clock.now:%H:%M:%S}.{clock.now.microsecond // 1000:03}", "0ms", "created"]
    clock.advance(2 * 86_400)
    queue.complete(job)
    assert "time (UTC)" in howdah("show", str(job.id), dsn=dsn, COLUMNS="80").out


def test_json_has_the_record_and_every_event(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.progress(job, 40)
    logged(queue, job, ("DEBUG", "fine"))
    queue.event(job, "decoded", {"photo": 7})
    (shown,) = howdah("show", str(job.id), "--json", dsn=dsn).lines
    assert (shown["record"]["percent"], len(shown["record"]["history"]), shown["stalled"]) == (40, 1, False)
    assert [(each["seq"], each["kind"], each["name"]) for each in shown["events"]] == [
        (1, "log", "DEBUG"),
        (2, "event", "decoded"),
    ]
    assert shown["events"][1]["data"] == {"photo": 7}
    assert shown["place"] is None


def test_a_checkpoint_is_shown_as_such(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    queue.checkpoint(job, {"page": 17})
    assert '\ncheckpoint\n    {\n      "page": 17' in howdah("show", str(job.id), dsn=dsn).out


@pytest.mark.parametrize("columns", ["80", "160"])
def test_nothing_of_others_is_obeyed(dsn: str, queue: JobQueue, columns: str) -> None:
    hostile = HOSTILE.replace("\x00", "")
    printable = re.sub(r"[\x00-\x1f\x7f-\x9f]", "", hostile)
    job = running(queue, printable[:50], printable[:100])
    queue.progress(job, 10, printable[:100])
    queue.event(job, printable[:100], {hostile: [hostile]})
    logged(queue, job, (hostile[:100], hostile), ("ERROR", {"logger": hostile, "message": hostile}))
    queue.fail(job, hostile, give_up=True)
    for argv in ([], ["--logs"], ["--json"]):
        outcome = howdah("show", str(job.id), *argv, dsn=dsn, COLUMNS=columns)
        assert outcome.code == 0
        assert not dangers(outcome.out)
    shown = howdah("show", str(job.id), dsn=dsn, COLUMNS=columns).out
    assert "[bold red]not markup[/]" in shown


def test_few_events_are_held_at_once(dsn: str, queue: JobQueue) -> None:
    job = running(queue)
    for n in range(5):
        queue.event(job, f"e{n}")
    with mock.patch("howdah.cli.commands.logs._PAGE", 2):
        assert timeline_of(howdah("show", str(job.id), dsn=dsn).out)[3:] == [f"1  e{n}" for n in range(5)]


def test_a_job_that_is_not_there_exits_with_1(dsn: str) -> None:
    missing = str(uuid.uuid4())
    outcome = howdah("show", missing, dsn=dsn)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("howdah: ")
    assert missing in outcome.err


@pytest.mark.parametrize("argv", [["show"], ["show", "not-an-id"]])
def test_a_wrong_id_exits_with_2(dsn: str, argv: list[str]) -> None:
    assert howdah(*argv, dsn=dsn).code == 2
