"""The supervisor, as a real process over real children."""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from howdah.cli.process.child_process import ChildProcess
from howdah.cli.process.supervisor import SourceTree
from tests.worker.processes import has_ended, until
from tests.worker.supervised import Line, behave, supervise

NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child")


def may_unshare() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run([*NAMESPACE, "true"], capture_output=True).returncode == 0
    )


def test_a_killed_child_is_started_again_under_its_name(tmp_path: Path) -> None:
    with supervise(tmp_path, 2) as run:
        first = {said.number: said for said in run.await_words("ready", 1, 2)}
        os.kill(first[1].pid, signal.SIGKILL)
        run.await_line(r"worker 1 \(pid \d+\) was ended by SIGKILL; starting it again in")
        (again,) = run.await_words("ready", 1)
        assert again.pid != first[1].pid
        assert again.name == first[1].name == "name.1"
        run.signal(signal.SIGTERM)
        run.await_words("end", 1, 2)
        assert run.ended() == 0


def test_what_a_killed_child_started_is_killed_before_it_is_started_again(tmp_path: Path) -> None:
    behave(tmp_path, "parent", child=1)
    with supervise(tmp_path) as run:
        (started,) = run.await_words("child", 1)
        (first,) = run.await_words("ready", 1)
        behave(tmp_path, "polite", child=1)
        left = psutil.Process(started.pid)
        os.kill(first.pid, signal.SIGKILL)
        run.await_words("start", 1)
        until(lambda: has_ended(left), "what the killed child had started is gone", within=30)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_reach_every_child_once_and_again(tmp_path: Path, number: signal.Signals) -> None:
    behave(tmp_path, "slow")
    with supervise(tmp_path, 2) as run:
        run.await_words("ready", 1, 2)
        run.signal(number)
        run.await_words("term", 1, 2)
        run.signal(number)
        run.await_words("end", 1, 2)
        assert run.ended() == 0
        assert run.words().count(("term", 1)) == run.words().count(("term", 2)) == 2


def test_a_child_that_does_not_end_in_time_is_killed(tmp_path: Path) -> None:
    behave(tmp_path, "stubborn", child=1)
    with supervise(tmp_path, 2, time_to_kill=0.1) as run:
        run.await_words("ready", 1, 2)
        run.signal(signal.SIGTERM)
        run.await_line(r"worker 1 .* has not ended in time, and is killed")
        assert run.ended() == 128 + signal.SIGKILL


def test_the_worst_code_of_the_children_is_that_of_the_whole(tmp_path: Path) -> None:
    behave(tmp_path, "polite", 6, child=2)
    with supervise(tmp_path, 3) as run:
        run.await_words("ready", 1, 2, 3)
        run.signal(signal.SIGTERM)
        assert run.ended() == 6


def test_a_child_that_dies_of_the_signal_before_it_could_listen_has_ended_well(tmp_path: Path) -> None:
    with supervise(tmp_path) as run:
        run.await_line("worker 1 .* started")
        # Python is still on its way up, or has just come.
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_ctrl_c_reaches_the_supervisor_alone(tmp_path: Path) -> None:
    with supervise(tmp_path, 2) as run:
        one, other = run.await_words("ready", 1, 2)
        assert os.getpgid(run.process.pid) not in (one.group, other.group)
        run.signal(signal.SIGINT)
        assert run.ended() == 0
        assert run.words().count(("term", 1)) == 1


def test_children_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    with supervise(tmp_path, 2) as run:
        run.await_words("ready", 1, 2)
        run.signal(signal.SIGKILL)
        run.await_line("the supervisor is gone: stopping")
        run.await_words("end", 1, 2)
        assert run.ended() == -signal.SIGKILL


def test_even_a_child_that_will_not_end_outlives_its_supervisor_only_for_its_grace(tmp_path: Path) -> None:
    behave(tmp_path, "stubborn")
    with supervise(tmp_path, STUB_PATIENCE="0.1") as run:
        run.await_words("ready", 1)
        run.signal(signal.SIGKILL)
        run.await_words("term", 1)
        # The end of the pipe: the child is gone too.
        assert run.ended() == -signal.SIGKILL


@pytest.mark.parametrize("code", [2, 3, 4])
def test_a_wrong_call_schema_or_login_ends_everything_with_that_code(tmp_path: Path, code: int) -> None:
    behave(tmp_path, "leave", code)
    behave(tmp_path, "unready", child=2)
    with supervise(tmp_path, 2) as run:
        assert run.ended() == code
        assert run.words().count(("start", 1)) == 1


def test_other_codes_are_reasons_to_try_again(tmp_path: Path) -> None:
    behave(tmp_path, "leave", 5)
    with supervise(tmp_path) as run:
        run.await_line("ended with 5; starting it again in")
        run.behave("polite")
        run.await_words("ready", 1)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_a_worker_that_left_to_shed_its_handlers_is_back_at_once(tmp_path: Path) -> None:
    behave(tmp_path, "polite", 7)
    with supervise(tmp_path) as run:
        (first,) = run.await_words("ready", 1)
        run.behave("polite")
        os.kill(first.pid, signal.SIGTERM)
        run.await_line("ended with 7; starting it again at once")
        run.await_words("ready", 1)


