from __future__ import annotations

import pytest

from howdah import __version__
from howdah.cli.parser import all_commands
from tests.cli.runner import howdah, howdah_process

NAMES = {
    "workflow",
    "demo",
    "migrate",
    "enqueue",
    "list",
    "show",
    "skill",
    "stats",
    "top",
    "web",
    "cancel",
    "retry",
    "delete",
    "reprioritise",
    "reschedule",
    "recover",
    "prune",
    "psql",
    "pause",
    "resume",
    "limit",
    "signal",
    "schedule",
    "work",
    "health",
    "watch",
    "logs",
    "bench",
    "doctor",
    "dsn",
}


def test_every_promised_command_is_there() -> None:
    assert {command.name for command in all_commands()} == NAMES


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"]])
def test_the_overview_teaches_how_to_begin(argv: list[str]) -> None:
    outcome = howdah(*argv)
    assert (outcome.code, outcome.err) == (0, "")
    for expected in ("quick start:", "howdah demo", "HOWDAH_DSN", "exit codes:", *NAMES):
        assert expected in outcome.out
    assert all(len(line) <= 100 for line in outcome.out.splitlines())


@pytest.mark.parametrize("command", all_commands(), ids=lambda command: command.name)
def test_the_help_of_each_command_has_a_summary_and_examples(command: object) -> None:
    name = getattr(command, "name", "")
    outcome = howdah(name, "--help")
    assert outcome.code == 0
    assert outcome.out.startswith(f"usage: howdah {name} ")
    examples = outcome.out.partition("examples:\n")[2].splitlines()
    assert 2 <= sum("howdah " in line and not line.startswith("  #") for line in examples) <= 4
    assert any(f"howdah {name}" in line for line in examples)
    assert "--schema" in outcome.out


def test_options_of_every_command_stand_before_or_after_it(dsn: str) -> None:
    before = howdah("--json", "--schema", "howdah", "stats", dsn=dsn)
    after = howdah("stats", "--json", "--schema", "howdah", "--dsn", dsn)
    assert before.lines == after.lines
    assert howdah("--schema", "nowhere", "stats", "--schema", "howdah", dsn=dsn).code == 0


def test_the_version() -> None:
    assert howdah("--version").out == f"howdah {__version__}\n"
    assert howdah_process("list", "--version").out == f"howdah {__version__}\n"


@pytest.mark.parametrize("argv", [["fly"], ["--wings"], ["list", "--wings"], ["list", "extra"]])
def test_a_wrong_call_points_to_the_help(argv: list[str]) -> None:
    outcome = howdah(*argv)
    assert (outcome.code, outcome.out) == (2, "")
    assert "--help" in outcome.err
