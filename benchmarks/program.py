"""A program of the benchmarks, in a process of its own: what is measured must not share one with what measures."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

from psycopg.conninfo import make_conninfo

from benchmarks.server import Place

PATIENCE = 60


@contextlib.contextmanager
def program(module: str, place: Place, name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A module that runs at a place, its sessions under this name, until it ends or, at the latest, with the block."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "HOWDAH_DSN": make_conninfo(place.dsn, application_name=name)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)
    if process.returncode:
        raise RuntimeError(f"{module} ended with {process.returncode}")


def output(process: subprocess.Popen[str]) -> str:
    """All that it prints until it ends. (Not by ``communicate``, which closes its input.)"""
    assert process.stdout is not None
    return process.stdout.read()


def end_with_parent() -> None:
    """For the program itself: ends it when its parent is gone, because then the kernel closes its input."""
    threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)
