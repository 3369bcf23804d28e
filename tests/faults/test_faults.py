"""The quick form of every fault case. The long form is ``make faults``."""

from __future__ import annotations

import contextlib
import os

import pytest

from tests import servers
from tests.faults.case import Case
from tests.faults.catalogue import CATALOGUE
from tests.faults.suite import play
from tests.servers import Server
from tests.worker.durable_server import DurableServer

MAJOR = servers.MAJORS[0]


@pytest.mark.parametrize("case", CATALOGUE, ids=lambda case: case.name)
def test_case(case: Case, shared_server: Server) -> None:
    binaries = shared_server.binaries
    own = DurableServer(binaries, case.settings) if case.own_server else contextlib.nullcontext(shared_server)
    with own as server:
        outcome = play(case, server, MAJOR, quick=True)
    if outcome.outcome == "skipped" and not os.environ.get("CI"):
        pytest.skip(outcome.reason)
    assert outcome.outcome == "passed", f"seed {outcome.seed}: {outcome.reason}"
    assert (outcome.lost, outcome.doubled) == (0, 0)
