"""``skill``: a folder for coding agents, which is theirs once they have changed it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from howdah import skill
from tests.cli.runner import howdah

CHANGED = "our own words\n"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "home"


def files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir() if not path.name.startswith(".")}


SHIPPED = {file: skill.text(file) for file in skill.FILES}


@pytest.mark.parametrize(
    ("argv", "place"),
    [
        ([], "home/.claude/skills"),
        (["--project"], "project/.claude/skills"),
        (["--dir", "elsewhere/deep"], "project/elsewhere/deep"),
    ],
)
def test_it_goes_where_agents_look(home: Path, tmp_path: Path, argv: list[str], place: str) -> None:
    outcome = howdah("skill", "install", *argv)
    assert outcome.code == 0
    assert outcome.out.startswith("installed ")
    assert files(tmp_path / place / "postgres-job-queue") == SHIPPED
    again = howdah("skill", "install", *argv)
    assert (again.code, again.out.startswith("is up to date")) == (0, True)


def test_an_unchanged_older_copy_is_updated(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(skill, "text", lambda file="SKILL.md": f"{file} of an older version\n")
        folder = skill.install(home).folder
    assert "older" in (folder / "SKILL.md").read_text(encoding="utf-8")
    done = skill.install(home)
    assert (done.outcome, done.kept, files(folder)) == ("updated", (), SHIPPED)


@pytest.mark.parametrize("noted", [True, False], ids=["ours", "foreign"])
def test_a_changed_copy_is_left_alone_unless_forced(home: Path, noted: bool) -> None:
    folder = home / ".claude/skills/postgres-job-queue"
    if noted:
        howdah("skill", "install")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(CHANGED, encoding="utf-8")
    refused = howdah("skill", "install")
    assert (refused.code, refused.out) == (2, "")
    assert "--force" in refused.err
    assert (folder / "SKILL.md").read_text(encoding="utf-8") == CHANGED
    forced = howdah("skill", "install", "--force", "--json")
    assert json.loads(forced.out)["kept"] == [str(folder / "SKILL.md.old")]
    assert files(folder) == SHIPPED | {"SKILL.md.old": CHANGED}
    (folder / "SKILL.md").write_text("changed again\n", encoding="utf-8")
    howdah("skill", "install", "--force")
    assert files(folder) == SHIPPED | {"SKILL.md.old": CHANGED, "SKILL.md.old.1": "changed again\n"}


def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_it(home: Path) -> None:
    home.write_text("a file", encoding="utf-8")
    outcome = howdah("skill", "install")
    assert outcome.code == 2
    assert "cannot be written to" in outcome.err
    assert "Traceback" not in outcome.err


def test_it_is_printed() -> None:
    assert howdah("skill", "show").out == SHIPPED["SKILL.md"]
    assert howdah("skill", "show", "--readme").out == SHIPPED["README.md"]
    assert json.loads(howdah("skill", "show", "--json").out)["text"] == SHIPPED["SKILL.md"]


def test_its_front_matter_states_when_to_read_it() -> None:
    _, front, body = SHIPPED["SKILL.md"].split("---\n", 2)
    assert front.startswith("name: postgres-job-queue\n")
    for words in ("PostgreSQL job queue", "background jobs", "task queue", "priority queue", "SKIP LOCKED"):
        assert words.lower() in " ".join(front.split()).lower()
    for section in ("When to use", "Schema", "batch claiming", "Stale job recovery", "Decision table", "Never do"):
        assert section.lower() in body.lower()
