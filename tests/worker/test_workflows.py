"""Workflows, from the block that puts them together to their results, with a real worker."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest

import howdah
from howdah import (
    InvalidArguments,
    InvalidOption,
    Job,
    JobQueue,
    NotEnded,
    QueueFull,
    Results,
    WaitTimeout,
    WorkflowFailed,
)
from howdah.db.plan import Plan, Row
from howdah.encryption import EncryptedCodec, new_key
from howdah.verbs import maps
from howdah.worker.background import workflows
from tests.conftest import Db
from tests.worker import child_handlers
from tests.worker.in_process import beats, drain, run, statuses, until, working


@dataclasses.dataclass
class Chunk:
    first: int
    last: int


@dataclasses.dataclass
class Download:
    chunks: list[Chunk]
    size: int


class Handlers:
    """A queue whose handlers make an import in steps."""

    def __init__(self, dsn: str, codec: Any = None) -> None:
        queue = self.queue = JobQueue(dsn, codec=codec)
        self.cleaned: list[Any] = []
        self.broken = True

        @queue.job
        async def download(url: str) -> Download:
            size = int(url.rpartition("/")[2])
            return Download([Chunk(n, n + 10) for n in range(0, size, 10)], size)

        @queue.job
        def parse(chunk: Chunk, factor: int = 1) -> int:
            return factor * sum(range(chunk.first, chunk.last))

        @queue.job
        def merge(parts: list[int], size: int = 0) -> dict[str, int]:
            return {"total": sum(parts), "parts": len(parts), "size": size}

        @queue.job(max_attempts=1)
        def fragile(number: int = 1) -> int:
            if self.broken:
                raise ValueError("it is broken")
            return number

        @queue.job
        def clean(of: int | None = None) -> None:
            self.cleaned.append(of)

        @queue.job
        def count(parts: Results[int]) -> list[int]:
            return [len(parts), sum(parts), sum(parts)]

        @queue.job(unique=True)
        def only_once(of: int) -> None:
            self.cleaned.append(of)

        self.only_once = only_once

        @queue.job
        def note(of: Download) -> None:
            self.cleaned.append(of.size)

        self.note = note
        self.download, self.parse, self.merge, self.fragile, self.clean, self.count = (
            download,
            parse,
            merge,
            fragile,
            clean,
            count,
        )


@pytest.fixture(params=[None, EncryptedCodec(new_key())], ids=["plain", "encrypted"])
def made(dsn: str, request: pytest.FixtureRequest) -> Iterator[Handlers]:
    made = Handlers(dsn, request.param)
    with made.queue:
        yield made


def test_results_arrive_as_typed_arguments_through_a_map_and_its_join(made: Handlers) -> None:
    with made.queue.workflow("import", data={"file": 17}) as flow:
        fetch = flow.add(made.download, url="x/100")
        parts = flow.map(made.parse, fetch.result["chunks"], factor=2)
        total = flow.add(made.merge, parts=parts, size=fetch.result["size"])
        flow.add(made.clean, after=[total], when="always")
        wrapped = flow.add(made.count, parts=parts)
    assert flow.created
    assert (flow.status(), flow.progress().total) == ("running", 4)
    drain(made.queue)
    workflow = flow.wait_for(10)
    assert (workflow.status, workflow.data, workflow.progress.percent) == ("completed", {"file": 17}, 100.0)
    assert [(node.name, node.status, node.progress.completed) for node in flow.nodes()] == [
        ("download", "completed", 1),
        ("parse", "completed", 10),
        ("merge", "completed", 1),
        ("clean", "completed", 1),
        ("count", "completed", 1),
    ]
    merged = next(node for node in flow.nodes() if node.name == "merge")
    assert merged.first_id is not None
    assert made.queue.get(merged.first_id).result == {"total": 9900, "parts": 10, "size": 100}
    counted = next(node for node in flow.nodes() if node.name == wrapped.name)
    assert counted.first_id is not None
    assert made.queue.get(counted.first_id).result == [10, 9900, 9900]
    assert made.cleaned == [None]
    assert flow.value() is None


def test_short_forms_pass_results_on(made: Handlers) -> None:
    chain = howdah.chain(made.download.call(url="x/20"), made.note).enqueue()
    chords = howdah.group(made.parse.call(chunk=Chunk(n, n + 2)) for n in range(3)).then(made.merge).enqueue("sum")
    mixed = (
        howdah.group([made.parse.call(Chunk(0, 3)), made.fragile.using(priority=7).call(number=5)])
        .then(made.merge)
        .enqueue()
    )
    made.broken = False
    drain(made.queue)
    assert chain.status() == "completed"
    assert made.cleaned == [20]
    assert chords.value() == {"total": 9, "parts": 3, "size": 0}
    assert mixed.value() == {"total": 8, "parts": 2, "size": 0}
    assert made.queue.workflows.get("sum").id == chords.id
    assert made.queue.workflows.get(str(chords.id)).get().name == "sum"


def test_a_failing_child_ends_the_chord_and_retry_goes_on_from_there(made: Handlers) -> None:
    with made.queue.workflow("chord", key="k") as flow:
        ones = flow.map(made.fragile, range(3))
        total = flow.add(made.merge, parts=ones)
        flow.add(made.clean, total.result["total"], when="always")
        flow.add(made.clean, after=ones, when="failure", name="report")
    with made.queue.workflow("chord", key="k") as again:
        again.add(made.clean)
    assert (again.created, again.id) == (False, flow.id)
    with pytest.raises(WaitTimeout):
        flow.wait_for(0.05)
    with pytest.raises(NotEnded):
        flow.value()
    drain(made.queue)
    workflow = flow.wait_for(10)
    assert (workflow.status, workflow.error) == ("failed", "node fragile failed")
    assert {node.name: node.status for node in flow.nodes()} == {
        "fragile": "failed", "merge": "skipped", "clean": "completed", "report": "completed",
    }  # fmt: skip
    with pytest.raises(WorkflowFailed, match="node fragile failed"):
        flow.value()
    assert made.cleaned == [None, None]
    made.broken = False
    # Report ran before, and completed: it stays as it is.
    assert flow.retry() == 2
    drain(made.queue)
    assert flow.status() == "completed"
    node = next(node for node in flow.nodes() if node.name == "merge")
    assert node.first_id is not None
    assert made.queue.get(node.first_id).result == {"total": 3, "parts": 3, "size": 0}
    assert [each.id for each in made.queue.workflows.list(name="chord", status="completed")] == [flow.id]


def test_cancel_ends_it_and_a_map_over_nothing_or_no_list(made: Handlers) -> None:
    with made.queue.workflow("empty") as empty:
        fetch = empty.add(made.download, url="x/0")
        empty.add(made.merge, parts=empty.map(made.parse, fetch.result["chunks"]))
    with made.queue.workflow("wrong") as wrong:
        fetch = wrong.add(made.download, url="x/10")
        wrong.add(made.merge, parts=wrong.map(made.parse, fetch.result["size"]))
    with made.queue.workflow("missing") as missing:
        fetch = missing.add(made.download, url="x/10")
        missing.add(made.fragile, number=fetch.result["pages"])
    with made.queue.workflow("cancelled") as cancelled:
        fetch = cancelled.add(made.download, url="x/10")
        cancelled.map(made.parse, fetch.result["chunks"])
    assert cancelled.cancel("not today")
    drain(made.queue)
    assert empty.value() == {"total": 0, "parts": 0, "size": 0}
    assert (wrong.status(), wrong.nodes()[1].error) == ("failed", "a map needs a list, and the result is a int")
    assert missing.status() == "failed"
    (job,) = made.queue.list(job_type="fragile")
    assert "the result of download has no 'pages'" in (job.last_error or "")
    assert (cancelled.get().status, cancelled.get().cancel_reason) == ("cancelled", "not today")


def test_a_pruned_result_fails_the_job_that_needs_it(made: Handlers, db: Db) -> None:
    with made.queue.workflow("w") as flow:
        flow.add(made.merge, parts=flow.map(made.parse, [Chunk(0, 1), Chunk(1, 2)], name="parse"))
    drain(made.queue, types=["parse"])
    db.execute("DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE job_type = 'parse' LIMIT 1)")
    drain(made.queue)
    (job,) = made.queue.list(job_type="merge")
    assert job.status == "failed"
    assert "1 of the results of parse are no longer there" in (job.last_error or "")
    assert flow.status() == "failed"


def test_nodes_of_a_unique_type_may_run_together_with_unique_off(made: Handlers) -> None:
    with made.queue.workflow("w") as flow:
        flow.map(made.only_once, [7, 7], options={"unique": False})
        flow.add(made.only_once.using(unique=False), of=8)
    drain(made.queue)
    assert (flow.status(), sorted(made.cleaned)) == ("completed", [7, 7, 8])


def test_jobs_that_wait_for_no_other_observe_the_bound_of_their_type(made: Handlers, db: Db) -> None:
    made.queue.limits.set_max_pending("clean", 2)
    made.clean.enqueue()
    with made.queue.workflow("fits") as flow:
        first = flow.add(made.clean)
        flow.add(made.clean, name="later", after=first)
    flow = made.queue.workflow("w")
    flow.add(made.download, url="x/10")
    flow.add(made.clean)
    with pytest.raises(QueueFull, match="another job of type clean: "), flow:
        pass
    assert [each.name for each in made.queue.workflows.list()] == ["fits"]
    assert db.execute("SELECT FROM live WHERE job_type = 'download'").fetchall() == []


def test_what_is_wrong_is_refused_when_it_is_added(made: Handlers, db: Db) -> None:
    flow = made.queue.workflow("w")
    fetch = flow.add(made.download, url="x/10")
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: flow.add(made.download), "missing argument 'url'"),
        (lambda: flow.add(made.download, url=7), "argument 'url': Expected `str`, got `int`"),
        (lambda: flow.add(made.download, url=fetch), "argument 'url' is a string, and the results of download are object"),
        (lambda: flow.add(made.merge, parts=fetch), "is a list, and the results of download are object"),
        (lambda: flow.add(made.fragile, number=flow.map(made.fragile, [1])), "is a number, and the results of fragile are lists"),
        (lambda: flow.map(made.parse, fetch), "a map needs a list, and download returns object"),
        (lambda: flow.add(made.merge, parts=[fetch, 1]), "either handles or values"),
        (lambda: flow.add(made.merge, parts=[{"x": fetch}]), "cannot be inside"),
        (lambda: flow.add(made.merge, parts=[], sice=1), "unknown argument 'sice'"),
        (lambda: flow.add(made.clean, when=cast(Any, "never")), "when is"),
        (lambda: flow.add(made.clean, when="failure"), "has none"),
        (lambda: flow.add(made.clean, name="download"), "two nodes"),
        (lambda: flow.add(made.clean, options={"unique": True}), "unique: .* let the whole workflow be there once"),
        (lambda: flow.add(made.clean, options={"debounce": 5}), "debounce: .*not compared with others"),
        (lambda: flow.add(made.clean.using(key="k")), r"key: .* give the workflow one, queue.workflow\(…, key=…\)"),
        (lambda: flow.add(made.clean, options={"colour": "red"}), "colour: not an option"),
        (lambda: flow.add(made.only_once, of=1), r'pass options={"unique": False} if it may run beside others'),
        (lambda: flow.map(made.only_once, [1]), "only_once is declared with unique"),
        (lambda: flow.add(made.count, parts=fetch.result["chunks"]), "is Results"),
        (lambda: list(fetch.result), "not known yet"),
        (lambda: flow.add(made.clean, after=cast(Any, [7])), "after takes handles"),
    ]  # fmt: skip
    for attempt, message in wrong:
        with pytest.raises((InvalidArguments, InvalidOption), match=message):
            attempt()
    with pytest.raises(RuntimeError, match="on purpose"), flow:
        raise RuntimeError("on purpose")
    assert db.execute("SELECT FROM workflows").fetchall() == []
    assert db.execute("SELECT FROM live").fetchall() == []


def test_it_is_part_of_the_callers_transaction(made: Handlers, dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        with made.queue.workflow("w", conn=conn) as flow:
            flow.add(made.clean, of=1)
        assert made.queue.workflows.list() == []
        conn.rollback()
        assert made.queue.workflows.list() == []
        with made.queue.workflow("w", conn=conn) as flow:
            flow.add(made.clean, of=2)
    drain(made.queue)
    assert flow.status() == "completed"
    assert made.cleaned == [2]


def test_async_with_a_worker_beside_it(made: Handlers) -> None:
    async def main() -> Any:
        async def items() -> Any:
            for n in range(3):
                yield Chunk(n, n + 1)

        async with working(made.queue, sweep=0.2):
            async with made.queue.workflow("w") as flow:
                fetch = flow.add(made.download, url="x/30")
                both = [flow.map(made.parse, fetch.result["chunks"]), flow.map(made.parse, items())]
                flow.group([made.clean.call(of=1), made.clean.call(of=2)], after=both)
            assert (await flow.await_for(30)).status == "completed"
            assert (await flow.aprogress()).completed == 9
            return await flow.avalue()

    assert run(main()) == [None, None]
    assert sorted(made.cleaned) == [1, 2]
    run(made.queue.aclose())


def test_a_worker_that_drains_does_not_ask_for_workflows_again_and_again_while_jobs_run(
    queue: JobQueue, db: Db, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Plan[Row]] = []

    def advance() -> Plan[Row]:
        looks.append(maps.advance())
        return looks[-1]

    monkeypatch.setattr(workflows, "advance", advance)

    async def main() -> None:
        go_on = asyncio.Event()

        @queue.job
        async def stays() -> None:
            await go_on.wait()

        await queue.aenqueue("stays")
        async with working(queue, drain=True) as worker:
            await until(lambda: statuses(db, "stays") == {"running": 1})
            before = len(looks)
            await beats(db, worker, 3)
            assert len(looks) - before <= 1
            go_on.set()
            await until(lambda: statuses(db, "stays") == {"completed": 1})

    run(main())


def test_results_are_read_a_page_at_a_time(made: Handlers) -> None:
    with made.queue.workflow("w") as flow:
        flow.add(made.count, parts=flow.map(made.parse, [Chunk(0, 2)] * 2500))
    drain(made.queue)
    assert flow.value() == [2500, 2500, 2500]


# Spawned jobs


def test_a_spawned_job_belongs_to_its_node_and_a_failed_attempt_spawns_nothing(dsn: str) -> None:
    with JobQueue(dsn) as queue:
        seen: list[Any] = []

        @queue.job
        async def page(url: str, depth: int) -> str:
            seen.append(url)
            return url

        @queue.job(max_attempts=2, retry=[0])
        def crawl(job: Job, url: str, depth: int) -> int:
            if depth:
                job.spawn(crawl, url=f"{url}/{depth}", depth=depth - 1)
                job.spawn_many(
                    page, [{"url": f"{url}/a", "depth": 0}, {"url": f"{url}/b", "depth": 0}], options={"priority": 7}
                )
            if job.attempts == 1:
                raise ValueError("the first attempt fails")
            return depth

        @queue.job
        def report(depth: int) -> list[str]:
            return sorted(seen)

        with queue.workflow("crawl") as flow:
            flow.add(report, flow.add(crawl, url="x", depth=2))
        for _ in range(6):
            drain(queue)
        assert flow.value() == ["x/2/a", "x/2/b", "x/a", "x/b"]
        assert flow.progress().completed == 8
        plain = crawl.enqueue(url="y", depth=1)
        for _ in range(3):
            drain(queue)
        spawned = [job for job in queue.list() if job.data.get("url", "").startswith("y/")]
        assert {job.parent_id for job in spawned} == {plain.id}
        assert [job.status for job in spawned] == ["completed"] * 3


def test_spawning_is_part_of_a_completion_in_the_callers_transaction(dsn: str) -> None:
    with JobQueue(dsn) as queue:
        ends = iter([False, True])

        @queue.job
        def child() -> None: ...

        @queue.job(retry=[0])
        def parent(job: Job) -> None:
            with psycopg.connect(dsn) as conn:
                job.spawn(child)
                job.complete(conn=conn)
                if not next(ends):
                    conn.rollback()
                    raise ValueError("rolled back")

        with queue.workflow("w") as flow:
            flow.add(parent)
        for _ in range(3):
            drain(queue)
        assert [job.status for job in queue.list(job_type="child")] == ["completed"]
        assert (flow.status(), flow.progress().completed) == ("completed", 2)


@pytest.mark.parametrize("place", ["process", "suspect", "thread"])
def test_jobs_spawned_in_a_child_process_are_added_as_anywhere_else(dsn: str, db: Db, place: str) -> None:
    """A suspect, which was running when a worker died, runs in a child, too."""
    queue = child_handlers.connected(dsn)
    parent = child_handlers.spawns_in_process if place == "process" else child_handlers.spawns_in_thread
    attempts = {"return": 1, "raise": 2, "complete": 1, "roll back": 2, "refused": 1}
    plain = {parent.enqueue(how=how, dsn=dsn).id for how in attempts}
    with queue.workflow("w") as flow:
        for how in attempts:
            flow.add(parent, how=how, dsn=dsn)
    if place == "suspect":
        db.execute("UPDATE howdah.live SET crashes = 1")
    for _ in range(4):
        if queue.list(status="pending"):
            drain(queue, types=[parent.name, "spawned"], children=1)
    parents = queue.list(job_type=parent.name)
    added = queue.list(job_type="spawned")
    assert {job.status for job in (*parents, *added)} == {"completed"}
    assert len(added) == 30
    for job in parents:
        assert job.attempts == attempts[job.data["how"]], job.data
        assert (job.result == f"pid {os.getpid()}") == (place == "thread"), job.data
        of_it = [each for each in added if each.parent_id == job.id]
        assert sorted(each.result for each in of_it) == [1, 3, 2**70], job.data
        assert {each.data["number"]: each.priority for each in of_it}[3] == 7
        assert {each.workflow_id for each in of_it} == {None if job.id in plain else flow.id}
    assert (flow.status(), flow.progress().completed) == ("completed", 20)


@pytest.mark.parametrize("in_child", [True, False])
def test_middleware_that_turns_a_failure_into_a_result_keeps_what_was_spawned(
    dsn: str, queue: JobQueue, in_child: bool
) -> None:
    @queue.middleware
    async def forgiving(job: Job, call_next: Callable[[Job], Any]) -> Any:
        try:
            return await call_next(job)
        except Exception:  # noqa: BLE001
            return "forgiven"

    name = "spawns_in_process" if in_child else "spawns_in_thread"
    parent = queue.job(process=in_child, name=name)(child_handlers.spawns)
    job = parent.enqueue(how="raise", dsn=dsn)
    drain(queue, children=1)
    assert queue.get(job).result == "forgiven"
    assert [each.parent_id for each in queue.list(job_type="spawned")] == [job.id] * 3
