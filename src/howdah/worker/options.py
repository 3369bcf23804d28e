"""The options of a worker."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Self, TypedDict

from howdah.checks import options
from howdah.checks.options import Seconds
from howdah.errors import InvalidOption


class WorkerSettings(TypedDict, total=False):
    """The options of ``queue.worker``, for type checkers: those of ``WorkerOptions.checked``."""

    concurrency: int
    threads: int
    children: int | None
    types: Sequence[str] | None
    drain: bool
    grace: Seconds
    lease: Seconds
    heartbeat: Seconds
    sweep: Seconds
    poll: Seconds
    fair_share: float
    lazy_claims: bool
    max_leaked: int
    capture_logs: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Capacity, intervals and timeouts of a worker, in seconds."""

    concurrency: int
    threads: int
    children: int
    types: tuple[str, ...] | None
    drain: bool
    grace: float
    lease: float
    heartbeat: float
    sweep: float
    poll: float
    fair_share: float
    lazy_claims: bool
    max_leaked: int
    capture_logs: bool
    name: str

    @classmethod
    def checked(
        cls,
        name: str,
        *,
        concurrency: int = 50,
        threads: int = 10,
        children: int | None = None,
        types: Sequence[str] | None = None,
        drain: bool = False,
        grace: Seconds = 30,
        lease: Seconds = 15,
        heartbeat: Seconds = 3,
        sweep: Seconds = 5,
        poll: Seconds = 1,
        fair_share: float = 0,
        lazy_claims: bool = False,
        max_leaked: int = 10,
        capture_logs: bool = True,
    ) -> Self:
        made = cls(
            concurrency=options.integer(concurrency, "concurrency", least=1, most=100_000),
            threads=options.integer(threads, "threads", least=1, most=10_000),
            children=options.integer(
                os.cpu_count() or 1 if children is None else children, "children", least=1, most=1_000
            ),
            types=None if types is None else tuple(options.job_types(types)),
            drain=bool(drain),
            grace=options.span(grace, "grace").total_seconds(),
            lease=options.span(lease, "lease", positive=True).total_seconds(),
            heartbeat=options.span(heartbeat, "heartbeat", positive=True).total_seconds(),
            sweep=options.span(sweep, "sweep", positive=True).total_seconds(),
            poll=options.span(poll, "poll", positive=True).total_seconds(),
            fair_share=_share(fair_share),
            lazy_claims=bool(lazy_claims),
            max_leaked=options.integer(max_leaked, "max_leaked", least=0),
            capture_logs=bool(capture_logs),
            name=options.name(name, "name", 100),
        )
        if made.lease < 2 * made.heartbeat:
            raise InvalidOption(
                f"a lease of {made.lease:g} s with a heartbeat every {made.heartbeat:g} s leaves no room for one that is"
                " late: the lease must be at least twice the heartbeat"
            )
        return made


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InvalidOption(f"fair_share is a number from 0 to 1, not {options.shown(value)}")
    return float(value)
