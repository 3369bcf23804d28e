"""Everything that a user can call is described."""

from __future__ import annotations

import inspect
import re
from typing import Any, LiteralString

import howdah
from howdah import Handler, JobQueue, Limits, Schedules, Workflows
from howdah.cli import parser
from howdah.db import statements
from howdah.errors import BY_SQLSTATE
from howdah.worker import WorkerOptions
from howdah.worker.background.maintenance import PRUNE_EVERY
from howdah.worker.progress.buffer import REPORT_EVERY
from howdah.worker.progress.tracker import MAX_LOGS, MAX_MESSAGE
from tests.conftest import Db
from tests.docs.pages import ROOT

CLIENT = (ROOT / "docs/reference/client.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
COMMAND = (ROOT / "docs/reference/command.md").read_text(encoding="utf-8")
DEFAULTS = (ROOT / "docs/reference/defaults.md").read_text(encoding="utf-8")
SQL = (ROOT / "docs/reference/sql.md").read_text(encoding="utf-8")

VERBS = [
    *(name for name in dir(JobQueue) if not name.startswith("_")),
    *(
        f"{group}.{name}"
        for group, kind in {"schedules": Schedules, "limits": Limits, "workflows": Workflows}.items()
        for name in dir(kind)
        if not name.startswith("_")
    ),
]

INTERNAL = (
    "Internal",
    "Part of claim",
    "Part of notify",
    "Part of rotate",
    "Rejects ",
    "Tests replace it",
    "The clock for",
    "The error list of a job",
)
"""The text in the comment of an internal function."""


def test_every_verb_is_in_the_reference_of_the_client() -> None:
    assert [verb for verb in VERBS if not re.search(rf"`(@|await )?(queue\.)?{re.escape(verb)}\b", CLIENT)] == []


def test_every_public_name_is_in_the_reference_of_the_client() -> None:
    names = [name for name in howdah.__all__ if not name.startswith("_")]
    assert [name for name in names if not re.search(rf"\b{name}\b", CLIENT + ERRORS)] == []


def test_every_command_has_a_section() -> None:
    for name in (command.name for command in parser.all_commands()):
        assert re.search(rf"^## .*`howdah {name}`", COMMAND, flags=re.MULTILINE), name
        assert re.search(rf"^\$ (\w+=\$\(|printf.*\| )?howdah {name}\b", COMMAND, flags=re.MULTILINE), name


def test_every_public_sql_function_is_described_with_its_arguments(db: Db) -> None:
    rows = db.execute(
        "SELECT p.proname, p.proargnames, p.proargmodes, p.pronargs, obj_description(p.oid, 'pg_proc') AS said"
        " FROM pg_proc AS p WHERE p.pronamespace = 'howdah'::regnamespace AND p.proname = ANY (%s)"
        " AND p.prorettype <> 'trigger'::regtype",
        (list(statements.names("functions")),),
    ).fetchall()
    public = [row for row in rows if not any(word in row["said"] for word in INTERNAL)]
    assert len(public) > 20
    for row in public:
        described = re.search(rf"^\| `{row['proname']}\(.*$", SQL, flags=re.MULTILINE)
        assert described, (
            f"{row['proname']} has no row in docs/reference/sql.md. If only other functions call it, end its COMMENT with"
            f" 'Internal.'; it is now: {row['said']}"
        )
        for argument in (row["proargnames"] or ())[: row["pronargs"]]:
            assert re.search(rf"\b{argument}\b", described[0]), f"{row['proname']} takes {argument}"


def test_every_sqlstate_is_described() -> None:
    for state, error in BY_SQLSTATE.items():
        assert re.search(rf"^\| `{state}` .*`{error.__name__}`", SQL, flags=re.MULTILINE)


def test_the_defaults_in_the_readme_are_those_of_the_code(db: Db) -> None:
    shown = dict(re.findall(r"^\| ([a-z][^|]+) \| ([^|]+) \| [^|]+ \|$", DEFAULTS, flags=re.MULTILINE))
    settings = _row(db, "SELECT * FROM settings")
    job = _row(db, "SELECT * FROM enqueue('defaults')")
    options = inspect.signature(JobQueue).parameters
    assert shown["priority"] == str(job["priority"])
    assert shown["attempts"] == str(job["max_attempts"])
    assert shown["ended jobs are kept"] == f"{settings['archive_retention'].days} days"
    assert shown["a segment of the archive is closed"] == "after a twelfth of that time; the first four at 4 GB, too"
    assert "v_keep / 12" in statements.source("functions/rotate")
    assert "v_bytes < 4::bigint << 30 OR v_closed >= 4" in statements.source("functions/rotate")
    assert shown["workers rotate and prune the archive"] == f"every {PRUNE_EVERY / 60:.0f} minutes"
    assert shown["crashes before a job fails"] == str(settings["max_crashes"])
    assert shown["interruptions that cost no attempt"] == str(settings["max_interruptions"])
    assert shown["time for a cancelled job to stop"] == f"{settings['cancel_grace'].seconds} s"
    assert shown["largest payload"].startswith(f"{options['max_payload_bytes'].default // 1024} KiB")
    assert shown["connections of a pool"] == f"{options['pool_size'].default} at most"
    assert shown["wait for a connection"] == f"{options['timeout'].default} s"
    worker = {name: option.default for name, option in inspect.signature(WorkerOptions.checked).parameters.items()}
    assert shown["lease of a worker"].startswith(f"{worker['lease']} s")
    assert shown["heartbeat of a worker"] == f"every {worker['heartbeat']} s"
    assert shown["sweep of a worker"].startswith(f"every {worker['sweep']} s")
    assert shown["poll for jobs without a notification"] == f"every {worker['poll']} s"
    assert shown["grace after SIGTERM"] == f"{worker['grace']} s"
    assert shown["coroutines at once in a worker"] == str(worker["concurrency"])
    assert shown["threads of a worker"] == str(worker["threads"])
    assert shown["leaked handlers before a worker restarts"] == f"more than {worker['max_leaked']}"
    assert shown["share of jobs claimed by age instead of priority"] == str(worker["fair_share"])
    handler = inspect.signature(Handler).parameters
    assert shown["progress is written"] == f"every {REPORT_EVERY} s at most"
    assert shown["events kept of an attempt"] == f"{handler['max_events'].default:,}"
    assert shown["log lines kept of an attempt"] == (
        f"{MAX_LOGS:,}, from {handler['log_level'].default} on, {MAX_MESSAGE:,} characters each"
    )
    reporting = statements.source("functions/merged_progress")
    assert shown["history of a job's progress"] == "40 points"
    assert "jsonb_array_length(v_points) > 40" in reporting
    assert shown["a job without reports is stalled"] == "after five of its usual gaps, 30 s at least"
    assert "greatest(5 * v_gap, 30)" in reporting
    assert "interval '10 minutes'" in "".join(
        map(statements.source, ("functions/plain_update", "functions/plain_insert"))
    )
    assert "p_lease interval DEFAULT '10 minutes'" in statements.source("functions/claim")
    assert "p_lease interval DEFAULT '15 seconds'" in statements.source("functions/register_worker")
    policy = '{"kind": "exponential", "delay": 2, "factor": 2, "max": 3600, "jitter": 0.2}'
    assert policy in statements.source("functions/attempt_outcome")
    assert policy in CLIENT


def _row(db: Db, query: LiteralString) -> dict[str, Any]:
    row = db.execute(query).fetchone()
    assert row is not None
    return row
