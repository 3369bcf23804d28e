"""Nothing waits for a lock without a bound: later sessions wait behind a waiting one."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from howdah.db import migrate, statements
from howdah.db.plan import Begin, Plan, Read, Script, Step

ROOT = Path(str(resources.files("howdah")))
FILES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in sorted(ROOT.rglob("*.sql"))}

WAITS = re.compile(
    r"\bLOCK TABLE\b|\bALTER (?!SYSTEM|ROLE|SEQUENCE)|\bDROP (?!CONSTRAINT)|\bCREATE (CONSTRAINT )?TRIGGER\b|\bTRUNCATE (?!ON)"
    r"|\bCREATE (UNIQUE )?INDEX\b|\bCREATE( OR REPLACE)? VIEW\b|\bCREATE SCHEMA\b|\bREINDEX\b|\bVACUUM\b|\bCLUSTER\b"
    r"|\bpg_advisory_(xact_)?lock(_shared)?\("
)
BOUND = re.compile(r"\bSET lock_timeout = '\d+m?s'|\bset_config\('lock_timeout'", re.IGNORECASE)
BOUND_BEFORE = re.compile(r"\bSET LOCAL lock_timeout = '\d+m?s'")
BY_MIGRATIONS = (
    "sql/tables/",
    "sql/views/",
    "sql/setup/",
    "sql/roles/",
    "sql/set_aside.sql",
    "sql/lock_migration.sql",
    "sql/former_functions.sql",
)
NEW_SCHEMA = re.compile(r"CREATE SCHEMA howdah;\n(COMMENT ON SCHEMA howdah IS '[^']*';\n)?")
"""A name that is new is waited for only where another session is about to make it, too."""


def uncommented(text: str) -> str:
    """Without comments, with what stands in strings: that may be executed."""
    return re.sub(r"--[^\n]*", "", text)


def waiting() -> list[str]:
    return [name for name, text in FILES.items() if WAITS.search(uncommented(text)) and not NEW_SCHEMA.fullmatch(text)]


def test_it_finds_them() -> None:
    found = waiting()
    for name in (
        "functions/archive/rotate",
        "functions/enqueue/lock_type_for_bulk",
        "set_aside",
        "lock_migration",
        "testing/drop",
        "bench/drop",
    ):
        assert f"sql/{name}.sql" in found
    assert "cli/commands/demo/clear.sql" in found


@pytest.mark.parametrize("name", [name for name in waiting() if not name.startswith(BY_MIGRATIONS)])
def test_every_file_that_takes_a_lock_bounds_its_wait(name: str) -> None:
    text = uncommented(FILES[name])
    first = WAITS.search(text)
    assert first is not None
    if name.startswith("sql/functions/"):
        assert BOUND.search(text), f"{name}: add SET lock_timeout to the function"
    else:
        assert BOUND_BEFORE.search(text, 0, first.start()), f"{name}: begin with SET LOCAL lock_timeout"


def steps(plan: Plan[migrate.Migration], *, installed: bool) -> list[Step]:
    """What a migration sends, where the schema is not there, or is of an older version."""
    standing = {
        "is_development": False,
        "installed": installed,
        "has_roles": installed,
        "plain_jobs_in": None if installed else "howdah",
        "adoptable": True,
        "may_adopt": True,
        "plain_jobs_of": "me",
        "login": "me",
        "marked_version": 1 if installed else None,
        "functions_name": None,
        "is_public": False,
        "may_mend": True,
        "strange_owner": None,
        "lesser_owner": None,
    }
    version = {"version": 0, "is_current": False, "has_current_views": False, "oldest_client": 1, "rights": None}
    answers = {
        "standing": [standing],
        "schema_version": [version],
        "amiss": [{"missing_rows": [], "has_foreign_events": False}],
        "may_create_roles": [{"missing": False, "may_create": True, "may_own": True, "login": "me"}],
    }
    sent: list[Step] = []
    answer = None
    while True:
        try:
            step = plan.send(answer)
        except StopIteration:
            return sent
        sent.append(step)
        answer = answers.get(step.name, []) if isinstance(step, Read) else [{"adopt": 0}]


@pytest.mark.parametrize("installed", [False, True])
def test_a_migration_sets_a_bound_before_anything_else(installed: bool) -> None:
    sent = steps(migrate.migrate("howdah", adopt=True, roles=True), installed=installed)
    assert isinstance(sent[0], Begin)
    assert isinstance(sent[1], Read)
    assert sent[1].name == "wait_at_most"
    lock = next(place for place, step in enumerate(sent) if isinstance(step, Script) and "advisory" in step.text)
    # While it has the lock of migrations, it waits for others a moment only.
    after = sent[lock + 1]
    assert isinstance(after, Read)
    assert (after.name, after.arguments) == ("wait_at_most", {"wait": migrate.SHORT_WAIT})
    # All that waits is among what was sent, so that none of it has another way.
    scripts = "".join(step.text for step in sent if isinstance(step, Script))
    for name in (each for each in waiting() if each.startswith(BY_MIGRATIONS)):
        if not installed or not name.startswith("sql/set_aside"):
            part = next(line for line in statements.render(FILES[name], "howdah").splitlines() if WAITS.search(line))
            assert part.strip() in scripts, f"{name} is run by something else than a migration"


@pytest.mark.parametrize("roles", [False, True])
def test_a_printed_migration_sets_a_bound_before_anything_else(roles: bool) -> None:
    text = uncommented(migrate.script("howdah", roles=roles))
    bound, first = text.index("set_config('lock_timeout'"), WAITS.search(text)
    assert first is not None
    assert bound < first.start()


@pytest.mark.parametrize(
    "function",
    [
        "declare_type",
        "fire_schedule",
        "heartbeat",
        "unregister_worker",
        "recover",
        "register_worker",
        "schedule",
        "share_locks",
    ],
)
def test_what_workers_call_does_not_wait_for_a_row_for_ever(function: str) -> None:
    """An operator may have locked it, in a transaction that stays open."""
    assert BOUND.search(uncommented(statements.source(f"functions/{function}")))
