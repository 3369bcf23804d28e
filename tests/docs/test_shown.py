"""What a page shows and cannot run is held against the real thing: units, manifests, settings, code of others, long runs."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import textwrap
import tomllib

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


# The rooms


def test_contributing_names_every_room_and_none_that_is_not_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = page.partition("<!-- the rooms:")[2].partition("\n\nBeside them")[0]
    rooms = re.findall(r"^\| `(\S+)`", table, flags=re.MULTILINE)
    source = ROOT / "src/howdah"
    folders = {f"{file.parent.name}/" for file in source.glob("*/*") if file.suffix in (".py", ".sql")}
    assert {room for room in rooms if room.endswith("/")} == folders | {"sql/"}
    for room, text in re.findall(r"^\| `(\S+)` \| (.+) \|$", table, flags=re.MULTILINE):
        assert (source / room).exists(), room
        for named in re.findall(r"`(\w+/)`", text):
            assert (source / room / named).is_dir(), named


def test_contributing_lists_the_layers_in_their_order() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", page, flags=re.MULTILINE)
    layers = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][
        0
    ]["layers"]
    order = [module.strip().removeprefix("howdah.") for layer in layers for module in layer.split(":")]
    assert [room for room in named if room in order] == [module for module in order if module in named]


@pytest.mark.parametrize(
    ("beginning", "source"),
    [
        ("CREATE OR REPLACE FUNCTION", "sql/functions/operate/queue_position.sql"),
        ("def queue_position", "verbs/operate.py"),
    ],
)
def test_the_example_in_contributing_is_in_the_source(beginning: str, source: str) -> None:
    assert block_of("CONTRIBUTING.md", beginning).text in (ROOT / "src/howdah" / source).read_text(encoding="utf-8")


def test_every_file_and_command_that_contributing_names_is_there() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for path in re.findall(
        r"`((?:src|tests|docs|benchmarks|examples|sql|doctor|cli|checks|verbs|watch|worker)/[\w/.]*)`", page
    ):
        assert (ROOT / path).exists() or (ROOT / "src/howdah" / path).exists(), path
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:`|\$ |CI=1 )make ([a-z]+)", page):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


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
