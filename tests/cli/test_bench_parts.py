"""What a bench is made of: the choice of scenarios, the size of rounds, the loop."""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from howdah.cli.commands.bench.scenarios import SCENARIOS, Options, Round, chosen, jobs_of_a_round
from howdah.cli.process.worker_group import WorkerGroup, WorkerProcess
from howdah.worker import event_loop

SIZED = next(each for each in SCENARIOS if each.usual is None)
FIXED = next(each for each in SCENARIOS if each.usual is not None)


# The workers


def test_each_worker_gets_one_signal_to_stop_since_a_second_one_would_end_its_grace_period(tmp_path: Path) -> None:
    with WorkerGroup("app:queue", "", "howdah") as workers:
        processes = [mock.Mock(spec=subprocess.Popen) for _ in range(2)]
        workers.workers += [WorkerProcess(f"worker-{n}", each, tmp_path) for n, each in enumerate(processes)]
        for process in processes:
            process.wait.return_value = 0
        assert workers.stop() == {"worker-0": 0, "worker-1": 0}
        assert [process.send_signal.call_args_list for process in processes] == [[mock.call(signal.SIGTERM)]] * 2


# What is chosen


def test_the_named_scenarios_run_in_their_own_order() -> None:
    assert chosen([]) == list(SCENARIOS)
    assert [each.what for each in chosen(["pickup", "enqueue", "pickup"])] == ["enqueue"] * 4 + ["pickup"]
    assert len({each.name for each in SCENARIOS}) == len(SCENARIOS)


@given(st.integers(min_value=1, max_value=10**9), st.floats(min_value=1e-3, max_value=1e3))
def test_a_round_has_as_many_jobs_as_take_some_seconds_here(jobs: int, seconds: float) -> None:
    warm_up = Round(jobs, seconds, {})
    found = jobs_of_a_round(SIZED, Options(), warm_up)
    assert SIZED.few <= found <= SIZED.most
    if SIZED.few < found < SIZED.most:
        assert found == pytest.approx(2 * jobs / seconds, abs=1)
    assert jobs_of_a_round(FIXED, Options(), warm_up) == FIXED.usual


def test_a_round_has_as_many_jobs_as_were_asked_for_within_reason() -> None:
    warm_up = Round(1, 1.0, {})
    assert jobs_of_a_round(SIZED, Options(jobs=7), warm_up) == 7
    assert jobs_of_a_round(FIXED, Options(jobs=10**9), warm_up) == FIXED.most


def test_the_payload_is_added_to_the_data() -> None:
    assert list(Options().numbered(2)) == [{"n": 0}, {"n": 1}]
    assert list(Options(payload=3).numbered(1)) == [{"n": 0, "filler": "xxx"}]


# The loop


def test_uvloop_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert event_loop.loop_factory() is None
    assert event_loop.loop_name() == "asyncio"
    fake = types.ModuleType("uvloop")
    monkeypatch.setattr(fake, "new_event_loop", asyncio.new_event_loop, raising=False)
    monkeypatch.setitem(sys.modules, "uvloop", fake)
    monkeypatch.setattr(metadata, "version", lambda name: f"of {name}")
    assert event_loop.loop_factory() is asyncio.new_event_loop
    assert event_loop.loop_name() == "uvloop of uvloop"


def test_options_are_plain_data() -> None:
    assert set(dataclasses.asdict(Options())) == {"jobs", "rounds", "processes", "concurrency", "payload"}
