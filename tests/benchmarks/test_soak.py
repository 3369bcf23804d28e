"""The soak: every fault happens, nothing is lost by any, and all of it is reported. No figure is checked for its size."""

from __future__ import annotations

import contextlib
import io
import json
import re
import signal
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.soak import director
from benchmarks.soak.__main__ import SCHEMA, main
from benchmarks.soak.accounts import Ended
from benchmarks.soak.faults import KINDS, schedule
from benchmarks.soak.sample import Sample

from tests.cli.runner import Outcome, schema_of_its_own
from tests.cli.test_bench import Running, schemas
from tests.docs.pages import block_of

_SVG = "{http://www.w3.org/2000/svg}"


def soak(dsn: str, *argv: str) -> Outcome:
    """One call, in this process and without a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["--dsn", dsn, *argv])
    return Outcome(code, out.getvalue(), err.getvalue())


@pytest.fixture(autouse=True)
def no_schema(dsn: str) -> Iterator[None]:
    with schema_of_its_own(dsn, SCHEMA):
        yield


def test_every_fault_happens_and_nothing_is_lost_or_doubled(dsn: str, tmp_path: Path) -> None:
    picture, out = tmp_path / "soak.svg", tmp_path / "soak.json"
    options = ("--minutes", "0.08", "--rate", "40", "--seed", "5", "--json")
    outcome = soak(dsn, *options, "--plot", str(picture), "--out", str(out))
    assert outcome.code == 0, outcome.err
    (report,) = outcome.lines
    assert json.loads(out.read_text()) == report
    check_the_accounts(report)
    check_the_faults(report)
    check_the_samples(report)
    check_the_picture(picture)
    assert "soak: seed 5" in outcome.err
    assert SCHEMA not in schemas(dsn)


def check_the_accounts(report: dict[str, Any]) -> None:
    found = report["accounts"]
    assert report["sound"], found["wrong"]
    assert (found["lost"], found["doubled"], found["unfinished"], found["wrong"]) == (0, 0, 0, [])
    assert (found["unexplained"], found["failed_unexplained"], found["cancelled"]) == (0, 0, 0)
    ended = found["completed"] + found["failed_as_planned"] + found["failed_by_faults"]
    assert found["acknowledged"] <= ended <= found["acknowledged"] + found["unanswered"]
    assert ended > 400, "those of the burst, and some beside them"
    assert found["failed_as_planned"] > 0
    assert report["ended_unasked"] == []


def check_the_faults(report: dict[str, Any]) -> None:
    planned = schedule(5, 60 * 0.08, KINDS)
    assert {fault["kind"] for fault in report["faults"]} == set(KINDS)
    assert len(report["faults"]) == len(planned)
    assert all(fault["until"] >= fault["at"] >= 0 for fault in report["faults"])
    stopped = next(fault for fault in report["faults"] if fault["kind"] == "stop")
    assert stopped["until"] - stopped["at"] > report["options"]["lease"]
    assert {each["kind"] for each in report["recoveries"]} == {"kill", "stop"}
    assert report["options"]["seed"] == 5
    assert report["options"]["faults"] == list(KINDS)


def check_the_samples(report: dict[str, Any]) -> None:
    samples = report["samples"]
    assert all(set(each) == set(Sample.__dataclass_fields__) for each in samples)
    assert [each["seconds"] for each in samples] == sorted(each["seconds"] for each in samples)
    last = samples[-1]
    assert (last["waiting"], last["held"]) == (0, 0)
    assert last["archived"] == report["accounts"]["completed"] + sum(
        report["accounts"][name] for name in ("failed_as_planned", "failed_by_faults")
    )
    assert last["faults"] == len(report["faults"])
    assert last["table_bytes"] > 0
    assert last["connections"] > 0
    assert max(worker["worker"] for worker in last["workers"]) >= 4, "two have been replaced"
    assert all(each["workers"][0]["worker"] == 0 for each in samples), "one is never disturbed"
    assert [change["name"] for change in report["verdict"]["changes"]] == changes_that_are_shown()


def changes_that_are_shown() -> list[str]:
    shown = block_of("benchmarks/README.md", "$ python -m benchmarks.soak --minutes 2").text
    table = shown.partition("at most  unit\n")[2].partition("\n\n")[0]
    return [re.split(r"  +", line)[0] for line in table.splitlines()]


def check_the_picture(picture: Path) -> None:
    said = " ".join("".join(element.itertext()) for element in ET.parse(picture).iter(f"{_SVG}text"))
    for expected in ("Faults", *KINDS, "Memory of workers", "worker 0, which no fault hits", "start, p99"):
        assert expected in said


def test_interrupted_it_reports_what_was_seen_until_then(dsn: str, tmp_path: Path) -> None:
    out = tmp_path / "soak.json"
    argv = ("--minutes", "5", "--rate", "40", "--faults", "none", "--workers", "1", "--out", str(out))
    bench = Running(dsn, [sys.executable, "-m", "benchmarks.soak", *argv])
    bench.wait_for("s: [1-9][0-9]* runs of handlers done")
    bench.process.send_signal(signal.SIGINT)
    assert bench.end() == 130
    assert bench.err.endswith("soak: interrupted: this is what was seen until then\n")
    report = json.loads(out.read_text())
    assert report["interrupted"]
    assert report["faults"] == []
    found = report["accounts"]
    assert found["acknowledged"] > 0
    assert (found["lost"], found["doubled"], found["unfinished"], found["repeated"]) == (0, 0, 0, 0)
    assert SCHEMA not in schemas(dsn)


def test_interrupted_in_the_middle_of_a_statement_it_reports_too(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: director._Director) -> None:
        self._schema.conn.pgconn.send_query(b"SELECT pg_sleep(60)")
        raise KeyboardInterrupt

    monkeypatch.setattr(director._Director, "_sample", interrupted)
    outcome = soak(dsn, "--minutes", "5", "--faults", "none", "--workers", "1")
    assert outcome.code == 130
    assert "Lost: 0. Doubled: 0. Unfinished: 0. Unexplained: 0." in outcome.out
    assert SCHEMA not in schemas(dsn)


def test_what_is_lost_makes_the_exit_code(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: director._Director) -> Iterator[Ended]:
        (_, *others) = ended_jobs(self)
        yield from others

    ended_jobs = director._Director._ended_jobs
    monkeypatch.setattr(director._Director, "_ended_jobs", forgetful)
    outcome = soak(dsn, "--minutes", "0.01", "--faults", "burst", "--workers", "1")
    assert outcome.code == 1
    assert "Lost: 1. Doubled: 0. Unfinished: 0. Unexplained: 0." in outcome.out
    assert "acknowledged, but nowhere: " in outcome.out
    assert "Faults: burst 1." in outcome.out
    assert "\x1b" not in outcome.out


@pytest.mark.parametrize(
    ("argv", "because"),
    [
        (("--minutes", "0"), "--minutes is 0"),
        (("--faults", "flood"), "there is no fault 'flood'"),
        (("--workers", "1"), "take --workers 2 or more, or leave out kill, stop, restart"),
        (("--rate", "0"), "--rate is 0"),
        (("--out", "/nowhere/soak.json"), "/nowhere/soak.json"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_wrong_call_is_refused_before_anything_is_made(dsn: str, argv: tuple[str, ...], because: str) -> None:
    outcome = soak(dsn, *argv)
    assert (outcome.code, outcome.out) == (2, "")
    assert because in outcome.err
    assert SCHEMA not in schemas(dsn)
