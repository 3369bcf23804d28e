"""The case of a worker that writes nonsense wherever a worker may write, and of an owner that writes it everywhere else."""

from __future__ import annotations

import contextlib
import itertools
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

from howdah import JobNotFound, JobQueue
from howdah.cli.commands.top import job_types, jobs, workers
from howdah.cli.commands.top.cells import Column, ordered
from howdah.cli.commands.top.snapshot import RUNNING, Rates, take
from tests.cli.runner import howdah
from tests.faults.case import case
from tests.faults.contention import Db, connected
from tests.faults.stage import Stage
from tests.worker.processes import PATIENCE, until

T = TypeVar("T")

JSON: Final[Sequence[Any]] = (
    "null",
    "true",
    "-1",
    "1e-400",
    "1e400",
    "1e5000",
    '"x"',
    '"0001-01-01T00:00:00+14:00"',
    "[]",
    "[null, [1]]",
    "{}",
    '{"newer": 1e5000}',
    "[" * 6_000 + "]" * 6_000,
)
NUMBERS: Final[Sequence[Any]] = ("NaN", "Infinity", "5e-324", "1e308", "-1", None)
TEXTS: Final[Sequence[Any]] = ("", "\x1b]0;owned\x07\r\n[bold red]alarm[/]", "\u202e\u2028", "x" * 2_000_000)
SPANS: Final[Sequence[Any]] = (
    "178000000 years",
    "-1 second",
    "1 microsecond",
    "36500 days",
    "1200 months -1 day",
    None,
)
WHOLE: Final[Sequence[Any]] = (-(2**31), -1, 2**31 - 1)
TYPES: Final[Sequence[Any]] = ("{NULL}", "{}", "{{a,b},{c,NULL}}", "[7:8]={work,x}", '{""}')
MOMENTS: Final[Sequence[Any]] = (
    "infinity",
    "-infinity",
    "294275-01-01",
    "4713-01-01 BC",
    "0001-01-01 00:00+15",
    "9999-12-31 23:59-15",
)
PACES: Final = (
    "%s",
    '{"work": %s}',
    '{"work": {"per_second": %s}}',
    '{"work": {"per_second": 1, "run": %s}}',
    '{"work": {"per_second": 1, "wait": 0, "newer": %s}}',
)
REPORT: Final = (
    '{"at": %s, "first": 1, "stalls": 1}',
    '{"at": 1, "stalls": %s, "eta": 1, "percent": 5}',
    '{"at": 1, "first": %s, "eta": %s, "percent": %s, "attempt": %s, "done": %s, "total": %s, "rate": %s, "pace": %s}',
    '{"at": 1, "points": [[%s, 1, 1], [1, %s, 1], [1, 1, %s], %s], "step": %s, "gap": %s}',
    '{"at": 1, "seq": %s, "told": %s, "moved": %s, "since": %s}',
)
ERRORS: Final = (
    '[{"attempt": %s, "at": "2026-01-01", "kind": "failed", "error": "x"}]',
    '[{"attempt": 1, "at": %s, "kind": %s, "error": %s}]',
)

ME: Final = "%(me)s, %(boot)s"
HELD: Final = "ARRAY[%(id)s]::uuid[], ARRAY[%(token)s]::bigint[]"
REFUSALS: Final = ("JQ", "22", "23", "42501", "54")
"""A refusal has a message of ours, or is one of no value of its type, of a constraint, of a missing privilege, or of a limit."""


class Lie(NamedTuple):
    """A statement with a value that makes no sense. It may be refused."""

    statement: str
    value: Any
    by_hand: bool = False


def lies() -> Iterator[Sequence[Lie]]:
    """Of each statement, those with all its values."""
    for statement, values in by_functions():
        yield [Lie(f"SELECT howdah.{statement}", value) for value in values]
    for statement, values in by_plain_sql():
        yield [Lie(statement, value) for value in values]
    for statement, values in by_hand():
        yield [Lie(f"UPDATE howdah.{statement}", value, by_hand=True) for value in values]


