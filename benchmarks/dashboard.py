"""What the dashboard costs the database: its pages beside a large queue, a hundred open pages, and its minute figures.

    python -m benchmarks.dashboard pages --archived 10000000 --live 1000000
    python -m benchmarks.dashboard open
    python -m benchmarks.dashboard minutes

pages: for each page, the time of its statements by the server's own log, planning included; twice, because the first call of a connection reads
the catalogues. At the end, which large tables were read from one end to the other.
open: statements and transactions per second with a hundred open pages, and with one.
minutes: how fast jobs end with the minute figures, and without them, in turns. Jobs per second of the backend's CPU, and WAL for each job.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import statistics
import time
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from psycopg.conninfo import conninfo_to_dict

from benchmarks import meter, result
from benchmarks.server import Place, server
from howdah import JobQueue
from howdah.web import app

TYPES = 20
CHUNK = 500_000
LARGE = 10_000
"""Rows of a table that may not be read from one end to the other."""
_DURATION = re.compile(r"duration: ([0-9.]+) ms")
_BATCH = 500
IDLE = 11.0


def main() -> None:
    parser = result.parser(__doc__)
    parser.add_argument("what", choices=("pages", "open", "minutes"))
    parser.add_argument("--archived", type=int, default=1_000_000, help="ended jobs (pages; the full size is 10000000)")
    parser.add_argument("--live", type=int, default=100_000, help="jobs that wait (pages; the full size is 1000000)")
    parser.add_argument("--seconds", type=float, default=20, help="how long each number of pages is open (open)")
    parser.add_argument("--rounds", type=int, default=12, help="rounds of 20,000 jobs with and without (minutes)")
    options = parser.parse_args()
    if options.quick:
        options.archived, options.live, options.seconds, options.rounds = 20_000, 5_000, 3, 2
    with server(options.dsn) as running:
        place = running.place("dashboard")
        figures = {"pages": pages, "open": open_pages, "minutes": minutes}[options.what](place, options)
        result.write(options.out, {"what": options.what, "machine": result.machine(running), **figures})


# Pages beside a large queue


def pages(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    fill(place, options.archived, options.live)
    return asyncio.run(visit(place))


def fill(place: Place, archived: int, live: int) -> None:
    """A queue that has been busy for five weeks."""
    conn = place.conn
    result.say(f"fill in {archived:,} ended jobs")
    for start in range(0, archived, CHUNK):
        conn.execute(
            "INSERT INTO archive_open (id, job_type, priority, status, data, progress, events_count, worker_id, created_at, started_at, completed_at,"
            " attempts, max_attempts, token, finished_at, run_at, first_due_at, crashes, interruptions, last_error, result)"
            " SELECT new_id(), 'type ' || n %% %(types)s, 100, CASE WHEN n %% 50 = 0 THEN 'failed' WHEN n %% 997 = 0 THEN 'cancelled' ELSE 'completed' END,"
            " jsonb_build_object('user', n, 'file', 'orders-' || n), 100, 0, 'worker ' || n %% 4, t.at, t.at, t.at, 1, 3, n, t.at, t.at, t.at, 0, 0,"
            " CASE WHEN n %% 50 = 0 THEN 'ValueError: row ' || n || ' has no price' END, '{\"ok\": true}'"
            " FROM generate_series(%(start)s::bigint, %(end)s) AS n"
            " CROSS JOIN LATERAL (SELECT now() - make_interval(secs => (%(all)s - n) * 1209600.0 / %(all)s) AS at) AS t",
            {"types": TYPES, "start": start + 1, "end": min(start + CHUNK, archived), "all": archived},
        )
        conn.execute("SELECT rotate()")
    conn.execute(
        "INSERT INTO archive_counts (day, job_type, status, jobs) SELECT (now() AT TIME ZONE 'UTC')::date - d, 'type ' || t, s, %s / 14 / %s"
        " FROM generate_series(0, 13) AS d, generate_series(0, %s) AS t, unnest(ARRAY['completed', 'failed']) AS s",
        (archived, TYPES, TYPES - 1),
    )
    result.say(f"fill in {live:,} live jobs")
    for number in range(TYPES):
        place.fill(live // TYPES, f"type {number}")
    result.say("fill in workflows, signals, schedules, and figures of five weeks")
    conn.execute(
        "INSERT INTO minutes (level, at, job_type, completed, failed, backlog, waits, wait_jobs, runs, run_jobs)"
        " SELECT v.level, date_bin(v.slot, now(), 'epoch') - v.slot * k, CASE WHEN t < 0 THEN '' ELSE 'type ' || t END, CASE WHEN t < 0 THEN 0 ELSE 1000 END,"
        " CASE WHEN t < 0 THEN 0 ELSE 20 END, CASE WHEN t < 0 THEN 0 ELSE 50 END, b, j, b, j"
        " FROM (VALUES (1, interval '1 minute', 0, 130), (2, interval '10 minutes', 14, 300), (3, interval '1 hour', 51, 840)) AS v (level, slot, first, last)"
        " CROSS JOIN LATERAL generate_series(v.first, v.last) AS k CROSS JOIN generate_series(-1, %s) AS t"
        " CROSS JOIN (SELECT array_agg(n::smallint) AS b, array_agg(n::real) AS j FROM generate_series(4, 40, 3) AS n) AS h",
        (TYPES - 1,),
    )
    with JobQueue(place.dsn) as queue:
        for number in range(300):
            with queue.workflow("import", key=str(number)) as flow:
                first = flow.add("type 1", name="fetch")
                parts = [flow.add("type 2", name=f"part {n}", after=first) for n in range(4)]
                flow.add("type 3", name="merge", after=parts)
        with queue.workflow("wide") as flow:
            first = flow.add("type 1", name="fetch")
            middle = [flow.add(f"type {n % 3}", name=f"part {n}", after=first) for n in range(400)]
            flow.add("type 3", name="merge", after=middle)
        for number in range(500):
            queue.signal("approved", {"by": "ann"}, key=str(number))
        for number in range(50):
            queue.schedules.set(f"schedule {number}", f"type {number % TYPES}", every=3600)
        for number in range(TYPES):
            queue.limits.set(100, job_type=f"type {number}")
    conn.execute(
        "SELECT record_audit('ann', 'retry', '{\"filter\": {\"status\": [\"failed\"]}}', 7, 'x') FROM generate_series(1, 5000)"
    )
    for number in range(40):
        place.one("SELECT count(*) FROM claim(%(w)s, ARRAY['type 5'], 5, 5)", w=f"worker {number % 4}")
    conn.execute("VACUUM (ANALYZE)")
    conn.execute("CHECKPOINT")


async def visit(place: Place) -> dict[str, Any]:
    """Each page twice, with the time that the server spent on it."""
    log = log_of(place)
    database = conninfo_to_dict(place.dsn)["dbname"]
    place.conn.execute(f'ALTER DATABASE "{database}" SET log_min_duration_statement = 0'.encode())
    figures: dict[str, Any] = {}
    async with JobQueue(place.dsn) as queue, visitor(queue) as (client, site):
        while "still looking" in (await client.get("/health")).text:
            pass
        # A session reports what it has read after ten idle seconds at the latest.
        await asyncio.sleep(IDLE)
        scanned = scans(place)
        for name, path in await paths(place, queue):
            figures[name] = await measured(client, site, log, name, path)
        await asyncio.sleep(IDLE)
        read = {
            name: after - scanned.get(name, 0) for name, after in scans(place).items() if after > scanned.get(name, 0)
        }
        print(
            "large tables that these pages read from one end to the other:",
            ", ".join(f"{name} ({n} ×)" for name, n in read.items()) or "none",
        )
        start, began = size_of(log), time.monotonic()
        await queue.adoctor()
        took = sum(ms for ms, _ in durations(log, start))
        print(f"{'the doctor, once':42} {took:8.1f} ms, in {time.monotonic() - began:.1f} s")
    return {"pages": figures, "scanned": read}


async def measured(client: httpx.AsyncClient, site: Any, log: Path, name: str, path: str) -> dict[str, float]:
    """A page, several times: the first of them on its own, because a connection reads the catalogues then, and the best of the others."""
    times = []
    for _ in range(4):
        # The doctor looks once in five minutes, beside the pages: see its own page.
        site.data._kept = {key: kept for key, kept in site.data._kept.items() if key[1] == "doctor"}
        start = size_of(log)
        answer = await client.get(path)
        await asyncio.sleep(0.05)
        assert answer.status_code == 200, (name, answer.status_code, answer.text[:500])
        found = durations(log, start)
        times.append((sum(ms for ms, _ in found), len(found), max(found, default=(0.0, ""))))
    took, sent, (slowest, statement) = min(times[1:])
    print(
        f"{name:42} {took:8.1f} ms  first {times[0][0]:8.1f}  {sent:3} messages; slowest {slowest:7.1f}: {statement[:70]}",
        flush=True,
    )
    return {"ms": round(took, 1), "first_ms": round(times[0][0], 1), "messages": sent, "slowest_ms": round(slowest, 1)}


@contextlib.asynccontextmanager
async def visitor(queue: JobQueue) -> AsyncIterator[tuple[httpx.AsyncClient, Any]]:
    dashboard = app(queue)
    transport = httpx.ASGITransport(dashboard, client=("127.0.0.1", 5))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
        yield client, dashboard._site
    await dashboard.aclose()


async def paths(place: Place, queue: JobQueue) -> list[tuple[str, str]]:
    """A name and an address for each page."""
    failed = place.one("SELECT id FROM archive WHERE status = 'failed' ORDER BY id DESC LIMIT 1")
    waiting = place.one("SELECT id FROM live WHERE status = 'pending' AND job_type = 'type 7' ORDER BY id LIMIT 1")
    flows = await queue.workflows.alist(limit=2)
    wide, small = (flow.id for flow in flows)
    filters: list[dict[str, Any]] = [
        {}, {"status": "pending"}, {"status": "running"}, {"status": "failed"}, {"status": "completed"}, {"type": "type 3"}, {"error": "row 77 has"},
        {"path": "$.user == 77"}, {"key": "nothing"}, {"worker": "worker 1"}, {"state": "stalled"}, {"state": "scheduled"}, {"priority": "50..90"},
        {"since": "1h"}, {"workflow": str(small)}, {"workflow": str(wide), "node": "part 7"}, {"status": "failed", "type": "type 0"},
        {"status": "cancelled"}, {"per": "nothing"},
    ]  # fmt: skip
    made = [("overview, an hour", "/"), ("overview, a day", "/?span=day"), ("overview, two weeks", "/?span=weeks")]
    made += [
        (f"jobs {' '.join(f'{k}={str(v)[:12]}' for k, v in each.items())}".strip(), f"/jobs?{urlencode(each)}")
        for each in filters
    ]
    made += [
        ("a failed job", f"/jobs/{failed}"),
        ("a waiting job", f"/jobs/{waiting}"),
        ("new job", "/jobs/new"),
    ]
    made += [("workflows", "/workflows"), ("workflows failed", "/workflows?status=failed&name=import")]
    made += [("a workflow of 6 nodes", f"/workflows/{small}"), ("a workflow of 402 nodes", f"/workflows/{wide}")]
    made += [
        (name, f"/{name}") for name in ("signals", "types", "workers", "schedules", "schedules/edit", "limits", "audit")
    ]
    made += [
        (f"count: {name}", f"/bulk?scope=all&{query}")
        for name, query in (("failed", "verb=retry&status=failed"), ("error", "verb=retry&error=row 7"))
    ]
    return made


def durations(log: Path, start: int) -> list[tuple[float, str]]:
    """The statements in the log since then: milliseconds, and what was sent. Only those of the dashboard's database are there."""
    with log.open("rb") as file:
        file.seek(start)
        lines = file.read().decode("utf-8", "replace").splitlines()
    found = []
    for place, line in enumerate(lines):
        if match := _DURATION.search(line):
            text = " ".join([line[match.end() :], *lines[place + 1 : place + 4]])
            found.append((float(match[1]), " ".join(text.split())))
    return found


