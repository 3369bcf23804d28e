"""A supervisor in its own process, over children that follow a file. Their output is read line by line."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.talking import Talking

STUB = """
import contextlib, itertools, os, signal, sys, time
from pathlib import Path
from howdah.cli.process.supervisor_pipe import SupervisorPipe

pipe = SupervisorPipe.taken_from(os.environ)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])

def say(word):
    os.write(1, f"{word} {pipe.number} {pipe.name} {os.getpid()} {os.getpgrp()}\\n".encode())

def behaviour():
    for name in (f"behaviour.{pipe.number}", "behaviour"):
        if (file := Path(__file__).with_name(name)).exists():
            return file.read_text().split()
    return ["polite", "0"]

def leave_an_orphan():
    ours, theirs = os.pipe()
    if os.fork() == 0:
        if (orphan := os.fork()) == 0:
            # Until its parent is gone, and it has another one.
            while os.getppid() != 1:
                time.sleep(0.01)
            os._exit(0)
        os.write(theirs, str(orphan).encode())
        os._exit(0)
    os.wait()
    orphan = int(os.read(ours, 20))
    with contextlib.suppress(ProcessLookupError):
        # A zombie can still be signalled; one that was waited for cannot.
        while True:
            os.kill(orphan, 0)
            time.sleep(0.01)
    say("reaped")

def leave_a_child():
    if (child := os.fork()) == 0:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        while True:
            signal.sigwait([signal.SIGINT, signal.SIGTERM])
    os.write(1, f"child {pipe.number} {pipe.name} {child} {os.getpgid(child)}\\n".encode())

kind, code = behaviour()
say("start")
if kind == "leave":
    sys.exit(int(code))
pipe.watch(patience=float(os.environ.get("STUB_PATIENCE", "30")))
if kind == "orphan":
    leave_an_orphan()
if kind == "parent":
    leave_a_child()
if kind != "unready":
    say("up")
    pipe.report_ready()
    say("ready")
for times in itertools.count(1):
    signal.sigwait([signal.SIGTERM])
    say("term")
    if kind != "stubborn" and (kind != "slow" or times == 2):
        say("end")
        sys.exit(int(code))
"""

SUPERVISOR = """
import os, signal, sys
from pathlib import Path
from howdah.cli.process import supervisor
from howdah.cli.process.log_format import set_up_logs
from howdah.cli.process.supervisor import SourceTree

stub, count, time_to_kill, time_to_get_ready, options = sys.argv[1:]
signal.signal(signal.SIGHUP, signal.SIG_DFL)
set_up_logs("debug", as_json=False)
supervisor.TIME_TO_KILL = float(time_to_kill)
supervisor._TIME_TO_GET_READY = float(time_to_get_ready)
made = supervisor.Supervisor(
    [sys.executable, stub],
    [f"name.{number}" for number in range(1, int(count) + 1)],
    grace=0,
    drain="drain" in options,
    sources=SourceTree(Path.cwd()) if "reload" in options else None,
)
sys.exit(made.run())
"""


class Line:
    """A line of a child: what, which child, which process."""

    def __init__(self, line: str) -> None:
        word, number, self.name, pid, group = line.split()
        self.word, self.number, self.pid, self.group = word, int(number), int(pid), int(group)


class Supervised(Talking):
    """The supervisor's process, and the output of it and its children so far."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process)
        self.folder = folder

    def behave(self, kind: str, code: int = 0, *, child: int | None = None) -> None:
        """What children do from their next life on."""
        behave(self.folder, kind, code, child=child)

    def await_words(self, word: str, *children: int) -> list[Line]:
        """The next line with this word of each of these children, in the order of the output."""
        waiting, found = set(children), []
        while waiting:
            said = Line(self.await_line(rf"^{word} \d"))
            waiting.discard(said.number)
            found.append(said)
        return found

    def cpu_seconds(self) -> float:
        """What the supervisor itself has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def words(self) -> list[tuple[str, int]]:
        """All output of the children, as pairs of a word and the child's number."""
        found = (re.match(r"([a-z]+) (\d+) name", line) for line in self.lines)
        return [(match[1], int(match[2])) for match in found if match]


def behave(folder: Path, kind: str, code: int = 0, *, child: int | None = None) -> None:
    file = folder / ("behaviour" if child is None else f"behaviour.{child}")
    file.with_suffix(".new").write_text(f"{kind} {code}")
    file.with_suffix(".new").replace(file)


@contextlib.contextmanager
def supervise(
    folder: Path,
    count: int = 1,
    *options: str,
    time_to_kill: float = 60,
    time_to_get_ready: float = 60,
    wrapper: Sequence[str] = (),
    terminal: int | None = None,
    **environment: str,
) -> Iterator[Supervised]:
    stub = folder / "stub"
    stub.write_text(STUB)
    settings = (stub, count, time_to_kill, time_to_get_ready, " ".join(options))
    process = subprocess.Popen(
        [*wrapper, sys.executable, "-c", SUPERVISOR, *map(str, settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        env=os.environ | environment,
        start_new_session=True,
        preexec_fn=None if terminal is None else lambda: fcntl.ioctl(terminal, termios.TIOCSCTTY),
    )
    made = Supervised(folder, process)
    try:
        yield made
    finally:
        made.close()