def by_functions() -> Iterator[tuple[str, Iterable[Any]]]:
    """What the role of workers may call."""
    for pace in PACES:
        yield f"heartbeat({ME}, p_throughput => %(value)s)", each_with(pace)
    for name, values in (("running", WHOLE), ("leaked", WHOLE), ("since_claim", SPANS), ("loop_lag", SPANS)):
        yield f"heartbeat({ME}, p_{name} => %(value)s)", values
    for name, values in (
        ("meta", each_with("%s", '{"schedules": %s}')),
        ("job_types", TYPES),
        ("host", TEXTS),
        ("version", TEXTS),
        ("pid", WHOLE),
        ("capacity", WHOLE),
    ):
        yield f"register_worker({ME}, p_lease => '1 day', p_{name} => %(value)s)", values
    yield f"register_worker({ME}, p_lease => %(value)s)", SPANS
    said = "(%(value)s::float8[])"
    yield (
        f"progress({HELD}, {said}[1:1], NULL, {said}[2:2], {said}[3:3])",
        map(list, itertools.product(NUMBERS, repeat=3)),
    )
    yield f"progress({HELD}, NULL, ARRAY[%(value)s])", TEXTS
    yield f"record_events({HELD}, ARRAY['said'], ARRAY[%(value)s]::jsonb[])", JSON
    yield f"record_events({HELD}, ARRAY[%(value)s])", TEXTS
    yield f"record_events({HELD}, ARRAY['said'], p_kinds => ARRAY[%(value)s])", ("status", "", None)
    yield f"record_events({HELD}, ARRAY['said'], p_ages => ARRAY[%(value)s]::interval[])", SPANS
    yield f"record_events({HELD}, ARRAY['said'], p_numbers => ARRAY[%(value)s]::int[])", WHOLE
    yield "checkpoint(%(id)s, %(token)s, %(value)s)", JSON
    yield f"complete({HELD}, ARRAY[%(value)s]::jsonb[])", JSON
    yield f"fail({HELD}, ARRAY[%(value)s])", TEXTS
    yield "enqueue('added', p_meta => %(value)s)", JSON


def by_plain_sql() -> Iterator[tuple[str, Iterable[Any]]]:
    """What the same role may write without them, and what it may not."""
    for column, values in (("created_at", MOMENTS), ("priority", WHOLE), ("max_attempts", WHOLE), ("data", JSON)):
        yield f"INSERT INTO howdah.jobs (job_type, {column}) VALUES ('added', %(value)s)", values
    yield "UPDATE howdah.workers SET throughput = %(value)s WHERE worker_id = %(me)s", ["7"]
    yield "UPDATE howdah.live SET progress_report = %(value)s WHERE id = %(id)s", ["7"]
    yield "UPDATE howdah.jobs SET progress = %(value)s WHERE id = %(id)s", [101]
    yield "INSERT INTO howdah.events_open (job_id, data) VALUES (%(id)s, %(value)s)", ["7"]


def by_hand() -> Iterator[tuple[str, Iterable[Any]]]:
    """What a newer version's worker may have written, or is in a dump."""
    moments = ("heartbeat_at", "fresh_since", "registered_at", "started_at", "last_claim_at")
    for column, values in (
        *(("throughput", each_with(pace)) for pace in PACES),
        ("meta", JSON),
        ("job_types", TYPES),
        ("lease", SPANS),
        ("loop_lag", SPANS),
        *((column, MOMENTS) for column in moments),
    ):
        yield f"workers SET {column} = %(value)s WHERE worker_id = %(me)s", values
    report = "%(value)s::jsonb || jsonb_build_object('token', token)"
    for column, value, values in (
        ("progress_report", "%(value)s", JSON),
        ("progress_report", report, each_with(*REPORT)),
        ("errors", "%(value)s", (*JSON, *each_with(*ERRORS))),
        *((column, "%(value)s", JSON) for column in ("checkpoint", "result", "meta", "retry_policy")),
        *((column, "%(value)s", MOMENTS) for column in ("created_at", "started_at", "claimed_at")),
    ):
        yield f"live SET {column} = {value}, own_write = NOT own_write WHERE id = %(id)s", values
    yield "events SET data = %(value)s WHERE job_id = %(id)s", JSON


