"""Cases in which connections are cut, fall silent, or belong to a pooler."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from psycopg.conninfo import make_conninfo

from howdah import DatabaseUnavailable, JobQueue
from howdah.verbs.produce import BULK_SIZE
from tests import pooler
from tests.faults.case import case
from tests.faults.stage import Stage
from tests.tcp_proxy import Link, TcpProxy
from tests.worker.processes import LEASE, PATIENCE, POLL, WorkerProcess, recovery_bound, until

PICKUP = timedelta(seconds=POLL + 1)
"""How long a job may wait for the next poll, plus a second for a busy machine, as a recovery has it."""
MENDED = 30.0
"""Seconds after which no client may still wait on a network that is back, or on one that is gone for good."""


class Way(NamedTuple):
    """A way to the database that faults can happen to."""

    proxy: TcpProxy
    dsn: str


@contextlib.contextmanager
def proxied(stage: Stage, **settings: str) -> Iterator[Way]:
    proxy = TcpProxy(stage.server.socket)
    try:
        yield Way(proxy, make_conninfo(stage.dsn, host="127.0.0.1", port=proxy.port, sslmode="disable", **settings))
    finally:
        proxy.close()


# The reply to a commit


@case(24, "commit-ambiguity", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_network")
def commit_ambiguity(stage: Stage) -> None:
    """The reply to a commit is lost: that of an enqueue, of a bulk, of a claim and of a completion."""
    with proxied(stage) as producers, proxied(stage) as workers, JobQueue(producers.dsn) as queue:
        bulks_are_repeated(stage, producers.proxy, queue)
        stage.start(2, dsn=workers.dsn, concurrency=10)
        enqueues_happen_once(stage, producers.proxy, queue)
        for number in range(stage.scaled(6, 1)):
            a_lost_claim_is_freed(stage, workers.proxy, f"claim {number}")
        completions_end_once(stage, workers.proxy)
        stage.fleet.await_drained()
        stage.fault(producers.proxy.answers_lost + workers.proxy.answers_lost)


def bulks_are_repeated(stage: Stage, proxy: TcpProxy, queue: JobQueue) -> None:
    """A client without the reply to the commit of a bulk enqueues it again, and its keys keep it from being there twice."""
    # A bulk of one chunk is a single statement, a longer one a transaction.
    for size, question in ((20, b"enqueue_many"), (BULK_SIZE + 1, b"COMMIT")):
        items = [{"mark": f"bulk of {size}, {number}"} for number in range(size)]
        lost = proxy.answers_lost
        proxy.lose_the_answer_to(question)
        try:
            queue.enqueue_many("marked", items, key=lambda item: item["mark"])
        except DatabaseUnavailable:
            again = queue.enqueue_many("marked", items, key=lambda item: item["mark"])
        else:
            raise AssertionError("a bulk was acknowledged although the reply to its commit was lost")
        assert proxy.answers_lost == lost + 1
        assert again == 0, "what was committed was added once more"
        found = stage.fleet.jobs("starts_with(data ->> 'mark', %s)", f"bulk of {size}, ")
        assert len(found) == len(items)
        stage.acknowledged += [job["id"] for job in found]


def enqueues_happen_once(stage: Stage, proxy: TcpProxy, queue: JobQueue) -> None:
    """A client repeats an enqueue whose reply was lost, under the same id: workers may have ended the job by then."""
    count = stage.scaled(60, 8)
    lost = proxy.answers_lost
    for number in range(count):
        mark = f"enqueue {number}."
        proxy.lose_the_answer_to(mark.encode())
        job = queue.enqueue("marked", {"mark": mark}, key=mark if number % 2 else None)
        assert job.created, "the repeated call returned the job as another caller's"
        stage.acknowledged.append(job.id)
    assert proxy.answers_lost == lost + count
    found = stage.fleet.jobs("data ->> 'mark' LIKE 'enqueue %%'")
    assert len(found) == count, f"{count} jobs were enqueued, and {len(found)} are there"


def a_lost_claim_is_freed(stage: Stage, proxy: TcpProxy, mark: str) -> None:
    """The database has committed a claim, and its reply is lost: the worker must not keep the jobs by being alive."""
    lost = proxy.answers_lost
    proxy.lose_an_answer_with(mark.encode())
    stage.enqueue_many("marked", 5, {"mark": mark})
    until(lambda: proxy.answers_lost == lost + 1, "the answer to a claim is lost")
    stage.fleet.await_drained()
    begun = {entry.hold for entry in stage.fleet.ledger.entries("START")}
    spans = stage.execute(HOLDS, mark)
    unheard = [each["held"] for each in spans if (each["id"], each["token"]) not in begun]
    assert unheard, "every claim was started"
    assert max(unheard) <= timedelta(seconds=recovery_bound()), (
        f"a job was held for {max(unheard)} by a claim without a reply"
    )


HOLDS = """
    SELECT taken.id, taken.token, min(freed.at) - taken.at AS held
    FROM audit.transitions AS taken
    JOIN audit.transitions AS freed ON freed.id = taken.id AND freed.n > taken.n AND freed.token_before = taken.token
    WHERE taken.before = 'pending' AND freed.after IS DISTINCT FROM 'running'
        AND taken.id IN (SELECT j.id FROM howdah.jobs AS j WHERE j.data ->> 'mark' = %s)
    GROUP BY taken.id, taken.token, taken.at
