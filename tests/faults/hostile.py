"""The case of values and exceptions that are made to hurt."""

from __future__ import annotations

import json
import math
import uuid
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from howdah import InvalidPayload, JobQueue, PayloadTooLarge
from tests.faults.case import case
from tests.faults.handlers_hostile import PLACES, RAISED, RETURNED, digest, nested
from tests.faults.stage import Stage

HURT = [f"{how}_{place}" for how in ("raises", "returns") for place in PLACES]
HARMLESS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20),
)
HOSTILE = st.one_of(
    st.sampled_from([float("nan"), float("inf"), -float("inf")]),
    st.sampled_from(["\x00", "a\x00b", "\ud800", "\udfff\ud800", "\\u0000", "\\", '"\\u0000', "\u2028\x7f\x1b[0m"]),
    st.sampled_from([10**400, -(10**400), 2**64 + 1, -(2**63) - 1, 1e308, 5e-324]),
    st.sampled_from([4_299, 5_000]).map(lambda digits: 10**digits),
    st.sampled_from([10, 150, 500, 20_000]).map(nested),
    st.text(max_size=5),
)
VALUES = st.recursive(
    HARMLESS | HOSTILE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@case(37, "hostile-payload", checks="I1 I2 I3 I4 I5 I7", handlers="handlers_hostile", fails=" ".join(HURT))
def hostile_payload(stage: Stage) -> None:
    """Hostile values and exceptions, in handlers of each kind: stored and read back, or refused; and every failure is recorded."""
    huge = stage.scaled(50, 2) * 2**20
    # Before anything is enqueued: from their start on, the database has the attempts of each type.
    workers = stage.start(stage.scaled(2, 1), environment={"HOWDAH_TEST_HUGE": str(huge)})
    echoed = enqueue_values(stage) | enqueue_huge(stage, huge)
    failing = [stage.enqueue(f"raises_{place}", {"what": what}) for what in RAISED for place in PLACES]
    failing += [stage.enqueue(f"returns_{place}", {"what": what}) for what in RETURNED for place in PLACES]
    stage.fault(len(failing))
    stage.fleet.await_drained()
    for id, value in echoed.items():
        job = stage.queue.get(id)
        assert job.status == "completed", f"{job.job_type} of {str(value)[:100]}: {job.last_error}"
        returned = digest(value) if is_huge(value) else value
        assert is_same(returned, job.value()["value"]), (
            f"{job.job_type}: {shown(value)} came back as {shown(job.value())}"
        )
        assert is_same({"value": value}, job.data), f"{shown(value)} was stored as {shown(job.data)}"
    for id in failing:
        job = stage.queue.get(id)
        what = f"{job.job_type}: {job.data['what']}"
        assert (job.status, len(job.errors)) == ("failed", 1), f"{what}: {job.status}, {job.last_error}"
        assert job.last_error, f"{what} has failed without a message"
        assert "child process" not in job.last_error, f"{what}: {job.last_error}"
    assert all(worker.is_running for worker in workers), "a handler has taken its worker down"


def is_same(sent: Any, got: Any) -> bool:
    """Numbers are JSON's: one that was written as 1e+23 comes back as 100000000000000000000000."""
    match sent:
        case dict():
            return (
                isinstance(got, dict)
                and sent.keys() == got.keys()
                and all(is_same(sent[key], got[key]) for key in sent)
            )
        case list():
            return isinstance(got, list) and len(sent) == len(got) and all(map(is_same, sent, got))
        case float():
            return isinstance(got, int | float) and sent == float(got)
    return type(sent) is type(got) and bool(sent == got)


def shown(value: Any) -> str:
    return json.dumps(value)[:300]


def enqueue_values(stage: Stage) -> dict[uuid.UUID, Any]:
    """Values as they come. Each is refused with a typed error, and if there is a reason, or enqueued."""
    accepted: dict[uuid.UUID, Any] = {}

    @seed(stage.chance.randrange(2**32))
    @settings(
        max_examples=stage.scaled(600, 80),
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(VALUES, st.sampled_from(PLACES))
    def enqueue(value: Any, place: str) -> None:
        try:
            accepted[stage.enqueue(f"echo_{place}", {"value": value})] = value
        except InvalidPayload:
            assert not is_storable(value), "this could have been stored"
            stage.fault()
        else:
            assert is_storable(value), "this cannot be read back"

    enqueue()
    return accepted


def is_storable(root: Any) -> bool:
    pending = [(root, 1)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, dict):
            pending += [(each, depth + 1) for pair in value.items() for each in pair]
        elif isinstance(value, list):
            pending += [(each, depth + 1) for each in value]
        elif depth > 200 or not is_storable_scalar(value):
            return False
    return True


def is_storable_scalar(value: Any) -> bool:
    match value:
        case str():
            return "\x00" not in value and not any("\ud800" <= each <= "\udfff" for each in value)
        case float():
            return math.isfinite(value)
        case int():
            return abs(value) < 10**4_300
    return True


def enqueue_huge(stage: Stage, size: int) -> dict[uuid.UUID, Any]:
    """Refused with the default limit, and enqueued where the limit was raised."""
    value = "é" * (size // 2)
    for place in PLACES:
        try:
            stage.enqueue(f"echo_{place}", {"value": value})
        except PayloadTooLarge:
            stage.fault()
        else:
            raise AssertionError(f"{size:,} bytes were accepted without an error")
    stage.execute(
        "UPDATE howdah.settings SET max_payload_bytes = greatest(max_payload_bytes, %s) RETURNING true", 2 * size
    )
    with JobQueue(stage.dsn, max_payload_bytes=2 * size) as generous:
        taken = {generous.enqueue(f"echo_{place}", {"value": value}).id: value for place in PLACES}
    stage.acknowledged += taken
    return taken


def is_huge(value: Any) -> bool:
    return isinstance(value, str) and len(value) > 50_000
