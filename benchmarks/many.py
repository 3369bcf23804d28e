"""Many of everything: types, priorities and keys, beside the plain case of the same run.

    python -m benchmarks.many [--jobs 20000] [--rounds 3] [--quick] [--dsn …] [--out FILE.json]

*claims*: what a claim of 1 and one of 100 cost the server, in milliseconds of its CPU, among jobs of one type that have 1, 100, 10,000 or 100,000 priorities; all of
them due, and all but a few scheduled for later. *types*: how long a worker with 10,000 types takes from its start until its first
job runs. *drains*: how fast a worker at its default settings gets through jobs of 10,000 priorities, and through jobs
of which each has a key, as a ratio to plain ones, round by round.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, NamedTuple

from benchmarks import meter, result
from benchmarks.drain import drain
from benchmarks.program import program
from benchmarks.server import PAYLOAD, TYPE, Connection, Place, server

DEFAULT_CONCURRENCY = "50"
CLAIMS = 5


class Size(NamedTuple):
    priorities: tuple[int, ...]
    types: int
    jobs: int
    most: int


FULL = Size((1, 100, 10_000, 100_000), 10_000, 100_000, 100_000)
QUICK = Size((1, 100, 1_000), 500, 2_000, 2_000)


def fill(place: Place, jobs: int, *, priorities: int = 1, keys: bool = False, later: bool = False) -> None:
    """Jobs of one type, their priorities in turn. Later: all of them in an hour or more."""
    place.conn.execute(
        "INSERT INTO live (id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key)"
        " SELECT new_id(), %(type)s, %(data)s::jsonb, n %% %(priorities)s, due, due, now(), 3,"
        " CASE WHEN %(keys)s THEN 'key ' || n END"
        " FROM generate_series(1, %(jobs)s) AS n,"
        " LATERAL (SELECT now() + CASE WHEN %(later)s THEN interval '1 hour' ELSE '0' END) AS run (due)",
        {"type": TYPE, "data": PAYLOAD, "priorities": priorities, "keys": keys, "jobs": jobs, "later": later},
    )
    place.conn.execute("ANALYZE live")


def milliseconds(conn: Connection, statement: str, *arguments: Any) -> float:
    """Of the backend's CPU: the median of some calls, each undone. The first one, which reads catalogues, is not counted."""
    took = []
    for _ in range(CLAIMS + 1):
        with conn.transaction(force_rollback=True):
            begun = meter.cpu_seconds([conn.info.backend_pid])
            conn.execute(statement.encode(), arguments, prepare=True).fetchall()
            took.append(1000 * (meter.cpu_seconds([conn.info.backend_pid]) - begun))
    return round(statistics.median(took[1:]), 2)


def claims(place: Place, size: Size) -> list[dict[str, Any]]:
    rows = []
    for later in (False, True):
        for priorities in size.priorities:
            place.empty()
            fill(place, size.most, priorities=priorities, later=later)
            with place.connect("claims") as conn:
                rows.append(
                    {
                        "due": "none" if later else "all",
                        "priorities": priorities,
                        "claim of 1": milliseconds(conn, "SELECT id FROM claim('w', %s, 1)", [TYPE]),
                        "claim of 100": milliseconds(conn, "SELECT id FROM claim('w', %s, 100)", [TYPE]),
                        "the oldest": milliseconds(conn, "SELECT id FROM claim('w', %s, 1, p_oldest => true)", [TYPE]),
                        "next_due": milliseconds(conn, "SELECT next_due(%s)", [TYPE]),
                    }
                )
            result.say(str(rows[-1]))
    return rows


def first_job(place: Place, types: int) -> dict[str, float]:
    """Seconds from the start of a worker's process until it is registered, and from there until a job of its last type has ended."""
    place.empty()
    place.conn.execute("SELECT enqueue(%s, %s::jsonb)", (f"{TYPE}{types - 1 or ''}", PAYLOAD))
    begun = time.monotonic()
    with program("benchmarks.work", place, "many", "--types", str(types), "--concurrency", DEFAULT_CONCURRENCY):
        while not place.one("SELECT count(*) FROM workers"):
            time.sleep(0.005)
        registered = time.monotonic()
        while not place.ended():
            time.sleep(0.005)
        done = time.monotonic()
    return {
        "until registered": round(registered - begun, 2),
        "from there to the end of a job": round(done - registered, 3),
    }


def drains(place: Place, jobs: int, rounds: int) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "10,000 priorities": {"priorities": 10_000},
        "a key each": {"keys": True},
    }
    rates: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(rounds):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            place.empty()
            fill(place, jobs, **kinds[kind])
            place.settle()
            rates[kind].append(drain(place, jobs, "--concurrency", DEFAULT_CONCURRENCY).rate)
            result.say(f"{kind}: {rates[kind][-1]:.0f} jobs a second")
    return {
        kind: {"rate": meter.spread(found), "ratio": meter.ratio(found, rates["plain"])}
        for kind, found in rates.items()
    }


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("--jobs", type=int, help="of one drain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("claims", "types", "drains"))
    args = parser.parse_args()
    size = QUICK if args.quick else FULL
    found: dict[str, Any] = {}
    with server(args.dsn) as running:
        found["machine"] = result.machine(running)
        place = running.place("many")
        if args.only in (None, "claims"):
            found["claims"] = claims(place, size)
            heads = list(found["claims"][0])
            print(result.table(heads, [[str(row[head]) for head in heads] for row in found["claims"]]))
        if args.only in (None, "types"):
            found["types"] = {str(types): first_job(place, types) for types in (1, size.types)}
            print(f"seconds, by types: {found['types']}")
        if args.only in (None, "drains"):
            found["drains"] = drains(place, args.jobs or size.jobs, args.rounds)
            for kind, row in found["drains"].items():
                print(f"{kind:20} {row['rate']['median']:8.0f} jobs/s  {row['ratio']['median']:.2f} of plain")
    result.write(args.out, found)


if __name__ == "__main__":
    main()