"""
"""Of jobs with a mark: each claim, and how long it was held."""


def completions_end_once(stage: Stage, proxy: TcpProxy) -> None:
    """A worker without the reply to its completion writes it again."""
    count = stage.scaled(10, 2)
    lost = proxy.answers_lost
    for number in range(count):
        mark = f"completion {number}."
        proxy.lose_the_answer_to(mark.encode())
        stage.enqueue("marked", {"mark": mark})
        stage.enqueue_many("marked", 5, {"mark": "others"})
    # Those of one batch are lost one after another, each time that it is written.
    until(lambda: proxy.answers_lost == lost + count, "every answer was lost")
    stage.fleet.await_drained()
    strange = stage.fleet.jobs("data ->> 'mark' LIKE 'completion %%' AND (status <> 'completed' OR attempts <> 1)")
    assert not strange, f"a lost reply has changed how jobs end: {strange}"


@case(54, "lost-reply", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_network")
def lost_reply(stage: Stage) -> None:
    """The reply to a completion that was committed is lost: the worker writes it again, and gets the jobs as completed."""
    with proxied(stage) as way:
        (worker,) = stage.start(1, dsn=way.dsn, concurrency=10)
        completions_end_once(stage, way.proxy)
        stage.fault(way.proxy.answers_lost)
        assert worker.stop() == 0
        assert "came too late" not in worker.log, worker.log


# Silence


@case(25, "half-open-listen", checks="I1 I2 I3 I4 I5 I7")
def half_open_listen(stage: Stage) -> None:
    """The sockets over which workers listen fall silent, without an error."""
    with proxied(stage) as way:
        workers = stage.start(2, dsn=way.dsn, concurrency=100)
        for _ in range(stage.scaled(3, 1)):
            go_deaf(stage, way.proxy, workers)
        stage.fleet.await_drained()
        assert all(worker.is_running for worker in workers)


def go_deaf(stage: Stage, proxy: TcpProxy, workers: list[WorkerProcess]) -> None:
    """Jobs are found by looking meanwhile, and wake-ups arrive again after a while."""
    until(lambda: len(listening(proxy)) == len(workers), "all of them listen")
    until(lambda: all(sleeps(stage, worker) for worker in workers), "all of them sleep")
    # Until they look as seldom as they ever do.
    let_pass(stage, stage.scaled(3, 0) * LEASE)
    deaf = listening(proxy)
    jobs, begun = stage.scaled(60, 20), stage.fleet.ledger.count("START")
    stage.fault(proxy.silence(b"LISTEN "))
    stage.enqueue_many("work", jobs)
    until(lambda: stage.fleet.ledger.count("START") == begun + jobs, "the jobs are found by looking")
    assert not listening(proxy) - deaf, "they were found only when a worker listened again"
    found = stage.fleet.jobs("id = ANY (%s)", stage.acknowledged[-jobs:])
    waited = max(job["claimed_at"] - job["run_at"] for job in found)
    assert waited <= PICKUP, f"a job was found only after {waited}"
    until(lambda: len(listening(proxy) - deaf) == len(workers), "all listen over new connections")
    until(lambda: wake_ups_arrive(stage, listening(proxy) - deaf), "wake-ups arrive again")
    for link in deaf:
        link.end()


def listening(proxy: TcpProxy) -> set[Link]:
    return {link for link in proxy.links if b"LISTEN " in link.asked}


def sleeps(stage: Stage, worker: WorkerProcess) -> bool:
    """Whether it has registered as asleep."""
    recorded = (
        "SELECT FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND application_name = %s"
    )
    return bool(stage.execute(recorded, worker.name))


def wake_ups_arrive(stage: Stage, links: set[Link]) -> bool:
    stage.queue.wait_for(stage.enqueue("work"), timeout=PATIENCE)
    return all(b"wake " in link.answered for link in links)


@case(26, "half-open-all", checks="I1 I2 I3 I4 I5 I7")
def half_open_all(stage: Stage) -> None:
    """Every socket falls silent for longer than a lease; and once more, for ever, where only new ones work."""
    with proxied(stage, **stage.scaled(ITS_OWN, IMPATIENT)) as way:
        workers = stage.start(2, dsn=way.dsn, concurrency=5)
        fall_silent(stage, way.proxy)
        until(lambda: all("lets go of" in worker.log for worker in workers), "both fence themselves")
        let_pass(stage, stage.scaled(3, 0.2) * LEASE)
        back = stage.now()
        way.proxy.resume()
        took = drained_after(stage, back)
        assert took <= MENDED + recovery_bound(), f"the network was back, and a worker waited for another {took:.1f} s"
        gone = fall_silent(stage, way.proxy, new=False)
        # An end may be tried over two connections, and only the kernel may find each of them dead.
        took = drained_after(stage, gone)
        assert took <= 2 * MENDED + recovery_bound(), (
            f"a worker waited for {took:.1f} s on a network that was gone for good"
        )
        assert all(worker.is_running for worker in workers)


ITS_OWN: Final[dict[str, str]] = {}
"""What Howdah sets where a DSN does not: half a minute."""
IMPATIENT: Final = {
    "keepalives_idle": "1",
    "keepalives_interval": "1",
    "keepalives_count": "2",
    "tcp_user_timeout": "2000",
}


def fall_silent(stage: Stage, proxy: TcpProxy, *, new: bool = True) -> datetime:
    """In the middle of work."""
    ended = stage.fleet.ledger.count("END")
    stage.enqueue_many("work", stage.scaled(100, 30), {"seconds": 0.1})
    until(lambda: stage.fleet.ledger.count("END") >= ended + 10, "they are in the middle of it")
    moment = stage.now()
    stage.fault(proxy.silence(new=new))
    return moment


def let_pass(stage: Stage, seconds: float) -> None:
    """By the database's clock."""
    end = stage.now() + timedelta(seconds=seconds)
    until(lambda: stage.now() >= end, f"{seconds:g} s have passed")


