"""Where there is no screen: one snapshot, as tables or as JSON."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psycopg
import pytest

from howdah import JobQueue
from howdah.cli.commands.top.snapshot import FAILED, RUNNING, STALLED, WAITING, View, take
from howdah.cli.render.progress import short_id
from tests.cli.runner import command, howdah, howdah_process
from tests.cli.test_health import register
from tests.cli.top.test_screen import running_job
from tests.conftest import Db


def test_a_pipe_gets_one_snapshot(dsn: str, queue: JobQueue, db: Db) -> None:
    register(db, "mail office")
    job = running_job(queue, "mail", 40, "sorting")
    queue.enqueue("report", delay=3_600)
    for argv in ([], ["--once"], ["--readonly"]):
        outcome = howdah("top", *argv, dsn=dsn)
        assert (outcome.code, outcome.err) == (0, "")
        for expected in ("schema howdah", "1 pending", "1 later", "types", "report", "running jobs", "sorting", "40%"):
            assert expected in outcome.out
        assert short_id(job.id) in outcome.out
        assert "mail office" in outcome.out


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_a_narrow_terminal_gets_the_first_columns_whole(dsn: str, queue: JobQueue, columns: int) -> None:
    running_job(queue, "a_type_with_a_long_name", 40, "a stage with a long name, too")
    lines = howdah("top", "--once", dsn=dsn, COLUMNS=str(columns)).out.splitlines()
    tables = [line for line in lines if line.startswith(("type ", "a_type", "id", "…"))]
    assert len(tables) == 4
    assert max(map(len, tables)) <= columns
    assert all("a_type_with_a_long_name" in line for line in tables[1::2])


def test_an_empty_queue_is_shown_with_a_hint(dsn: str) -> None:
    outcome = howdah("top", dsn=dsn)
    assert outcome.code == 0
    for expected in ("0 pending", "no types", "no running jobs", "no workers"):
        assert expected in outcome.out


def test_json_has_everything_in_one_object(dsn: str, queue: JobQueue, db: Db) -> None:
    register(db, "mail office")
    db.execute("""UPDATE workers SET throughput = '{"mail": {"per_second": 2.5, "run": 0.25, "wait": 1.5}}'""")
    job = running_job(queue, "mail", 40, "sorting")
    (top,) = howdah("top", "--json", dsn=dsn).lines
    assert (top["schema"], top["total"]["running"]) == ("howdah", 1)
    assert (top["types"]["mail"]["running"], top["types"]["mail"]["workers"]) == (1, 1)
    assert top["types"]["mail"]["throughput"] == {"per_second": 2.5, "run": 0.25, "wait": 1.5}
    assert (top["jobs"][0]["id"], top["jobs"][0]["record"]["percent"]) == (str(job.id), 40)
    assert (top["workers"][0]["worker_id"], top["workers"][0]["ready"]) == ("mail office", True)


def test_head_can_close_the_pipe(dsn: str, queue: JobQueue) -> None:
    queue.enqueue("mail")
    with subprocess.Popen(command("top", "--dsn", dsn), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b"howdah top")
        process.stdout.close()
        assert process.wait(timeout=180) in (0, 141)
        assert process.stderr.read() == b""


@pytest.mark.parametrize("argv", [["--every", "0"], ["--every", "often"], ["--limit", "0"], ["--limit", "many"]])
def test_a_wrong_call_exits_with_2(dsn: str, argv: list[str]) -> None:
    outcome = howdah("top", *argv, dsn=dsn)
    assert (outcome.code, outcome.out) == (2, "")
    assert "Traceback" not in outcome.err


def test_what_is_wrong_from_the_beginning_has_its_exit_code(dsn: str) -> None:
    assert howdah("top", "--schema", "nowhere", dsn=dsn).code == 3
    assert howdah("top", dsn="host=/nowhere connect_timeout=2").code == 4


def test_the_other_commands_do_not_load_what_only_the_screen_needs() -> None:
    loaded = "import sys; from howdah.cli import parser; parser.build(); print('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True, timeout=180)
    assert done.stdout == "False\n"


@pytest.mark.parametrize("view", [RUNNING, STALLED, WAITING, FAILED], ids=lambda view: view.name)
@pytest.mark.parametrize("jobs", [0, 3])
def test_a_snapshot_is_five_statements_at_most(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, view: View, jobs: int
) -> None:
    for _ in range(jobs):
        running_job(queue, "mail")
        queue.enqueue("mail")
    take(queue, view, 2)
    sent: list[Any] = []
    execute: Any = psycopg.Cursor.execute

    def counted(self: Any, statement: Any, *args: Any, **options: Any) -> Any:
        sent.append(statement)
        return execute(self, statement, *args, **options)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    take(queue, view, 2)
    assert 1 <= len(sent) <= 5


def test_it_can_be_asked_for_in_a_process_of_its_own(dsn: str) -> None:
    outcome = howdah_process("top", "--dsn", dsn)
    assert (outcome.code, outcome.err) == (0, "")
