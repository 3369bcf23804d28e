"""A loop of your own around ``queue.claim`` runs workflows: results of other jobs arrive, and maps get their jobs."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from howdah.encryption import EncryptedCodec, new_key
from tests.conftest import Connect, Db

TYPES = ["download", "parse", "merge", "report"]


def drive(queue: JobQueue) -> dict[str, list[Any]]:
    """Claim and complete until there is nothing. What each type's jobs got."""
    seen: dict[str, list[Any]] = {}
    while jobs := queue.claim(TYPES, 2):
        for job in jobs:
            seen.setdefault(job.job_type, []).append(job.data)
            match job.job_type:
                case "download":
                    queue.complete(job, {"chunks": [1, 2, 3], "size": 6})
                case "parse":
                    queue.complete(job, job.data["chunk"] * job.data["factor"])
                case _:
                    queue.complete(job)
    return seen


@pytest.mark.parametrize("encrypted", [False, True], ids=["", "encrypted"])
def test_a_loop_of_ones_own_runs_a_whole_workflow(dsn: str, encrypted: bool) -> None:
    with JobQueue(dsn, codec=EncryptedCodec(new_key()) if encrypted else None) as queue:

        @queue.job
        def parse(chunk: int, factor: int) -> int:
            raise AssertionError("no worker is there")

        with queue.workflow("import") as flow:
            fetch = flow.add("download", url="x")
            parts = flow.map(parse, fetch.result["chunks"], factor=10)
            total = flow.add("merge", parts=parts, size=fetch.result["size"], title="sum")
            flow.add("report", after=total, both=[fetch.result["size"], fetch.result["chunks"][0]])
        assert drive(queue) == {
            "download": [{"url": "x"}],
            "parse": [{"chunk": n, "factor": 10} for n in (1, 2, 3)],
            "merge": [{"parts": [10, 20, 30], "size": 6, "title": "sum"}],
            "report": [{"both": [6, 1]}],
        }
        assert flow.status() == "completed"


def test_a_job_whose_results_are_pruned_does_not_spoil_the_claim(queue: JobQueue, db: Db) -> None:
    with queue.workflow("import") as flow:
        flow.add("merge", size=flow.add("download").result["size"], options={"max_attempts": 1})
    other = queue.enqueue("merge")
    drive_one = queue.claim(["download"])
    queue.complete(drive_one[0], {"size": 6})
    db.execute("DELETE FROM archive")
    assert [job.id for job in queue.claim(["merge"])] == [other.id]
    (job,) = queue.list(job_type="merge", status="failed")
    assert "no longer there" in (job.last_error or "")


def test_a_claim_in_the_callers_transaction_leaves_maps_alone(queue: JobQueue, dsn: str) -> None:
    @queue.job
    def parse(chunk: int) -> None: ...

    with queue.workflow("import") as flow:
        flow.map(parse, flow.add("download").result["chunks"])
    queue.complete(queue.claim(["download"])[0], {"chunks": [1]})
    with psycopg.connect(dsn) as conn:
        assert queue.claim(["parse"], conn=conn) == []
        # It holds no lock that would keep another claim from it.
        assert [job.data for job in queue.claim(["parse"])] == [{"chunk": 1}]


def test_a_map_that_another_transaction_has_locked_holds_up_no_claim(queue: JobQueue, connect: Connect) -> None:
    @queue.job
    def parse(chunk: int) -> None: ...

    with queue.workflow("import") as flow:
        flow.map(parse, flow.add("download").result["chunks"])
    queue.complete(queue.claim(["download"])[0], {"chunks": [1]})
    holder = connect(autocommit=False)
    holder.execute("SELECT FROM workflow_nodes WHERE workflow_id = %s FOR UPDATE", (flow.id,))
    assert queue.claim(["parse"]) == []
    holder.rollback()
    assert [job.data for job in queue.claim(["parse"])] == [{"chunk": 1}]


def test_an_error_of_per_is_one_of_the_map_and_not_of_the_claim(queue: JobQueue) -> None:
    @queue.job(per=lambda data: data["user"]["id"])
    def greet(user: dict[str, Any]) -> None: ...

    with queue.workflow("greetings") as flow:
        flow.map(greet, flow.add("users"))
    (users,) = queue.claim(["users"])
    queue.start(users)
    queue.complete(users, [{"id": 1}, {"name": "ann"}])
    assert queue.claim(["mail"]) == []
    assert flow.status() == "failed"
    assert flow.nodes()[1].error == "per= of its handler raised KeyError for item 1"
