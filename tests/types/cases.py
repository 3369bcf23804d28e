"""What mypy and pyright must accept, and what they must refuse. Each line with ``# wrong`` is an error for both, and no other is.

Nothing here is run: ``test_types.py`` reads the reports of the checkers. They check it as code of a user with only the wheel.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated, Any, assert_type

from howdah import Exponential, Fixed, Flow, Handler, Job, JobQueue, Resource, Schedule, resource

queue = JobQueue()


class Db: ...


class Late(Exception): ...


# The handlers


@queue.job
def send(job: Job, invoice: int, urgent: bool = False, db: Db = resource()) -> str:
    return f"{job.id} {invoice} {urgent} {db}"


@queue.job(name="asend", priority=3, retry={Late: Fixed(30), OSError: Exponential(delay=1)}, give_up=[KeyError])
async def asend(job: Job, invoice: int, *, urgent: bool = False, db: Db = resource("db")) -> str:
    return f"{job.id} {invoice} {urgent} {db}"


@queue.job
def plain(invoice: int, note: dict[str, Any] | None = None) -> list[int]:
    return [invoice, len(note or {})]


@queue.job(timeout=5)
async def aplain(invoice: int, db: Db = resource()) -> list[int]:
    return [invoice, hash(db)]


@queue.periodic("@daily", invoice=7)
@queue.job(max_attempts=1)
def both(job: Job, invoice: int) -> None:
    print(job, invoice)


@queue.periodic(every=60)
def sweep(job: Job[None], days: int = 3) -> None:
    print(job, days)


@queue.job
def nothing() -> None: ...


# Handlers that run, and whose arguments are not checked


@queue.job
def late(invoice: int, job: Job) -> str:
    return f"{invoice} {job}"


@queue.job(name="later")
async def later(invoice: int, urgent: bool, job: Job) -> str:
    return f"{invoice} {urgent} {job}"


@queue.job
def anything(data: Any, n: int) -> str:
    return f"{data} {n}"


@queue.job(batch_size=10)
async def batch(jobs: list[Job], db: Db = resource()) -> None:
    print(jobs, db)


@queue.job
def others(job: Job, n: int, **more: str) -> None:
    print(job, n, more)


@queue.job
def marked(job: Job, n: int, db: Annotated[Db, Resource] = resource()) -> None:
    print(job, n, db)


# Calls that are right


async def right() -> None:
    assert_type(send.enqueue(17, urgent=True), Job[str])
    assert_type(send.enqueue(invoice=17), Job[str])
    assert_type(await asend.aenqueue(17, urgent=True), Job[str])
    assert_type(plain.enqueue(17, {"a": 1}), Job[list[int]])
    assert_type(aplain.enqueue(invoice=17), Job[list[int]])
    assert_type(send.using(delay=60, key="17").enqueue(17, True), Job[str])
    assert_type(await asend.using(priority=5).aenqueue(invoice=17), Job[str])
    assert_type(send.enqueue(1).wait_for().value(), str)
    assert_type(aplain.enqueue(1).wait_for().value(), list[int])
    assert_type(queue.get("17").value(), Any)
    send.enqueue_many([{"invoice": 1}], chunk_size=10, return_ids=True)
    both.enqueue(invoice=1)
    sweep.enqueue(days=5)
    nothing.enqueue()
    late.enqueue(invoice=1)
    later.enqueue(invoice=1, urgent=True)
    anything.enqueue(data=[1], n=5)
    batch.enqueue(any="thing")
    others.enqueue(n=5, name="x")
    marked.enqueue(n=5)
    assert_type(plain(invoice=5), list[int])
    assert_type(await aplain(5, Db()), list[int])
    send(send.enqueue(1), 17, db=Db())
    queue.worker(concurrency=3, types=["send"], name="a")
    await queue.run_worker(drain=True, grace=5)
    queue.handlers["send"].enqueue(whatever=1)
    assert_type(queue.schedules.set("nightly", "send", cron="@daily"), Schedule)
    assert_type(await queue.schedules.alist(), list[Schedule])
    assert_type(queue.workflows.get("import", key="k"), Flow)
    queue.limits.set(job_type="send", running=3)
    await queue.limits.aset_rate("50/s", group="smtp")


def takes_handlers(any: Handler[..., Any], typed: Handler[[int], Coroutine[Any, Any, str]]) -> None:
    assert_type(any.enqueue(a=1), Job[Any])
    assert_type(typed.enqueue(1), Job[str])


# Calls that are wrong


async def wrong() -> None:
    send.enqueue(invoic=1)  # wrong
    send.enqueue(invoice="x")  # wrong
    send.enqueue()  # wrong
    send.enqueue(1, True, Db(), 4)  # wrong
    await asend.aenqueue("x")  # wrong
    await asend.aenqueue(17, True)  # wrong
    plain.enqueue(note=None)  # wrong
    plain.enqueue(invoice=None)  # wrong
    await aplain.aenqueue(invoic=1)  # wrong
    send.using(delay=60).enqueue(invoice="x")  # wrong
    await asend.using(delay=60).aenqueue(invoic=1)  # wrong
    send.using(dealy=60)  # wrong
    send.using(priority="high")  # wrong
    send.enqueue_many([{"invoice": 1}], chunk_sise=10)  # wrong
    both.enqueue(invoice="x")  # wrong
    sweep.enqueue(dais=5)  # wrong
    nothing.enqueue(1)  # wrong
    send.enqueue(1).wait_for().value() + 1  # wrong
    queue.job(prioritty=3)  # wrong
    queue.job(priority="high")  # wrong
    queue.schedules.set("nightly", cron="@daily")  # wrong
    queue.limits.set("3", job_type="send")  # wrong
    queue.worker(concurency=3)  # wrong
    queue.worker(concurrency="3")  # wrong
    await queue.run_worker(drian=True)  # wrong
