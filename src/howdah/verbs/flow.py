"""The verbs for limits, rates and turns: how many jobs run at once, and how often they start, over all workers."""

from __future__ import annotations

from typing import Any

from howdah.checks import options
from howdah.checks.context import Context
from howdah.db.plan import Plan, Row, call, read
from howdah.model.connection import Connection
from howdah.model.rate import Rate, RateOption, parsed_rate
from howdah.model.results import Limit
from howdah.verbs.both import VerbGroup, both, name_verbs
from howdah.verbs.pressure import set_max_pending


def set_limit(
    context: Context,
    running: int | None,
    *,
    job_type: str | None = None,
    per: str | int | None = None,
    each_key: bool = False,
    group: str | None = None,
    conn: Connection | None = None,
) -> Plan[None]:
    """Sets how many jobs run at once over all workers. It applies instead of the handler's ``limit``, and to jobs that wait
    already; those that run go on.

    running: None resets it: then the handler's limit applies again.
    job_type: of the type; with ``per``, of one flow key of it; with ``each_key``, of each of its keys.
    group: of all types whose handlers name the group.
    """
    yield from call(
        "set_limit",
        **_limited(job_type, per, each_key, group),
        running=None if running is None else options.integer(running, "running", least=0),
    )


def set_rate(
    context: Context,
    rate: RateOption | None,
    *,
    job_type: str | None = None,
    per: str | int | None = None,
    each_key: bool = False,
    group: str | None = None,
    conn: Connection | None = None,
) -> Plan[None]:
    """Sets how often jobs start over all workers. It applies instead of the handler's ``rate``, and to jobs that wait already.

    rate: such as "50/s", "100/min" or ``Rate(50, seconds=1, burst=10)``. None resets it: then the handler's rate applies again.
    job_type, per, each_key, group: what it is for, as of ``set``.
    """
    yield from call(
        "set_rate",
        **_limited(job_type, per, each_key, group),
        **({"jobs": None} if rate is None else parsed_rate(rate).stored),
    )


def set_weight(
    context: Context, job_type: str, per: str | int, weight: int | None, *, conn: Connection | None = None
) -> Plan[None]:
    """Sets how many jobs a flow key gives when it is its turn, for each one that other keys give. None: one, as they do."""
    yield from call(
        "set_weight",
        job_type=options.job_type(job_type),
        flow_key=options.flow_key(per),
        weight=None if weight is None else options.integer(weight, "weight", least=1, most=1000),
    )


def limits(context: Context, *, conn: Connection | None = None) -> Plan[list[Limit]]:
    """All limits, rates, weights and pauses of keys, and how many jobs run within each; and the bounds on jobs that wait."""
    rows = yield from read("limits")
    return [Limit(rate=_rate(row), **row) for row in rows]


class Limits(VerbGroup):
    """How many jobs run at once, how often they start and how many may wait, over all workers, as ``queue.limits``.

    What operators set here applies at once, without a deployment, instead of what the handlers say.
    """

    set, aset = both(set_limit)
    set_rate, aset_rate = both(set_rate)
    set_weight, aset_weight = both(set_weight)
    set_max_pending, aset_max_pending = both(set_max_pending)
    list, alist = both(limits)


name_verbs(Limits)


def _limited(job_type: str | None, per: str | int | None, each_key: bool, group: str | None) -> dict[str, Any]:
    return {
        "job_type": None if job_type is None else options.job_type(job_type),
        "flow_key": None if per is None else options.flow_key(per),
        "group": None if group is None else options.name(group, "group", options.MAX_KEY_LENGTH),
        "each_key": bool(each_key),
    }


def _rate(row: Row) -> Rate | None:
    jobs, seconds, burst = (row.pop(f"rate_{name}") for name in ("jobs", "seconds", "burst"))
    return None if jobs is None else Rate(jobs, seconds, burst)