def size_of(log: Path) -> int:
    return log.stat().st_size


def log_of(place: Place) -> Path:
    folder = Path(place.one("SHOW data_directory"))
    found = [each for each in (folder.parent / "log", folder.parent / "postgres.log", folder / "log") if each.is_file()]
    if not found:
        raise SystemExit("the log of this server cannot be read from here: leave --dsn out")
    return found[0]


def scans(place: Place) -> dict[str, int]:
    """How often each large table was read from one end to the other."""
    place.conn.execute("SELECT pg_stat_clear_snapshot()")
    rows = place.conn.execute(
        "SELECT relname, seq_scan FROM pg_stat_user_tables WHERE n_live_tup > %s", (LARGE,)
    ).fetchall()
    return dict(rows)


# A hundred open pages


def open_pages(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    place.fill(5_000)
    figures = {number: asyncio.run(opened(place, number, options.seconds)) for number in (1, 100)}
    ratio = figures[100]["statements"] / max(figures[1]["statements"], 0.1)
    print(f"statements of a hundred pages against one: {ratio:.2f} times")
    return {"open": figures, "ratio": round(ratio, 2)}


async def opened(place: Place, number: int, seconds: float) -> dict[str, float]:
    """So many browsers with the overview: each has a stream, and asks for its page at each tick."""
    log = log_of(place)
    database = conninfo_to_dict(place.dsn)["dbname"]
    place.conn.execute(f'ALTER DATABASE "{database}" SET log_min_duration_statement = 0'.encode())
    asked = 0
    async with JobQueue(place.dsn) as queue:
        dashboard = app(queue)
        transport = httpx.ASGITransport(dashboard, client=("127.0.0.1", 5))
        live, mailboxes = dashboard._live, []

        async def page(client: httpx.AsyncClient) -> None:
            nonlocal asked
            mailbox: asyncio.Queue[bytes | None] = asyncio.Queue(20)
            live._mailboxes.add(mailbox)
            mailboxes.append(mailbox)
            while (message := await mailbox.get()) is not None:
                if b"event: tick" in message:
                    assert (await client.get("/")).status_code == 200
                    asked += 1

        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            await client.get("/")
            tasks = [asyncio.create_task(page(client)) for _ in range(number)]
            stream = live._messages()
            await anext(stream)
            await asyncio.sleep(2)
            start, began, before = size_of(log), time.monotonic(), asked
            await asyncio.sleep(seconds)
            took, sent = time.monotonic() - began, durations(log, start)
            pages_seen = asked - before
            await stream.aclose()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await dashboard.aclose()
    figures = {
        "statements": round(len(sent) / took, 1),
        "ms": round(sum(ms for ms, _ in sent) / took, 1),
        "pages": round(pages_seen / took, 1),
    }
    print(
        f"{number:4} open: {figures['pages']} pages/s, {figures['statements']} messages/s to the server, {figures['ms']} ms of its time in a second",
        flush=True,
    )
    return figures


# The cost of the minute figures


def minutes(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Complete as it is, and as it would be without the figures, in turns."""
    source = place.one("SELECT pg_get_functiondef('complete'::regproc)")
    without = without_figures(source)
    boot = str(uuid.uuid4())
    place.conn.execute("SELECT register_worker('bench', %s, '1 day')", (boot,))
    rates: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    for number in range(options.rounds + 1):
        for name, text in (
            (("with", source), ("without", without)) if number % 2 else (("without", without), ("with", source))
        ):
            place.conn.execute(text)
            place.empty()
            place.conn.execute("SELECT register_worker('bench', %s, '1 day')", (boot,))
            place.fill(20_000)
            figures = drain(place, boot)
            if number:
                rates[name].append(figures)
    place.conn.execute(source)
    for name, found in rates.items():
        print(
            f"{name:8} {statistics.median(r for r, _ in found):10,.0f} jobs per second of CPU, {statistics.median(w for _, w in found):6.0f} bytes of WAL a job"
        )
    ratios = [one[0] / other[0] for one, other in zip(rates["with"], rates["without"], strict=True)]
    print(f"with against without: {statistics.median(ratios):.3f} (from {min(ratios):.3f} to {max(ratios):.3f})")
    return {"rates": rates, "ratio": round(statistics.median(ratios), 3)}


def without_figures(source: str) -> str:
    """The function ``complete`` without the statement that writes the figures."""
    text, count = re.subn(r"measured AS \(\n.*?GROUP BY job_type\n    \), ", "", source, flags=re.DOTALL)
    if count != 1:
        raise SystemExit("complete is not what this benchmark expects: adapt without_figures")
    return text


def drain(place: Place, boot: str) -> tuple[float, float]:
    """Jobs per second of the backend's CPU, and bytes of WAL for each job."""
    pid, done = place.conn.info.backend_pid, 0
    wal = place.one("SELECT pg_current_wal_insert_lsn()")
    before = meter.cpu_seconds([pid])
    claim = "SELECT id, token FROM claim('bench', %s, %s, %s, p_incarnation => %s)"
    while batch := place.conn.execute(claim, (["noop"], _BATCH, _BATCH, boot), prepare=True).fetchall():
        ids, tokens = zip(*batch, strict=True)
        place.conn.execute("SELECT count(*) FROM complete(%s, %s)", (list(ids), list(tokens)), prepare=True)
        done += len(batch)
    seconds = meter.cpu_seconds([pid]) - before
    written = int(place.one("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), %(w)s::pg_lsn)", w=wal))
    return done / seconds, written / done


if __name__ == "__main__":
    main()
