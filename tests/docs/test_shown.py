"""What a page shows and cannot run is held against the real thing: units, manifests, settings, code of others, long runs."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import textwrap

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from howdah import JobQueue, errors
from howdah.cli import parser
from howdah.cli.commands.bench.scenarios import SCENARIOS
from howdah.db.statements import ROLES
from howdah.handlers import outcome
from howdah.testing import drain
from tests.cli.runner import howdah
from tests.conftest import Db
from tests.docs.pages import ROOT, block_of
from tests.pooler import pgbouncer
from tests.tenant import NOBODY, Tenant

# Files of others that start Howdah


@pytest.mark.parametrize(
    ("page", "beginning", "commands"),
    [
        ("docs/how-to/deploy.md", "[Unit]", ["work"]),
        ("docs/how-to/deploy.md", "FROM", ["health", "work"]),
        ("docs/how-to/deploy.md", "apiVersion", ["health", "health", "work"]),
        ("docs/how-to/doctor.md", "*/5", ["doctor"]),
    ],
)
def test_the_commands_in_it_are_commands(page: str, beginning: str, commands: list[str]) -> None:
    text = block_of(page, beginning).text
    arrays = [json.loads(found) for found in re.findall(r'\["howdah".*?\]', text)]
    lines = [shlex.split(found) for found in re.findall(r"\S*howdah [a-z]+[^>|\n]*", text) if '"' not in found]
    words = [argv[1:] for argv in (*arrays, *lines)]
    assert sorted(argv[0] for argv in words) == commands
    for argv in words:
        parser.build().parse_args(argv)


def test_systemd_does_not_start_again_what_would_end_again(dsn: str) -> None:
    unit = configparser.ConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(block_of("docs/how-to/deploy.md", "[Unit]").text)
    # A mistake in the call, and a schema that does not fit.
    assert unit["Service"]["RestartPreventExitStatus"] == "2 3"
    assert howdah("work", "nowhere:queue").code == 2
    assert howdah("stats", "--schema", "not_installed", dsn=dsn).code == 3


def test_pgbouncer_takes_the_settings_and_jobs_go_through_it(dsn: str) -> None:
    ini = configparser.ConfigParser()
    ini.read_string(block_of("docs/how-to/poolers.md", "[databases]").text)
    settings = {name: value for name, value in ini["pgbouncer"].items() if name != "listen_port"}
    with pgbouncer(dsn, settings) as pooled, JobQueue(pooled) as queue:
        sent = queue.enqueue("through_the_pooler")
        (job,) = queue.claim(["through_the_pooler"])
        queue.complete(job)
        assert queue.get(sent).status == "completed"


# SQL with a name to be filled in


def test_roles_can_be_undone_and_jobs_stay(dsn: str) -> None:
    script = block_of("docs/how-to/roles.md", "REASSIGN").text
    with Tenant(dsn, "undone") as tenant:
        with tenant.queue("producer") as queue:
            job = queue.enqueue("stays")
        with psycopg.connect(dsn, autocommit=True) as conn:
            for role in (*ROLES, NOBODY):
                conn.execute(SQL("DROP ROLE {}").format(Identifier(tenant.login(role))))
            conn.execute(script.replace("NAME", "CURRENT_USER").replace("howdah_", "undone_"))
            left = conn.execute("SELECT rolname FROM pg_roles WHERE rolname LIKE 'undone%'").fetchall()
        assert left == []
        with JobQueue(dsn, "undone") as queue:
            (claimed,) = queue.claim(["stays"])
            assert claimed.id == job.id


# What others' libraries look like


@pytest.mark.parametrize(
    ("page", "beginning"),
    [
        ("docs/how-to/from-celery.md", "# billing.py\nfrom celery"),
        ("docs/how-to/from-celery.md", "@app.task"),
        ("docs/how-to/from-procrastinate.md", "# newsletter.py\nimport procrastinate"),
    ],
)
def test_code_for_other_libraries_is_python(page: str, beginning: str) -> None:
    ast.parse(block_of(page, beginning).text)


# The layout


def test_the_layout_names_every_module_and_none_that_is_not_there() -> None:
    for beginning, folder in (("src/howdah/", "src/howdah"), ("worker.py", "src/howdah/worker")):
        named = set(re.findall(r"\b\w+\.py\b", block_of("CONTRIBUTING.md", beginning).text))
        there = {file.name for file in (ROOT / folder).glob("*.py")} - {"__init__.py", "__main__.py", "__about__.py"}
        assert there - named == set()
        for name in named - {"__init__.py"}:
            assert [*(ROOT / "src").rglob(name), *(ROOT / "tests").rglob(name)], name


# Runs that take minutes


def test_a_bench_prints_what_is_shown() -> None:
    text = block_of("docs/reference/command.md", "$ howdah bench enqueue").text
    figures = re.findall(r"^  (\S.*?)  +[\d,.]+ +[\d,.]+ +[\d,.]+  (\S+)$", text, flags=re.MULTILINE)
    meanings = re.findall(r"^([a-z-]+)  (.+); [\d,]+ jobs$", text, flags=re.MULTILINE)
    asked = text.splitlines()[0].split()[3:]
    expected = [scenario for scenario in SCENARIOS if scenario.what in asked]
    assert meanings == [(scenario.what, scenario.meaning) for scenario in expected]
    assert figures == [(name or scenario.how, unit) for scenario in expected for name, unit in scenario.units.items()]


# What takes two weeks


def test_prune_prints_what_is_shown(dsn: str, db: Db) -> None:
    shown = block_of("docs/reference/command.md", "$ howdah prune\nsegment").text.splitlines()[1:]
    db.execute("INSERT INTO jobs (job_type, status) VALUES ('ended', 'completed')")
    printed = howdah("prune", "--keep", "0", dsn=dsn).out.splitlines()
    assert _without_digits(printed[-1:]) == _without_digits(shown)


def _without_digits(lines: list[str]) -> list[str]:
    return [re.sub(r"\d+", "0", line) for line in lines]


# Docstrings


def test_the_tree_of_errors_is_the_tree() -> None:
    above: dict[int, str] = {}
    for line in str(errors.__doc__).splitlines():
        if found := re.match(r"    (?P<branch>[│├└─ ]*)(?P<name>[A-Z]\w+)(?: \((?P<also>\w+)\))?", line):
            depth = len(found["branch"]) // 4
            above[depth] = found["name"]
            bases = [base.__name__ for base in getattr(errors, found["name"]).__bases__]
            parents = [above[depth - 1]] if depth else ["Exception"]
            assert bases == [*parents, *([found["also"]] if found["also"] else [])], line


def test_the_outcomes_of_the_docstring_are_outcomes(queue: JobQueue) -> None:
    statements = textwrap.dedent(str(outcome.__doc__).partition("::\n")[2]).strip().splitlines()
    jobs = []
    for number, statement in enumerate(statements):
        namespace = dict(vars(outcome))
        exec(f"def handler():\n    {statement}", namespace)
        jobs.append(queue.job(name=f"outcome_{number}")(namespace["handler"]).enqueue())
    drain(queue)
    snoozed, retried, failed, cancelled = (queue.get(job) for job in jobs)
    assert (snoozed.status, snoozed.attempts) == ("pending", 0)
    assert (retried.status, retried.attempts) == ("pending", 1)
    assert (failed.status, failed.last_error) == ("failed", "no such user")
    assert (cancelled.status, cancelled.last_error) == ("cancelled", "not wanted")
