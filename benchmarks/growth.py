"""Growth: how fast we still are when there is more of something, as a ratio to the small case, in turns, in one run.

    python -m benchmarks.growth [--cases others,held] [--archived 5000000] [--rounds 5] [--quick] [--dsn …] [--out FILE.json]

Each case has two databases on one server, a small one and a grown one, and drains the same number of jobs now here, now
there, with the real worker in a process of its own; rates are the database's own record, from the first start to the
last end. The ratio is taken round by round. The cases:

    others      1M jobs wait that are of types which the worker does not handle
    scheduled   1M jobs of the worker's own type are for later
    archived    5M jobs have ended today (--archived 10000000 for ten)
    types       the worker handles 500 types, and all jobs are of one of them
    mixed       the same, and the jobs are of all 500, at random
    backlog     5M jobs of the worker's own type wait, of which it does a part
    held        a transaction with a snapshot and an xid stays open in the grown database, while 1M jobs go through it:
                the last three rounds against the first two; beside it, a database without such a transaction
    listeners   64 sessions enqueue one by one, while 4 sessions sleep on the type and listen, and never stop to: against
                no sleeper at all, so that no notification is sent. Nothing is claimed in either.
    workers     64 sessions enqueue, while 4 real workers do the jobs: against the same with the notification taken out
                of the database, so that the workers find the jobs by polling. Both do the same work; a worker that
                only polls takes larger batches, so this rather flatters the other side.
    loops       16 bare loops (see benchmarks.bare) that claim 100 at a time, against 4
    claimers    16 real workers, against 4

Asked for: at least 0.9 of the small case; of ``held`` at least 0.8; of ``loops`` and ``claimers`` no less than with 4.
``--quick`` is a smoke run: the sizes are divided by 20, the drains by 5. In full it takes about half an hour.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from psycopg import sql

from benchmarks import bare, meter, result
from benchmarks.bare import Shape
from benchmarks.drain import Drain, crew, drain, rate
from benchmarks.meter import Spread, spread
from benchmarks.program import output, program
from benchmarks.server import TYPE, Connection, Place, Server, server

ENQUEUERS = 64
TYPES = 500
FEW, MANY = 4, 16


class Size(NamedTuple):
    """How much of everything."""

    million: int
    jobs: int
    archived: int
    seconds: float
    rounds: int


Measured: TypeAlias = dict[str, Any]
Case: TypeAlias = Callable[[Server, Size], Measured]


# In turns


def compared(
    size: Size, small: Callable[[], float | Drain], grown: Callable[[], float | Drain], *, goal: float = 0.9
) -> Measured:
    """Measures the one and the other, in turns."""
    found: list[tuple[float | Drain, float | Drain]] = []
    for number in range(size.rounds):
        found.append((small(), grown()))
        was, now = (each.rate if isinstance(each, Drain) else each for each in found[-1])
        result.say(f"  round {number + 1}: {was:,.0f}/s, grown {now:,.0f}/s: {now / was:.2f}")
    before, after = (_figures([pair[side] for pair in found]) for side in (0, 1))
    ratio = meter.ratio(after["rate"]["values"], before["rate"]["values"])
    return {"small": before, "grown": after, "ratio": ratio, "goal": goal, "met": ratio["median"] >= goal}


def _figures(found: Sequence[float | Drain]) -> dict[str, Spread]:
    if isinstance(found[0], Drain):
        return {name: spread(getattr(each, name) for each in found) for name in Drain._fields}
    return {"rate": spread(each for each in found if isinstance(each, float))}


def refilled(place: Place, size: Size, *arguments: str, workers: int = 1) -> Callable[[], Drain]:
    """A drain of jobs that are enqueued just before, in a table that autovacuum has no reason to touch."""

    def measured() -> Drain:
        _tidy(place)
        place.fill(size.jobs)
        return drain(place, size.jobs, *arguments, workers=workers)

    return measured


def _tidy(place: Place) -> None:
    place.conn.execute("VACUUM (ANALYZE) live")
    place.conn.execute("CHECKPOINT")


# The cases of a single worker


def others(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    for number in range(10):
        grown.fill(size.million // 10, f"other{number}")
    grown.settle()
    return compared(size, refilled(small, size), refilled(grown, size))


def scheduled(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    tomorrow = grown.now() + datetime.timedelta(days=1)
    for hours in range(10):
        grown.fill(size.million // 10, run_at=tomorrow + datetime.timedelta(hours=hours))
    grown.settle()
    return compared(size, refilled(small, size), refilled(grown, size))


def archived(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    _fill_archive(grown, size.archived)
    grown.settle()
    return {"archived": size.archived, **compared(size, refilled(small, size), refilled(grown, size))}


def _fill_archive(place: Place, count: int) -> None:
    """Copies one job that has really ended, under new ids: only so do millions of them not take hours."""
    place.fill(1)
    drain(place, 1)
    columns = [
        name
        for (name,) in place.conn.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'archive'::regclass AND attnum > 0 AND NOT attisdropped"
        )
    ]
    copy = sql.SQL(
        "INSERT INTO archive ({}) SELECT {} FROM (SELECT * FROM archive LIMIT 1) AS a, generate_series(1, %s)"
    )
    values = [sql.SQL("new_id()") if name == "id" else sql.Identifier("a", name) for name in columns]
    made = copy.format(sql.SQL(", ").join(map(sql.Identifier, columns)), sql.SQL(", ").join(values))
    for done in range(0, count, 500_000):
        place.conn.execute(made, (min(500_000, count - done),))
        result.say(f"  {min(done + 500_000, count):,} archived")


def types(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    return compared(size, refilled(small, size), refilled(grown, size, "--types", str(TYPES)))


def mixed(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")

    names = [f"{TYPE}{number or ''}" for number in range(TYPES)]

    def of_all_types() -> Drain:
        _tidy(grown)
        grown.fill_mixed(size.jobs, names)
        return drain(grown, size.jobs, "--types", str(TYPES), types=names)

    return compared(size, refilled(small, size), of_all_types)


def backlog(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    for done in range(5):
        grown.fill(size.million)
        result.say(f"  {(done + 1) * size.million:,} wait")
    grown.settle()

    def a_part() -> Drain:
        _tidy(grown)
        return drain(grown, size.jobs)

    return compared(size, refilled(small, size), a_part)


def held(server: Server, size: Size) -> Measured:
    free, grown = server.place("small"), server.place("grown")
    size = size._replace(jobs=size.million // 10, rounds=10)
    with _old_transaction(grown):
        churned = compared(size, _churned(free, size), _churned(grown, size), goal=0.8)
    rates = churned["grown"]["rate"]["values"]
    last = spread(each / statistics.mean(rates[:2]) for each in rates[-3:])
    return {**churned, "against_free": churned["ratio"], "ratio": last, "met": last["median"] >= churned["goal"]}


@contextlib.contextmanager
def _old_transaction(place: Place) -> Iterator[None]:
    with place.connect("bench-old") as conn, conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute("SELECT pg_current_xact_id()")
        yield


def _churned(place: Place, size: Size) -> Callable[[], Drain]:
    """Not tidied: what the last round has left behind is what is asked about."""

    def measured() -> Drain:
        place.fill(size.jobs)
        return drain(place, size.jobs)

    return measured


# The cases of many


def listeners(server: Server, size: Size) -> Measured:
    small, grown = server.place("small"), server.place("grown")
    notified: list[int] = []

    def heard() -> float:
        grown.empty()
        with contextlib.ExitStack() as stack:
            asleep = [_listener(grown, stack, asleep=True) for _ in range(FEW)]
            found = enqueued(grown, size)
            notified.append(sum(1 for _ in asleep[0].notifies(timeout=0.1)))
        return found

    def unheard() -> float:
        small.empty()
        return enqueued(small, size)

    return {**compared(size, unheard, heard), "notifications": notified}


def _listener(place: Place, stack: contextlib.ExitStack, *, asleep: bool) -> Connection:
    conn = stack.enter_context(place.connect("bench-listener"))
    row = conn.execute("SELECT channel()").fetchone()
    assert row is not None
    conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(row[0])))
    if asleep:
        conn.execute("SELECT add_sleeper(p_job_types => ARRAY[%s::varchar])", (TYPE,))
    return conn


def workers(server: Server, size: Size) -> Measured:
    silent, grown = server.place("small"), server.place("grown")
    silent.conn.execute(
        "CREATE OR REPLACE FUNCTION notify_workers(p_job_types varchar[], p_alone boolean DEFAULT false) RETURNS void"
        " LANGUAGE plpgsql AS 'BEGIN END'"
    )

    def beside_workers(place: Place) -> float:
        place.empty()
        with contextlib.ExitStack() as stack:
            crew(place, stack, FEW)
            heard = _listener(place, stack, asleep=False)
            found = enqueued(place, size)
            notified[place].append(sum(1 for _ in heard.notifies(timeout=0.1)))
        return found

    notified: dict[Place, list[int]] = {silent: [], grown: []}
    found = compared(size, lambda: beside_workers(silent), lambda: beside_workers(grown))
    return {**found, "notifications": notified[grown], "notifications_without": notified[silent]}


def enqueued(place: Place, size: Size) -> float:
    """Jobs a second that 64 sessions enqueue."""
    arguments = ("--connections", str(ENQUEUERS), "--seconds", str(size.seconds))
    with program("benchmarks.produce", place, "bench-producer", *arguments) as process:
        told = json.loads(output(process))
    return float(told["jobs"] / told["seconds"])


def loops(server: Server, size: Size) -> Measured:
    place = server.place("small")

    def claimed_by(count: int) -> float:
        place.empty()
        place.fill(size.jobs)
        began = place.now()
        bare.run(place, Shape(count, 100))
        return rate(place, began, place.now())

    return compared(size, lambda: claimed_by(FEW), lambda: claimed_by(MANY), goal=1.0)


def claimers(server: Server, size: Size) -> Measured:
    place = server.place("small")
    # So many that it hardly counts how long sixteen processes take to get going on two cores.
    size = size._replace(jobs=4 * size.jobs)
    few, many = (refilled(place, size, workers=count) for count in (FEW, MANY))
    return compared(size, few, many, goal=1.0)


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (others, scheduled, archived, types, mixed, backlog, held, listeners, workers, loops, claimers)
}


# The run


def show(cases: dict[str, Measured]) -> None:
    heads = [
        "",
        "small, jobs/s",
        "grown, jobs/s",
        "ratio",
        "from – to",
        "asked",
        "met",
        "CPU µs a job",
        "buffers a job",
    ]
    rows = [
        [
            name,
            f"{found['small']['rate']['median']:,.0f}",
            f"{found['grown']['rate']['median']:,.0f}",
            f"{found['ratio']['median']:.2f}",
            f"{found['ratio']['min']:.2f}–{found['ratio']['max']:.2f}",
            f"{found['goal']}",
            "yes" if found["met"] else "no",
            _from_to(found, 1e6, "backend_cpu", "worker_cpu"),
            _from_to(found, 1, "buffers"),
        ]
        for name, found in cases.items()
    ]
    print(result.table(heads, rows))


def _from_to(found: Measured, factor: float, *names: str) -> str:
    """What a job costs in the small case and in the grown one: a noisy machine disturbs this less than the rates."""
    if names[0] not in found["small"]:
        return ""
    small, grown = (sum(found[side][name]["median"] for name in names) * factor for side in ("small", "grown"))
    return f"{small:.1f} → {grown:.1f}"


def run(server: Server, names: Sequence[str], size: Size) -> dict[str, Measured]:
    cases: dict[str, Measured] = {}
    for name in names:
        result.say(f"{name}:")
        cases[name] = CASES[name](server, size)
        server.drop()
    return cases


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", default=",".join(CASES), metavar="NAME,…")
    parser.add_argument("--jobs", type=int, default=100_000, help="in each drain")
    parser.add_argument("--archived", type=int, default=5_000_000)
    args = parser.parse_args()
    with server(args.dsn) as running:
        machine = result.machine(running)
        cases = run(running, args.cases.split(","), _size(args))
    show(cases)
    result.write(args.out, {"machine": machine, "quick": args.quick, "jobs": args.jobs, "cases": cases})


def _size(args: argparse.Namespace) -> Size:
    if args.quick:
        return Size(50_000, args.jobs // 5, args.archived // 20, 1.5, min(args.rounds, 3))
    return Size(1_000_000, args.jobs, args.archived, 5.0, args.rounds)


if __name__ == "__main__":
    main()
