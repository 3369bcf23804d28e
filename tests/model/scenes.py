"""The worlds that are explored: each is small, and each is seen as a whole."""

from __future__ import annotations

from tests.model.rules import Flow, Scene
from tests.model.table import Limits

FAULTS = frozenset({"crash", "stop", "cut", "lost reply", "late message", "late beat"})
ORDERS = frozenset({"cancel", "retry", "expire", "timed_out", "cancel_overdue", "interrupt", "leave"})
ALL = FAULTS | ORDERS
ENDINGS = ("complete", "fail", "snooze", "crash")
# With an operator's retry, an earlier job may come back while a later one runs.
LOSSES = frozenset({"crash", "interrupt", "timed_out", "cancel"})
LIMIT, ORDER = Flow(limit=1), Flow(limit=1, ordered=True)

FULL = (
    Scene("2 workers, 1 job, any 2 surprises", kinds=ALL, surprises=2),
    Scene("2 workers, 2 jobs, any 1 surprise", jobs=2, room=2, endings=("complete",), kinds=ALL, surprises=1),
    Scene("2 processes of one name, 1 job, any 1 surprise", names=(0, 0), kinds=ALL, surprises=1),
    Scene("a worker and psql, 1 job, any 1 surprise", plain=frozenset({1}), kinds=ALL, endings=ENDINGS, surprises=1),
    Scene("2 workers, 1 job, a failover and 1 fault", kinds=FAULTS | {"failover"}, endings=("complete",), surprises=2),
    Scene("2 workers, 2 jobs started ahead, any 1 surprise", jobs=2, room=2, ahead=True, endings=("complete",), kinds=ALL, surprises=1),
    Scene("1 worker, 1 job started ahead, crashes without end", names=(0,), room=2, ahead=True, kinds=frozenset({"crash", "interrupt"})),
    Scene("2 workers, 1 job, stops and crashes without end", kinds=frozenset({"crash", "stop"}), endings=("complete", "fail")),
    Scene("2 workers, 2 jobs of a key with limit 1, any 1 surprise", jobs=2, endings=("complete",), kinds=ALL, surprises=1, flow=LIMIT),
    Scene("2 workers, 3 jobs of a key with limit 1, 1 crash", jobs=3, endings=("complete",), kinds=frozenset({"crash"}), surprises=1, flow=LIMIT),
    Scene("2 workers, 2 jobs of an ordered key, 1 loss or cancellation", jobs=2, endings=("complete", "fail"), kinds=LOSSES, surprises=1, flow=ORDER),
)  # fmt: skip

SMALL = (
    Scene("2 workers, 1 job, any 1 surprise", kinds=ALL, surprises=1),
    Scene("a worker and psql, 1 job, 1 order", plain=frozenset({1}), kinds=ORDERS, surprises=1),
    Scene("1 worker, 2 jobs, 1 fault", names=(0,), jobs=2, room=2, endings=("complete",), kinds=FAULTS, surprises=1),
    Scene(
        "1 worker, 2 jobs started ahead, 1 fault",
        names=(0,),
        jobs=2,
        room=2,
        ahead=True,
        endings=("complete",),
        kinds=FAULTS,
        surprises=1,
    ),
    Scene("2 workers, 1 job, 1 failover", kinds=frozenset({"failover"}), endings=("complete", "fail"), surprises=1),
    Scene(
        "2 workers, 2 jobs of a key with limit 1, 1 crash",
        jobs=2,
        endings=("complete",),
        kinds=frozenset({"crash"}),
        surprises=1,
        flow=LIMIT,
    ),
    Scene("2 workers, 2 jobs of an ordered key", jobs=2, endings=("complete", "fail"), flow=ORDER),
)

# For what is broken: as little as it takes to see it.
ONE_JOB = Scene("2 workers, 1 job", kinds=frozenset({"stop", "crash"}), surprises=2)
ONE_WORKER = Scene("1 worker, 1 job", names=(0,), kinds=ALL, surprises=1, endings=("complete", "fail"))
DEAD_WORKER = Scene(
    "2 workers, 1 job, 1 crash", kinds=frozenset({"crash"}), surprises=1, endings=("complete",), limits=Limits(1, 2, 1)
)
AHEAD = Scene(
    "1 worker, 2 jobs started ahead, crashes without end",
    names=(0,),
    jobs=2,
    room=2,
    ahead=True,
    endings=("complete",),
    kinds=frozenset({"crash"}),
)
LAST_ATTEMPT = Scene(
    "1 worker, 1 job with 1 attempt",
    names=(0,),
    room=2,
    kinds=frozenset({"timed_out", "retry"}),
    endings=("complete", "fail"),
    surprises=2,
    limits=Limits(1, 2, 1),
)
ONE_NAME = Scene("2 processes of one name, 1 job", names=(0, 0), kinds=frozenset({"late beat", "crash"}), surprises=2)
FAILOVER = Scene("2 workers, 1 job, 1 failover", kinds=frozenset({"failover"}), endings=("complete",), surprises=1)
TWO_JOBS = Scene("2 workers, 2 jobs", jobs=2, room=2, kinds=frozenset({"timed_out", "stop"}), surprises=1)
SMALL_APPETITE = Scene("2 workers, 2 jobs, 1 at a time", jobs=2)
ONE_KEY = Scene("2 workers, 2 jobs of a key with limit 1", jobs=2, endings=("complete",), flow=LIMIT)
LATE_CLAIM = Scene("2 workers, 3 jobs of a key with limit 1", jobs=3, endings=("complete",), flow=LIMIT)
IN_ORDER = Scene("2 workers, 2 jobs of an ordered key", jobs=2, endings=("complete", "fail"), flow=ORDER)
