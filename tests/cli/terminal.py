"""A terminal with a user: the command runs in a pty, and a test reads the screen as a user sees it."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Self

import pyte
from pyte.screens import Char

from tests.cli.runner import command, default_signals

PATIENCE = 120.0
UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[(?:[<>=][0-9;]*[a-zA-Z]|\?[0-9;]*\$?[a-gi-km-zA-Z])")
BEGUN = re.compile(rb"\x1b(?:\[[0-9;<>=?$]*)?\Z")


class _Screen(pyte.HistoryScreen):
    """Handles faint text, too, and keeps it as blinking text, which there is none of."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        super().select_graphic_rendition(*_with_faint_as_blinking(attrs))


def _with_faint_as_blinking(attrs: Iterable[int]) -> Iterator[int]:
    rest = iter(attrs)
    for attr in rest:
        if attr in (38, 48):
            # A colour: its numbers mean something else.
            kind = next(rest, 0)
            yield from (attr, kind, *itertools.islice(rest, 3 if kind == 2 else 1))
        else:
            yield from {2: (5,), 22: (22, 25)}.get(attr, (attr,))


class Terminal:
    """A process in a terminal of its own, and what its screen shows."""

    def __init__(self, *argv: str, columns: int = 110, lines: int = 30, **environment: str) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        inherited = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self._screen = _Screen(columns, lines, history=10_000, ratio=0.5)
        self._stream = pyte.ByteStream(self._screen)
        self._changed = threading.Condition()
        self._raw = b""
        self.process = subprocess.Popen(
            command(*argv),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**inherited, "TERM": "xterm-256color", **environment},
            start_new_session=True,
            preexec_fn=default_signals,
        )
        os.close(theirs)
        self._ours = ours
        # At once: a program that draws on an unread terminal blocks when its buffer is full.
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        waiting = b""
        # Linux reports a closed other end of a terminal by an error.
        with contextlib.suppress(OSError):
            while part := os.read(self._ours, 65_536):
                known = UNKNOWN_TO_PYTE.sub(b"", waiting + part)
                # A sequence that has only begun waits for its end.
                begun = BEGUN.search(known)
                waiting = begun[0] if begun else b""
                with self._changed:
                    self._raw += part
                    self._stream.feed(known.removesuffix(waiting))
                    self._changed.notify_all()

    @property
    def screen(self) -> str:
        """What can be seen now."""
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    @property
    def everything(self) -> str:
        """What can be seen, with what has scrolled away above it."""
        above = ["".join(line[n].data for n in range(self._screen.columns)) for line in self._screen.history.top]
        return "\n".join([*(line.rstrip() for line in above), self.screen])

    @property
    def cells(self) -> list[list[Char]]:
        """What can be seen now, with how it looks."""
        return [
            [self._screen.buffer[line][column] for column in range(self._screen.columns)]
            for line in range(self._screen.lines)
        ]

    @property
    def raw(self) -> bytes:
        """Every byte that the terminal was sent."""
        return self._raw

    def shows_cursor(self) -> bool:
        return not self._screen.cursor.hidden

    def wait_for(self, pattern: str) -> None:
        """Returns when this is on the screen. Lines end with a newline; a dot is any character but that."""
        self.wait_until(lambda screen: re.search(pattern, screen, flags=re.MULTILINE) is not None)

    def wait_until(self, is_right: Callable[[str], bool]) -> None:
        """Returns when the screen is right. It may be seen half drawn, so that all that is expected of it belongs here."""
        with self._changed:
            assert self._changed.wait_for(lambda: is_right(self.screen), PATIENCE), self.screen

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> int:
        """Its exit code, once everything that it has written was read."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kills it, if it has not ended."""
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        os.close(self._ours)
