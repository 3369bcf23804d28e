"""``flow.watch`` and ``flow.wait_for``: the updates of a workflow and of its jobs, until it has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from howdah import InvalidOption, JobQueue, Update, WaitTimeout, WorkflowNotFound
from howdah.verbs.flows import Flow
from howdah.watch import hub, mailbox
from tests.client.listener import FLAVOURS, PATIENCE, Listener, has, held, names
from tests.conftest import Db

every_flavour = pytest.mark.parametrize("flavour", FLAVOURS)


def two_and_a_join(queue: JobQueue) -> Flow:
    with queue.workflow("import") as flow:
        flow.add("merge", after=[flow.add("fetch", name="one"), flow.add("fetch", name="two")])
    return flow


def run(queue: JobQueue, job_type: str, event: str = "done") -> None:
    """The completion of a job that never reported anything is no event."""
    for job in queue.claim([job_type], 100):
        queue.start(job)
        queue.event(job, event)
        queue.complete(job)


def wholes(updates: Sequence[Update]) -> list[tuple[str, int]]:
    """The status of the whole and how many of its jobs have ended, in the order of the updates."""
    return [(each.workflow.status, each.workflow.progress.ended) for each in updates if each.workflow is not None]


def statuses(flow: Flow, updates: Sequence[Update]) -> list[tuple[str, str | None]]:
    return [
        ("whole" if each.job_id == flow.id else each.job_type, each.name) for each in updates if each.kind == "status"
    ]


ALL_STATUSES = [
    ("whole", "running"),
    ("fetch", "completed"),
    ("fetch", "completed"),
    ("merge", "completed"),
    ("whole", "completed"),
]


@every_flavour
def test_updates_of_its_jobs_and_of_the_whole_come_until_it_has_ended(queue: JobQueue, flavour: str) -> None:
    queue.event(held(queue, "fetch"), "of another job")
    flow = two_and_a_join(queue)
    with Listener(flow, flavour, "watch") as listener:  # type: ignore[arg-type]
        listener.until(has("running"))
        run(queue, "fetch", event="fetched")
        listener.until(lambda updates: ("running", 2) in wholes(updates))
        run(queue, "merge", event="merged")
        updates = listener.ended()
    ours = {job.id for job in queue.list(limit=100) if job.workflow_id == flow.id} | {flow.id}
    assert {each.job_id for each in updates} == ours
    assert wholes(updates)[0] == ("running", 0)
    assert names(updates) == ["fetched", "fetched", "merged"]
    assert statuses(flow, updates) == ALL_STATUSES
    last = updates[-1]
    assert last.workflow is not None
    assert (last.kind, last.workflow.status, last.workflow.progress.completed) == ("progress", "completed", 3)


@every_flavour
def test_one_that_has_ended_is_read_from_its_beginning(queue: JobQueue, flavour: str) -> None:
    before = held(queue, "fetch")
    queue.event(before, "before")
    flow = two_and_a_join(queue)
    run(queue, "fetch", event="fetched")
    run(queue, "merge", event="merged")
    queue.event(before, "after")
    with Listener(flow, flavour, "watch") as listener:  # type: ignore[arg-type]
        updates = listener.ended()
    assert statuses(flow, updates) == ALL_STATUSES
    assert names(updates) == ["fetched", "fetched", "merged"]
    assert wholes(updates) == [("completed", 3)]
    assert updates[-1].workflow is not None


@every_flavour
def test_a_watch_goes_on_behind_any_update(queue: JobQueue, flavour: str) -> None:
    flow = two_and_a_join(queue)
    run(queue, "fetch", event="fetched")
    with Listener(flow, flavour, "watch") as listener:  # type: ignore[arg-type]
        listener.until(lambda updates: statuses(flow, updates) == ALL_STATUSES[:3])
        run(queue, "merge", event="merged")
        updates = listener.ended()
    told = [each for each in updates if each.kind != "progress"]
    for place, update in enumerate(told):
        with Listener(flow, flavour, "watch", after=update.position) as resumed:  # type: ignore[arg-type]
            rest = resumed.ended()
        assert [(each.job_id, each.name) for each in rest if each.kind != "progress"] == [
            (each.job_id, each.name) for each in told[place + 1 :]
        ]
        assert rest[-1].workflow is not None
    # There is nothing after its end; but a retry continues there.
    end = updates[-1].position
    with Listener(flow, flavour, "watch", after=end) as resumed:  # type: ignore[arg-type]
        assert resumed.ended() == []
    assert flow.retry("merge") == 1
    with Listener(flow, flavour, "watch", after=end) as resumed:  # type: ignore[arg-type]
        resumed.until(has("running"))
        run(queue, "merge")
        assert statuses(flow, resumed.ended()) == [("merge", "pending"), ("whole", "running"), *ALL_STATUSES[3:]]


@every_flavour
def test_jobs_of_types_that_no_node_has_are_included(queue: JobQueue, db: Db, flavour: str) -> None:
    with queue.workflow("crawl") as flow:
        flow.add("visit")
    (job,) = queue.claim(["visit"])
    queue.start(job)
    with Listener(flow, flavour, "watch") as listener:  # type: ignore[arg-type]
        listener.until(has("running"))
        with db.transaction():
            db.execute("SELECT spawn(%s, %s, 'look', ARRAY['{}']::jsonb[])", (job.id, job.token))
            db.execute("SELECT complete(ARRAY[%s], ARRAY[%s]::bigint[])", (job.id, job.token))
        run(queue, "look", event="looked")
        updates = listener.ended()
    assert names(updates) == ["looked"]
    assert [each.name for each in updates if each.job_type == "look" and each.kind == "status"] == ["completed"]


def test_progress_of_its_running_jobs_is_included(queue: JobQueue) -> None:
    flow = two_and_a_join(queue)
    stranger = held(queue, "merge")
    (one, two) = queue.claim(["fetch"])
    with Listener(flow, "plain", "watch", kinds=["progress"]) as listener:  # type: ignore[arg-type]
        listener.until(len)
        for job, percent in ((one, 30), (stranger, 50), (two, 70)):
            queue.start(job) if job is not stranger else None
            queue.progress(job, percent)
        listener.until(
            lambda updates: {each.job.percent for each in updates if each.job is not None} >= {30, 70}, "their progress"
        )
        flow.cancel("enough")
        for job in (one, two):
            queue.fail(job, "stopped", give_up=True)
        updates = listener.ended()
    assert {each.job_id for each in updates} == {flow.id, one.id, two.id}
    assert {each.kind for each in updates} == {"progress"}
    assert updates[-1].workflow is not None
    assert updates[-1].workflow.status == "cancelled"


def test_a_slow_watcher_misses_no_event(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox, "ROOM", 3)
    with queue.workflow("many") as flow:
        nodes = [flow.add("fetch", name=f"{n}") for n in range(20)]
        flow.add("merge", after=nodes)
    reading = threading.Event()
    with Listener(flow, "plain", "watch", pace=lambda _: reading.wait(PATIENCE) and None) as listener:  # type: ignore[arg-type]
        listener.until(len)
        for _ in range(20):
            (job,) = queue.claim(["fetch"], 1)
            queue.start(job)
            queue.event(job, f"{job.id}")
            queue.complete(job)
        run(queue, "merge")
        reading.set()
        updates = listener.ended()
    fetched = [str(job.id) for job in queue.list(job_type="fetch", limit=100)]
    assert names(updates) == [*sorted(fetched), "done"]
    assert statuses(flow, updates)[-1] == ("whole", "completed")


def test_it_survives_the_loss_of_its_connection(queue: JobQueue, db: Db) -> None:
    flow = two_and_a_join(queue)
    with Listener(flow, "plain", "watch") as listener:  # type: ignore[arg-type]
        listener.until(has("running"))
        run(queue, "fetch")
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'howdah' AND datname = current_database()"
        )
        with JobQueue(queue.dsn) as another:
            run(another, "merge")
        assert statuses(flow, listener.ended()) == ALL_STATUSES


def test_what_cannot_be_watched_is_named(queue: JobQueue, db: Db) -> None:
    flow = two_and_a_join(queue)
    with pytest.raises(InvalidOption, match="not a kind"):
        next(flow.watch(kinds=["news"]))  # type: ignore[list-item]
    with pytest.raises(InvalidOption, match="position"):
        list(flow.watch(after="nonsense"))
    with Listener(flow, "plain", "watch") as listener:  # type: ignore[arg-type]
        listener.until(has("running"))
        for table in ("workflow_edges", "workflow_counts", "workflow_nodes", "workflows"):
            db.execute(f"DELETE FROM {table}")
        assert isinstance(listener.failed(), WorkflowNotFound)
    with pytest.raises(WorkflowNotFound):
        flow.wait_for(1)


def test_waiting_for_its_end_takes_no_polling(queue: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    # So long that only a notification can end the test.
    monkeypatch.setattr(hub, "_POLL", 10 * PATIENCE)
    flow = two_and_a_join(queue)
    found: list[str] = []
    waiting = threading.Thread(target=lambda: found.append(flow.wait_for(PATIENCE).status), daemon=True)
    waiting.start()
    with Listener(flow, "plain", "watch") as listener:  # type: ignore[arg-type]
        listener.until(has("running"))
        run(queue, "fetch")
        run(queue, "merge")
        listener.ended()
    waiting.join(PATIENCE)
    assert found == ["completed"]
    assert flow.wait_for().status == "completed"


def test_waiting_has_a_timeout_and_an_awaited_form(queue: JobQueue) -> None:
    flow = two_and_a_join(queue)
    with pytest.raises(WaitTimeout, match=r"has not ended after 0\.1 s; it continues"):
        flow.wait_for(0.1)

    async def both() -> list[str]:
        waiting = asyncio.gather(*(flow.await_for(PATIENCE) for _ in range(3)))
        await asyncio.to_thread(run, queue, "fetch")
        await asyncio.to_thread(run, queue, "merge")
        return [each.status for each in await waiting]

    assert asyncio.run(both()) == ["completed"] * 3
