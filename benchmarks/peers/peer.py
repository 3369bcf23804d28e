"""A peer as the runner sees it: a program that answers, and workers that are started, watched and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, Literal

from benchmarks.peers.environments import ROOT, Environment

TIMEOUT = 180.0
Store = Literal["postgresql", "redis"]


class Unsupported(Exception):
    """The peer has no such thing."""


class PeerFailed(Exception):
    """The peer's program did not do what it was asked for."""


@dataclass(frozen=True)
class Peer:
    name: str
    store: Store
    environment: Environment

    @cached_property
    def facts(self) -> dict[str, Any]:
        return self.ask("", "facts")

    @cached_property
    def remaining(self) -> bytes | None:
        """The query that returns whether any job is unfinished; None on Redis."""
        answer = self.ask("", "remaining", refusals=False)
        return str(answer["sql"]).encode() if "sql" in answer else None

    def ask(self, url: str, *arguments: str, refusals: bool = True) -> dict[str, Any]:
        """Run the program, and return its answer."""
        result = subprocess.run(
            [*self.environment.command, *arguments],
            cwd=ROOT,
            env=_surroundings(url),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        answer = _last_object(result.stdout)
        if result.returncode or answer is None:
            raise PeerFailed(
                f"{' '.join(arguments)} ended with {result.returncode}: {_tail(result.stderr or result.stdout)}"
            )
        if refusals and "unsupported" in answer:
            raise Unsupported(answer["unsupported"])
        return answer


class WorkerProcess:
    """One worker of a peer. It is loaded when this returns, and starts to work at `go`."""

    def __init__(self, peer: Peer, url: str, handler: str, *, latencies: bool = False) -> None:
        surroundings = _surroundings(url) | {"BENCH_GATE": "1", "BENCH_LATENCY": "1" if latencies else "0"}
        self._process = subprocess.Popen(
            [*peer.environment.command, "work", "--handler", handler],
            cwd=ROOT,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Its own children end with it, if it has to be killed.
            start_new_session=True,
        )
        self._handled: dict[str, int] = {}
        self._answers: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._loaded, self._ready = threading.Event(), threading.Event()
        assert self._process.stdout
        assert self._process.stderr
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._errors.extend, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def handled(self) -> int:
        return sum(list(self._handled.values()))

    def await_loaded(self) -> None:
        self._await(self._loaded, "load")

    def go(self) -> None:
        assert self._process.stdin
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def await_ready(self) -> None:
        self._await(self._ready, "start")

    def check_alive(self) -> None:
        if self._process.poll() is not None:
            for reader in self._readers:
                reader.join(5)
            self._raise_if_unsupported()
            raise PeerFailed(f"the worker ended with {self._process.returncode}: {_tail(''.join(self._errors))}")

    def stop(self) -> list[dict[str, Any]]:
        """End it gracefully; returns the summary of each of its processes."""
        self.check_alive()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise PeerFailed("the worker did not stop within a minute") from error
        for reader in self._readers:
            reader.join(5)
        summaries = [answer for answer in self._answers if "handled" in answer]
        if not summaries:
            raise PeerFailed(f"the worker printed nothing at its end: {_tail(''.join(self._errors))}")
        return summaries

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _await(self, event: threading.Event, verb: str) -> None:
        deadline = time.monotonic() + 60
        while not event.wait(0.05):
            self.check_alive()
            if time.monotonic() > deadline:
                raise PeerFailed(f"the worker did not {verb} within a minute: {_tail(''.join(self._errors))}")

    def _raise_if_unsupported(self) -> None:
        for answer in self._answers:
            if "unsupported" in answer:
                raise Unsupported(answer["unsupported"])

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            words = line.split()
            if words == ["LOADED"]:
                self._loaded.set()
            elif words == ["READY"]:
                self._ready.set()
            elif words[:1] == ["HANDLED"]:
                self._handled[words[-1]] = int(words[1])
            elif (answer := _last_object(line)) is not None:
                self._answers.append(answer)


@contextlib.contextmanager
def workers(
    peer: Peer, url: str, handler: str, count: int = 1, *, latencies: bool = False
) -> Iterator[list[WorkerProcess]]:
    """So many workers that have started together; those that still run at the end are killed."""
    started: list[WorkerProcess] = []
    try:
        started += [WorkerProcess(peer, url, handler, latencies=latencies) for _ in range(count)]
        for worker in started:
            worker.await_loaded()
        for worker in started:
            worker.go()
        for worker in started:
            worker.await_ready()
        yield started
    finally:
        for worker in started:
            worker.kill()


def _surroundings(url: str) -> dict[str, str]:
    """What the programs see: nothing of what is set here for PostgreSQL's clients."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    # A worker that starts programs of its own in other folders still finds its adapter.
    return inherited | {"BENCH_URL": url, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.strip().splitlines()):
        if line.startswith("{"):
            with contextlib.suppress(json.JSONDecodeError):
                answer: dict[str, Any] = json.loads(line)
                return answer
    return None


def _tail(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("    at ")]
    return " / ".join(lines[-6:])[-800:] or "without a reason"