def each_with(*forms: str) -> list[str]:
    return [form.replace("%s", value) for form in forms for value in JSON]


@case(52, "liar", checks="I1 I2 I3 I4 I5 I7", own_server=True, roles=True, fails="lied added")
def liar(stage: Stage) -> None:
    """One worker reports nonsense of its jobs and of itself, by its functions, by plain SQL and by hand: every other reader still works."""
    # A sweep by hand declares any silent worker dead, and a busy machine may delay a heartbeat.
    honest = stage.start(stage.scaled(2, 1), concurrency=20, lease=30)
    told = [lie for same in lies() for lie in stage.scaled(same, stage.chance.sample(same, min(3, len(same))))]
    patient, waiting = stage.enqueue("patient"), stage.enqueue("work", delay=3_600)
    until(lambda: stage.fleet.ledger.count("START") == 1, "a worker has it")
    with logged_in(stage, "worker") as dsn, logged_in(stage, "viewer") as viewer, watched(stage, patient):
        with psycopg.connect(dsn, autocommit=True, row_factory=dict_row) as lying:
            for number, some in enumerate(batches(told, 25)):
                held = [tell(stage, lying, f"liar {number}.{each}", lie) for each, lie in enumerate(some)]
                for reader in (stage.dsn, viewer):
                    with undisturbed_by(some):
                        read_everything(stage, reader, patient, waiting, held)
                stage.queue.wait_for(stage.enqueue("work"), timeout=PATIENCE)
                everything_goes_on(stage, held)
        stage.fleet.ledger.say("finish")
        stage.queue.reschedule(waiting, delay=0)
    stage.fleet.await_drained()
    for worker in honest:
        assert worker.is_running
        assert "Traceback" not in worker.log, worker.log