def test_drained_children_are_not_started_again(tmp_path: Path) -> None:
    behave(tmp_path, "leave")
    behave(tmp_path, "leave", 1, child=2)
    with supervise(tmp_path, 2, "drain") as run:
        run.await_line("worker 2 .* ended with 1; starting it again")
        run.behave("leave", child=2)
        assert run.ended() == 0
        assert run.words().count(("start", 1)) == 1


def test_hangup_restarts_one_after_the_other(tmp_path: Path) -> None:
    with supervise(tmp_path, 2) as run:
        first = {said.number: said for said in run.await_words("ready", 1, 2)}
        run.signal(signal.SIGHUP)
        (one,), (two,) = run.await_words("ready", 1), run.await_words("ready", 2)
        assert (one.pid != first[1].pid, two.pid != first[2].pid) == (True, True)
        cycle = [(word, number) for number in (1, 2) for word in ("term", "end", "start", "up")]
        assert [said for said in run.words() if said[0] != "ready"][-8:] == cycle
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_hangup_goes_on_with_the_next_if_one_does_not_get_ready(tmp_path: Path) -> None:
    with supervise(tmp_path, 2, time_to_get_ready=0.1) as run:
        run.await_words("ready", 1, 2)
        run.behave("unready", child=1)
        run.signal(signal.SIGHUP)
        run.await_words("ready", 2)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_waiting_for_a_slow_child_to_leave_costs_no_cpu(tmp_path: Path) -> None:
    behave(tmp_path, "slow", child=1)
    with supervise(tmp_path, 2, time_to_get_ready=0) as run:
        run.await_words("ready", 1, 2)
        run.signal(signal.SIGHUP)
        run.await_words("term", 1)
        before, began = run.cpu_seconds(), time.process_time()
        # Spending as much as a busy supervisor would makes this a fair race on a loaded machine.
        while time.process_time() < began + 0.4:
            pass
        assert run.cpu_seconds() - before < 0.1
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


def test_hangup_spares_the_others_if_the_first_does_not_come_back(tmp_path: Path) -> None:
    with supervise(tmp_path, 2) as run:
        run.await_words("ready", 1, 2)
        run.behave("leave", 2, child=1)
        run.signal(signal.SIGHUP)
        run.await_line("the restart is cancelled")
        run.behave("polite", child=1)
        run.await_words("ready", 1)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0
        assert run.words().count(("start", 2)) == 1


def test_a_changed_file_restarts_the_children_and_is_named(tmp_path: Path) -> None:
    source = tmp_path / "package" / "app.py"
    source.parent.mkdir()
    source.write_text("one = 1")
    with supervise(tmp_path, 1, "reload") as run:
        run.await_words("ready", 1)
        run.behave("leave", 2)
        source.write_text("broken")
        run.await_line(r"package/app\.py has changed: restarting")
        run.await_line("ended with 2; waiting for a file to change")
        run.behave("polite")
        source.write_text("one = 2 - 1")
        run.await_line(r"package/app\.py has changed: restarting")
        run.await_words("ready", 1)
        run.signal(signal.SIGTERM)
        assert run.ended() == 0


@pytest.mark.skipif(not may_unshare(), reason="making a PID namespace (unshare --pid) is not permitted here")
def test_as_pid_1_it_reaps_orphans_and_handles_signals(tmp_path: Path) -> None:
    behave(tmp_path, "orphan")
    with supervise(tmp_path, wrapper=NAMESPACE) as run:
        run.await_words("reaped", 1)
        run.await_words("ready", 1)
        own = Path(f"/proc/{run.process.pid}/task/{run.process.pid}/children").read_text().split()
        os.kill(int(own[0]), signal.SIGTERM)
        run.await_words("end", 1)
        assert run.ended() == 0


def test_a_closed_terminal_stops_it(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with supervise(tmp_path, terminal=theirs) as run:
        run.await_words("ready", 1)
        os.close(theirs)
        os.close(ours)
        run.await_line("the terminal is gone: stopping the workers")
        assert run.ended() == 0


# Its parts


def test_early_deaths_are_followed_by_longer_and_longer_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda least, _: least)
    child = ChildProcess(1, "name", [], 0)
    child.started_at = float("inf")
    delays = [child.start_again() for _ in range(12)]
    assert delays[:4] == pytest.approx([0.2, 0.4, 0.8, 1.6])
    assert delays[-1] == 15
    child.started_at = 0
    monkeypatch.setattr("time.monotonic", lambda: 61.0)
    assert child.start_again() == pytest.approx(0.2)


def test_a_source_tree_watches_only_its_own_files(tmp_path: Path) -> None:
    for folder in (".hidden", "node_modules", "env", "package"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.py").write_text("")
    (tmp_path / "env" / "pyvenv.cfg").touch()
    tree = SourceTree(tmp_path)
    assert tree.changed() is None
    for folder in (".hidden", "node_modules", "env"):
        (tmp_path / folder / "x.py").write_text("changed")
    (tmp_path / "notes.txt").touch()
    assert tree.changed() is None
    (tmp_path / "package" / "x.py").write_text("changed")
    assert tree.changed() == "package/x.py"
    (tmp_path / "new.py").touch()
    assert tree.changed() == "new.py"
    (tmp_path / "new.py").unlink()
    assert tree.changed() == "new.py"
    assert tree.changed() is None


def test_a_line_of_a_child_is_parsed_into_its_fields() -> None:
    said = Line("ready 2 name.2 100 200")
    assert (said.word, said.number, said.name, said.pid, said.group) == ("ready", 2, "name.2", 100, 200)
