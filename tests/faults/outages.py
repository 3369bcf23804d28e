"""Cases in which the server is gone: crashed, failed over, full, or without a session that there was."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from psycopg.conninfo import make_conninfo

from howdah import Job, JobQueue, LeaseLost
from tests.faults.case import case
from tests.faults.checker import Verdict
from tests.faults.small_disk import CrampedServer, SmallDisk
from tests.faults.stage import Stage
from tests.standby import Standby
from tests.worker.processes import until


@case(22, "pg-crash-loop", checks="I1 I2 I3 I4 I5 I7", own_server=True, refuses=True)
def pg_crash_loop(stage: Stage) -> None:
    """The server crashes and is started again, ten times, and all clients continue."""
    workers = stage.start(stage.scaled(4, 2), concurrency=10)
    pids = [worker.pid for worker in workers]
    with stage.producing() as producer:
        for number in range(stage.scaled(10, 2)):
            acknowledged = len(producer.acknowledged)
            until(lambda: len(producer.acknowledged) >= acknowledged + stage.scaled(500, 50), "jobs are added again")  # noqa: B023
            stage.server.halt("immediate")
            stage.fault()
            time.sleep(stage.chance.uniform(0, 0.5 if number % 2 else stage.scaled(4, 0.5)))
            stage.server.start()
            stage.fleet.reconnect()
    stage.fleet.await_drained()
    assert [worker.pid for worker in workers if worker.is_running] == pids, "no worker has ended"


@case(23, "backend-kills", checks="I1 I2 I3 I4 I5 I7")
def backend_kills(stage: Stage) -> None:
    """Every 200 ms the server ends a session, of any client."""
    workers = stage.start(stage.scaled(4, 2), concurrency=10)
    with stage.producing():
        for _ in range(stage.scaled(100, 15)):
            time.sleep(0.2)
            ended = stage.execute(
                "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY random() LIMIT 1) AS victim"
            )
            stage.fault(len(ended))
    stage.fleet.await_drained()
    assert all(worker.is_running for worker in workers), "no worker has ended"


@case(29, "failover", checks="I1 I2 I3 I4 I5 I7", own_server=True, settings={"wal_level": "replica"}, refuses=True)
def failover(stage: Stage) -> None:
    """A standby is promoted, while the old primary stays reachable, first in the list of hosts, and read-only."""
    with Standby(stage.server) as standby:
        hosts = f"{stage.server.home},{standby.home}"
        everywhere = make_conninfo(stage.dsn, host=hosts, target_session_attrs="read-write")
        workers = [
            stage.fleet.start(stage.new_name(), dsn=everywhere, concurrency=10) for _ in range(stage.scaled(4, 2))
        ]
        for worker in workers:
            worker.await_ready()
        with stage.producing(dsn=everywhere) as producer:
            until(lambda: len(producer.acknowledged) >= stage.scaled(1_000, 100), "the load is there")
            standby.take_over()
            stage.fault()
            stage.follow(make_conninfo(stage.dsn, host=str(standby.home)))
            moved_at = len(producer.acknowledged)
            until(lambda: len(producer.acknowledged) >= moved_at + stage.scaled(1_000, 100), "jobs are added there")
        stage.fleet.await_drained()
        assert all(worker.is_running for worker in workers), "no worker has ended"
        stage.keep_evidence()


@case(42, "lossy-failover", checks="I1 I2 I7", own_server=True, settings={"wal_level": "replica"}, audited=False)
def lossy_failover(stage: Stage) -> None:
    """A standby is promoted that lacks the last claims: what their holders write there is refused, and no token comes again."""
    with Standby(stage.server) as standby:
        there = make_conninfo(stage.dsn, host=str(standby.home))
        stage.enqueue_many("work", stage.scaled(50, 8))
        with standby.cut_off():
            lost = stage.queue.claim(["work"], batch_size=len(stage.acknowledged), worker_id="former")
        stage.fault()
        with JobQueue(there) as promoted:
            holds = {job.id: job for job in promoted.claim(["work"], batch_size=len(lost), worker_id="next")}
            assert holds.keys() == {job.id for job in lost}
            assert not {job.token for job in lost} & {job.token for job in holds.values()}, "a token came again"
            for number, stale in enumerate(lost):
                assert is_refused(promoted, stale, STALE_WRITES[number % len(STALE_WRITES)])
                promoted.complete(holds[stale.id])
            ended = [promoted.get(job.id) for job in lost]
        assert {(job.status, job.attempts, job.percent) for job in ended} == {("completed", 1, 100)}
        stage.verdict = Verdict(len(lost), 0, 0, None, ())


Write: TypeAlias = Callable[[JobQueue, Job], object]
STALE_WRITES: Final[tuple[Write, ...]] = (
    lambda queue, job: queue.complete(job),
    lambda queue, job: queue.fail(job, "of a claim that is lost"),
    lambda queue, job: queue.progress(job, 99),
    lambda queue, job: queue.start(job),
    lambda queue, job: queue.release(job),
)


def is_refused(queue: JobQueue, job: Job, write: Write) -> bool:
    try:
        write(queue, job)
    except LeaseLost:
        return True
    return False


@case(39, "disk-full", checks="I1 I2 I3 I5 I7", refuses=True)
def disk_full(stage: Stage) -> None:
    """The server's disk fills up under load, and is freed again: every acknowledged job is there."""
    stage.needs(os.getuid() == 0, "a small disk can be mounted by root only")
    with SmallDisk() as disk, CrampedServer(stage.server.binaries, disk) as server:
        stage.move_to(server)
        workers = stage.start(2, concurrency=10)
        with stage.producing() as producer:
            until(lambda: len(producer.acknowledged) >= 100, "the load is there")
            disk.fill()
            stage.fault()
            until(lambda: producer.refused >= stage.scaled(100, 5), "nothing more can be added")
            disk.free()
            server.revive()
            stage.fleet.reconnect()
            acknowledged = len(producer.acknowledged)
            until(lambda: len(producer.acknowledged) >= acknowledged + 50, "jobs are added again")
        stage.fleet.await_drained()
        assert all(worker.is_running for worker in workers), "no worker has ended"
        stage.keep_evidence()
