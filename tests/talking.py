"""A process with its output: tests wait for lines of it, and for its end."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time

PATIENCE = 120.0


class Talking:
    """A process whose output is a pipe, and the lines that were read from it so far."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._rest = b""

    def await_line(self, pattern: str) -> str:
        """The next line in which this is found."""
        while (line := self._next_line()) is not None:
            if re.search(pattern, line):
                return line
        raise AssertionError(f"no line with {pattern!r} in:\n{self.said}")

    def ended(self) -> int:
        """The exit code, when no process holds the pipe any more: this one and all that it started have ended."""
        while self._next_line() is not None:
            pass
        return self.process.wait(timeout=PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    @property
    def said(self) -> str:
        return "\n".join(self.lines)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _next_line(self) -> str | None:
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError(f"no more output came:\n{self.said}")
            part = os.read(self.process.stdout.fileno(), 65_536)
            if not part:
                return None
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        self.lines.append(line.decode())
        return self.lines[-1]
