"""A real terminal: what is drawn on it, and that it is left as it was found."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator

import pyte
import pytest

from howdah import JobQueue
from tests.cli.runner import ENTRY
from tests.cli.top.test_hostile import TYPE
from tests.cli.top.test_screen import running_job

COLUMNS, LINES = 120, 36
PATIENCE = 120.0
UNKNOWN_TO_PYTE = re.compile(r"\x1b\[[<>=?][0-9;]*\$?[a-zA-Z]")
WITHOUT_TEXTUAL = "import sys; sys.modules['textual'] = None; "
BROKEN = """
from howdah.cli.commands.top import app
def broken(self):
    canary = "s3cret-in-a-variable"
    raise RuntimeError("a fault of ours")
app.Top._remarks = broken
"""


class Terminal:
    """A terminal, the command in it, and what is on the screen."""

    def __init__(self, dsn: str, *argv: str, prelude: str = "") -> None:
        self._ours, self._theirs = pty.openpty()
        fcntl.ioctl(self._theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.before = termios.tcgetattr(self._theirs)
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.out = ""
        self._stream = pyte.Stream(self.screen)
        self._changed = threading.Condition()
        environment = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + ENTRY, "top", *argv],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            env=environment | {"TERM": "xterm-256color", "PYTHON_COLORS": "0", "HOWDAH_DSN": dsn},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        with contextlib.suppress(OSError):
            while part := os.read(self._ours, 65_536):
                written = decoder.decode(part)
                # A sequence that has only begun waits for its end.
                whole, rest = re.fullmatch(r"(.*?)(\x1b[^a-zA-Z]*)?", rest + written, re.DOTALL).groups("")  # type: ignore[union-attr]
                with self._changed:
                    self.out += written
                    self._stream.feed(UNKNOWN_TO_PYTE.sub("", whole))
                    self._changed.notify_all()

    def wait_for(self, condition: Callable[[str], object]) -> None:
        """Until the text of the screen is so."""
        with self._changed:
            assert self._changed.wait_for(lambda: condition("\n".join(self.screen.display)), PATIENCE), self.out[
                -5_000:
            ]

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def end(self) -> int:
        """The exit code, when all that was written has been read."""
        code = self.process.wait(timeout=PATIENCE)
        with self._changed:
            os.write(self._theirs, b"--the end--")
            assert self._changed.wait_for(lambda: self.out.endswith("--the end--"), PATIENCE)
        return code

    def is_restored(self) -> bool:
        """The lines are edited and echoed again, the cursor is seen, and the screen is the one from before."""
        shown = [self.out.rfind(f"\x1b[?{mode}{on}") for mode, on in ((1049, "l"), (25, "h"))]
        hidden = [self.out.rfind(f"\x1b[?{mode}{off}") for mode, off in ((1049, "h"), (25, "l"))]
        same_modes = termios.tcgetattr(self._theirs) == self.before
        return same_modes and all(last >= first for last, first in zip(shown, hidden, strict=True))

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._theirs)
        self._reader.join(timeout=PATIENCE)
        os.close(self._ours)


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(dsn: str) -> Iterator[Open]:
    opened: list[Terminal] = []

    def open_terminal(*argv: str, prelude: str = "") -> Terminal:
        opened.append(Terminal(dsn, *argv, prelude=prelude))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


def test_the_screen_is_drawn_follows_and_is_left_by_q(terminal: Open, queue: JobQueue) -> None:
    running_job(queue, "import", 40, "reading")
    queue.enqueue(TYPE)
    top = terminal("--every", "0.1s")
    top.wait_for(lambda text: all(word in text for word in ("types", "import", "40%", "reading", "workers", "quit")))
    assert "\\u202e[bold]x[/bold] 漢" in "\n".join(top.screen.display).replace("漢 ", "漢")
    queue.enqueue_many("mail", [None] * 17)
    top.wait_for(lambda text: re.search(r"mail +17", text))
    top.press("?")
    top.wait_for(lambda text: "sort by the next column" in text)
    top.press("\x1b")
    top.wait_for(lambda text: "sort by the next column" not in text)
    top.press("q")
    assert top.end() == 0
    assert top.is_restored()
    assert "\u202e" not in top.out
    assert "Traceback" not in top.out


@pytest.mark.parametrize(
    ("number", "code"), [(None, 130), (signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["Ctrl-C", "SIGINT", "SIGTERM"]
)
def test_an_interruption_restores_the_terminal(terminal: Open, number: signal.Signals | None, code: int) -> None:
    top = terminal()
    top.wait_for(lambda text: "types" in text)
    if number is None:
        top.press("\x03")
    else:
        top.process.send_signal(number)
    assert top.end() == code
    assert top.is_restored()
    assert ("howdah: interrupted" in top.out) == (code == 130)


def test_a_crash_restores_the_terminal_and_shows_no_variables(terminal: Open) -> None:
    top = terminal("--every", "0.1s", prelude=BROKEN)
    assert top.end() == 1
    assert top.is_restored()
    assert "RuntimeError: a fault of ours" in top.out
    assert "s3cret" not in top.out.replace('canary = "s3cret-in-a-variable"', "")


def test_without_textual_the_error_names_what_to_install(terminal: Open) -> None:
    top = terminal(prelude=WITHOUT_TEXTUAL)
    assert top.end() == 1
    assert "pip install 'howdah[top]'" in top.out
    assert "Traceback" not in top.out
    once = terminal("--once", prelude=WITHOUT_TEXTUAL)
    assert once.end() == 0
    assert "no types" in once.out


def test_a_terminal_that_cannot_draw_gets_one_snapshot(terminal: Open) -> None:
    top = terminal(prelude="import os; os.environ['TERM'] = 'dumb'; ")
    assert top.end() == 0
    assert "no types" in top.out
    assert "\x1b[?1049h" not in top.out