def drained_after(stage: Stage, moment: datetime) -> float:
    """Seconds until the last job had ended."""
    stage.fleet.await_drained()
    last: datetime = stage.execute("SELECT max(finished_at) AS at FROM howdah.archive")[0]["at"]
    return (last - moment).total_seconds()


# A pooler


@case(28, "pgbouncer-tx", checks="I1 I2 I3 I4 I5 I7")
def pgbouncer_tx(stage: Stage) -> None:
    """All clients connect through a PgBouncer in transaction mode: no notification arrives, and no client has a session of its own."""
    stage.needs(pooler.PROGRAM, pooler.MISSING)
    with pooler.pgbouncer(stage.dsn) as dsn:
        stage.fault()
        workers = stage.start(stage.scaled(4, 2), dsn=dsn, concurrency=10)
        with stage.producing(dsn=dsn) as producer:
            until(lambda: all(POLLING in worker.log for worker in workers), "each logs that it polls")
            until(lambda: len(producer.acknowledged) >= stage.scaled(1_500, 100), "there was something to do")
        stage.fleet.await_drained()
        for worker in workers:
            assert worker.stop() == 0
            assert worker.log.count(POLLING) == 1, "it logs that more than once"
            assert "failed unexpectedly" not in worker.log


POLLING: Final = "notifications do not arrive"
