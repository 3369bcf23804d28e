"""Steps of a job: what its attempts have done already, and what it waits for."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from howdah.model.codec import Codec, codec_of, decoded

StepKind: TypeAlias = Literal["step", "signal", "sleep"]
StepState: TypeAlias = Literal["done", "waiting", "timed out"]


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """A step of a job, which later attempts do not repeat.

    name: unique within the job. Howdah names waits itself: ``signal:paid#1``, ``sleep#1``.
    kind: ``"step"``, ``"signal"`` or ``"sleep"``. state: ``"done"``, ``"waiting"`` or ``"timed out"``.
    result: what the function returned, or the data of the signal.
    attempt: the attempt that recorded it, or began to wait.
    begun_at, done_at: when it was recorded or began to wait, and when it was done or timed out.
    signal, key: the signal that it waits for, or got. until: when its sleep ends, or its wait times out.
    """

    name: str
    kind: StepKind
    state: StepState
    result: Any = dataclasses.field(repr=False)
    attempt: int
    begun_at: datetime
    done_at: datetime | None = None
    signal: str | None = None
    key: str | None = None
    until: datetime | None = None


class SignalResult(NamedTuple):
    """What has become of a signal: how many jobs it woke; and whether it is kept for a later wait, because none waited."""

    woken: int
    kept: bool


def step_of(row: dict[str, Any], codec: Codec) -> Step:
    codec = codec_of(row, codec)
    row.pop("is_redacted")
    return Step(**{**row, "result": decoded(row["result"], codec)})
