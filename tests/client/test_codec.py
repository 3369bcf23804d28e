"""A codec that seals what it stores: nothing of the user's is in clear in the database."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from tests.clock import TestClock
from tests.conftest import Db

SECRET = "hunter2"


class Sealing:
    """Encodes into an object, as codecs do that store the id of their key; refuses what it has not encoded."""

    def encode(self, value: Any) -> Any:
        return {"sealed": sealed(value)}

    def decode(self, value: Any) -> Any:
        if not isinstance(value, dict) or value.keys() != {"sealed"}:
            raise ValueError("this was not sealed")
        return opened(value["sealed"])


class SealingText:
    """Seals into text, as Fernet does."""

    def encode(self, value: Any) -> Any:
        return "v1." + sealed(value)

    def decode(self, value: Any) -> Any:
        if not isinstance(value, str) or not value.startswith("v1."):
            raise ValueError("this was not sealed")
        return opened(value.removeprefix("v1."))


def sealed(value: Any) -> str:
    return base64.b64encode(json.dumps(value).encode()[::-1]).decode()


def opened(text: str) -> Any:
    return json.loads(base64.b64decode(text)[::-1])


@pytest.fixture(params=[Sealing, SealingText], ids=["object", "text"])
def sealing(request: pytest.FixtureRequest, dsn: str) -> Iterator[JobQueue]:
    with JobQueue(dsn, codec=request.param()) as queue:
        yield queue


def everything_stored(db: Db) -> str:
    rows = db.execute("SELECT live::text AS row FROM live UNION ALL SELECT archive::text FROM archive").fetchall()
    return "\n".join(row["row"] for row in rows)


def test_data_results_and_errors_go_through_the_codec_both_ways(sealing: JobQueue, db: Db) -> None:
    data = {"password": SECRET, "n": [1, None, 1.5]}
    job = sealing.enqueue("mail", data)
    assert (job.data, sealing.get(job).data) == (data, data)
    assert sealing.enqueue_many("mail", [SECRET, 0, None]) == 3
    sealing.fail(sealing.claim(["mail"], 1)[0], ValueError(f"{SECRET} was wrong"), delay=0)
    assert SECRET not in everything_stored(db)

    claimed = sealing.claim(["mail"], 10)
    assert sorted(repr(each.data) for each in claimed) == sorted(map(repr, [data, SECRET, 0, {}]))
    mine = next(each for each in claimed if each.id == job.id)
    assert mine.last_error == f"ValueError: {SECRET} was wrong"
    try:
        raise KeyError(SECRET)
    except KeyError as error:
        sealing.fail(mine, error, give_up=True)
    others = [each for each in claimed if each.id != job.id]
    sealing.complete(others[0], {"new": SECRET})
    sealing.cancel(others[1], f"because of {SECRET}")
    assert SECRET not in everything_stored(db)

    failed = sealing.get(job)
    assert [each.error for each in failed.errors] == [f"ValueError: {SECRET} was wrong", f"KeyError: '{SECRET}'"]
    assert f"KeyError: '{SECRET}'" in (failed.errors[1].traceback or "")
    assert sealing.get(others[0]).result == {"new": SECRET}
    assert sealing.get(others[1]).last_error == f"because of {SECRET}"
    assert {each.id for each in sealing.list()} == {each.id for each in claimed}


def test_a_message_that_is_not_clean_goes_through_the_codec_too(sealing: JobQueue) -> None:
    sealing.enqueue("mail")
    (job,) = sealing.claim(["mail"])
    sealing.fail(job, "a\x00b\ud800 {", give_up=True)
    assert sealing.get(job).last_error == "a\\x00b\\ud800 {"


def test_the_limit_counts_what_the_user_sees(dsn: str) -> None:
    with JobQueue(dsn, codec=Sealing(), max_payload_bytes=102) as queue:
        assert queue.get(queue.enqueue("mail", "x" * 100)).data == "x" * 100


def test_a_job_whose_error_the_database_wrote_can_be_read(sealing: JobQueue, clock: TestClock) -> None:
    """The sweep has no codec: what it writes is in clear, and must not make the job unreadable."""
    job = sealing.enqueue("mail", {"n": 1})
    sealing.claim(["mail"])
    clock.advance(61)
    assert sealing.recover_stale_jobs(60) == 1
    recovered = sealing.get(job)
    assert recovered.errors[0].kind == "lease passed"
    assert "lease" in recovered.errors[0].error
    assert [each.id for each in sealing.list()] == [job.id]
    assert [each.id for each in sealing.claim(["mail"])] == [job.id]


def test_a_job_that_the_codec_cannot_read_does_not_take_its_batch_with_it(sealing: JobQueue, db: Db) -> None:
    db.execute("INSERT INTO jobs (job_type) VALUES ('mail')")
    readable = sealing.enqueue("mail", {"n": 1})
    handed_out: list[Any] = []
    try:
        handed_out = [each.id for each in sealing.claim(["mail"])]
    except Exception as error:  # noqa: BLE001
        assert not isinstance(error, psycopg.Error)
    assert readable.id in handed_out or sealing.get(readable).status == "pending", "claimed, and not returned"


def test_a_filter_by_data_is_refused_or_works_where_the_data_is_sealed(sealing: JobQueue) -> None:
    job = sealing.enqueue("mail", {"n": 1, "m": 2})
    try:
        found = [each.id for each in sealing.list(data={"n": 1})]
    except ValueError as refused:
        assert "codec" in str(refused)
    else:
        assert found == [job.id]
