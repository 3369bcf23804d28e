"""The servers of a test run end with it, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from tests.worker.processes import ROOT, until

# Signals as they are by default: in a test run in the background, or with nohup, some of them are ignored.
PYTEST = """
import signal, sys, pytest
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)
sys.exit(pytest.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("number", "whole_group"),
    [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGINT, True), (signal.SIGHUP, True)],
    ids=lambda value: getattr(value, "name", "group" if value else "pytest"),
)
def test_a_run_that_is_ended_by_a_signal_leaves_no_server_behind(
    number: signal.Signals, whole_group: bool, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    # In two processes of xdist, each of which has a server of its own.
    (tmp_path / "test_hanging.py").write_text(
        textwrap.dedent(f"""
            import threading
            import pytest

            @pytest.mark.parametrize("n", [1, 2])
            def test_it(shared_server, n):
                with open({str(told)!r}, "a") as file:
                    print(shared_server.home, file=file)
                threading.Event().wait()
        """)
    )
    run = subprocess.Popen(
        [sys.executable, "-c", PYTEST, "-p", "tests.conftest", "-n", "2", "--rootdir", str(tmp_path), str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        homes = until(lambda: _lines(told), "both of them have a server")
        servers = [_postmaster(home) for home in homes]
        (os.killpg if whole_group else os.kill)(run.pid, number)
        run.wait()
    finally:
        run.kill()
        run.wait()
    until(lambda: not any(server.is_running() for server in servers), "the servers have ended")
    until(lambda: not any(home.exists() for home in homes), "nothing of them is left")


def _lines(told: Path) -> list[Path]:
    lines = told.read_text().splitlines() if told.exists() else []
    return [Path(line) for line in lines] if len(lines) == 2 else []


def _postmaster(home: Path) -> psutil.Process:
    return psutil.Process(int((home / "data" / "postmaster.pid").read_text().split()[0]))