@contextlib.contextmanager
def undisturbed_by(some: Sequence[Lie]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        told = "\n".join(f"{lie.statement} {str(lie.value)[:100]!r}" for lie in some)
        raise AssertionError(f"{type(error).__name__}: {error}. One of these is the reason:\n{told}") from error


def tell(stage: Stage, lying: Db, me: str, lie: Lie) -> uuid.UUID:
    """Registers a worker that has a job, and lets it lie. Returns the job."""
    # Before those that a detected lie has put back.
    id, boot = stage.enqueue("lied", priority=1_000 + stage.faults), uuid.uuid4()
    lying.execute("SELECT howdah.register_worker(%s, %s, '1 day', ARRAY['work', 'lied'], p_capacity => 3)", (me, boot))
    claimed = lying.execute(
        "SELECT id, token FROM howdah.claim(%s, ARRAY['lied'], 1, 1, p_incarnation => %s)", (me, boot)
    ).fetchall()
    assert [job["id"] for job in claimed] == [id]
    lying.execute("SELECT howdah.record_events(ARRAY[%(id)s], ARRAY[%(token)s], ARRAY['said'])", claimed[0])
    with contextlib.ExitStack() as stack:
        conn = stack.enter_context(connected(stage)) if lie.by_hand else lying
        try:
            conn.execute(lie.statement.encode(), {"me": me, "boot": boot, "value": lie.value, **claimed[0]})
        except psycopg.Error as error:
            assert (error.sqlstate or "").startswith(REFUSALS), f"{lie}: {error}"
    stage.fault()
    return id


def read_everything(stage: Stage, dsn: str, running: uuid.UUID, waiting: uuid.UUID, lied: Sequence[uuid.UUID]) -> None:
    """The verbs that read, the commands, and the tables of ``top``."""
    with JobQueue(dsn) as queue:
        known = {worker.worker_id: worker for worker in queue.workers()}
        assert {worker.name for worker in stage.fleet.workers} <= known.keys()
        for brief in (True, False):
            assert set(lied) <= {job.id for job in queue.list(limit=500, brief=brief)}
            assert running in {job.id for job in queue.list(status="running", limit=500, brief=brief)}
        assert queue.stats()["patient"].running == 1
        for id in (running, waiting, *lied):
            job = queue.get(id)
            repr((job.record, job.errors, job.meta, job.retry_policy, job.resumed, job.result))
            assert queue.events(id) is not None
            next(iter(queue.watch(id)))
        assert queue.queue_position(waiting) is not None
        unseen = queue.doctor().unseen
        assert dsn != stage.dsn or unseen == [], unseen
        top_reads(queue)
    for command in (["health", "--any"], ["top"], ["list"], ["show", str(lied[-1])], ["stats"]):
        for form in ([], ["--json"]):
            shown = howdah(*command, *form, dsn=dsn)
            assert shown.code == 0, f"{command}: {shown.err}"


def top_reads(queue: JobQueue) -> None:
    snapshot = take(queue, RUNNING, 500)
    table(job_types.COLUMNS, job_types.rows_of(snapshot, Rates()))
    table(jobs.COLUMNS[RUNNING.name], jobs.rows_of(snapshot))
    table(workers.COLUMNS, workers.rows_of(snapshot))


def table(columns: Sequence[Column[T]], rows: Sequence[T]) -> None:
    """Every cell, the order by each column, and what a filter looks at."""
    for column in columns:
        for row in ordered(rows, column, backwards=False):
            assert "\x1b" not in column.cell(row).plain
    for each in rows:
        str(each.words)  # type: ignore[attr-defined]


def everything_goes_on(stage: Stage, ids: Sequence[uuid.UUID]) -> None:
    """The sweep, and the ends of what the liar has; what it has added besides is cancelled."""
    stage.queue.recover()
    stage.queue.prune(keep=timedelta(days=1))
    held = stage.execute("SELECT id, token FROM howdah.live WHERE id = ANY (%s) AND status <> 'pending'", list(ids))
    ends = [row["id"] for row in held], [row["token"] for row in held]
    assert len(stage.execute("SELECT howdah.complete(%s, %s)", *ends)) == len(held)
    for row in stage.execute("SELECT id FROM howdah.live WHERE job_type = ANY ('{lied,added}')"):
        with contextlib.suppress(JobNotFound):
            stage.queue.cancel(row["id"])
    stage.execute("DELETE FROM howdah.workers WHERE worker_id LIKE 'liar %%' RETURNING 1 AS gone")


@contextlib.contextmanager
def logged_in(stage: Stage, role: str) -> Iterator[str]:
    """The DSN of a login that is a member of the role."""
    with connected(stage) as conn:
        conn.execute(f"CREATE ROLE lying_{role} LOGIN IN ROLE howdah_{role}".encode())
        try:
            yield make_conninfo(stage.dsn, user=f"lying_{role}")
        finally:
            conn.execute(f"DROP ROLE lying_{role}".encode())


@contextlib.contextmanager
def watched(stage: Stage, id: uuid.UUID) -> Iterator[None]:
    """One thread watches a job, and one watches all of them: both see what comes after the lies."""
    seen: list[str] = []

    def watch_one() -> None:
        updates = list(stage.queue.watch(id))
        seen.append(str(updates[-1].job and updates[-1].job.status))

    def watch_all() -> None:
        for update in stage.queue.watch_all(after=""):
            # Of a job that reports nothing, the end is no event.
            if update.job_type == "reports" and update.kind == "status":
                seen.append(str(update.name))
                return

    threads = [threading.Thread(target=each, daemon=True) for each in (watch_one, watch_all)]
    for thread in threads:
        thread.start()
    yield
    stage.enqueue("reports")
    for thread in threads:
        thread.join(PATIENCE)
    assert seen == ["completed"] * 2, f"the watchers have seen {seen}"


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (items[start : start + size] for start in range(0, len(items), size))
