"""Inside of a child process: imports the handler, runs one job at a time, and says how it ended.

Speaks JSON with its worker over a pipe. Nothing is imported by a name from a job: the worker sends the
place of a handler that was registered with it. It ends when the pipe does, so that it never outlives its
worker; it ignores the signals that a terminal or a service manager sends to the whole group, because the
worker decides what becomes of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import importlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from howdah.db import forks
from howdah.db.plan import Plan
from howdah.errors import HowdahError, InvalidArguments
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Completed, Ending, Failed, Interrupted
from howdah.model.failure import describe
from howdah.model.job import Job
from howdah.standard_streams import open_closed_ones
from howdah.worker.calls import Hold, Told
from howdah.worker.progress.tracker import LeftOut, Tracker, Words
from howdah.worker.run import endings, log_capture
from howdah.worker.run.binding import bound
from howdah.worker.run.run import Desk, Run, hold_of

log = logging.getLogger("howdah.worker")

STOP_SIGNAL = signal.SIGUSR1
SEND_EVERY = 0.2
"""Seconds that what a handler says may wait for more, before it is sent to the worker."""
MOST_CHARACTERS = 32_000
"""Of events in one message, as far as possible: the worker's loop waits for the whole of it."""
SETTLED_WITHIN = 30.0


class Assignment(msgspec.Struct):
    """What the worker sends: a job, and where its handler is."""

    module: str
    qualname: str
    name: str
    dsn: str
    schema: str
    capture_logs: bool
    job: dict[str, Any]


class Said(msgspec.Struct):
    """What the child sends while its handler runs. settle: to be answered, by this number, when that is written."""

    said: Words
    left_out: LeftOut
    settle: int = 0
    ends: bool = False


class Settled(msgspec.Struct, tag="settled"):
    """What the worker answers: whether what was said until then is written."""

    number: int
    written: bool


SETTLED = b'{"type":"settled"'


def packed(message: Any) -> bytes:
    """A message for the pipe. Not by msgspec: it has neither lone surrogates, which errors may hold, nor all numbers."""
    return json.dumps(msgspec.to_builtins(message)).encode()


class Stopped(BaseException):
    """Raised in the handler when its worker tells it to stop."""


def main(pipe: Connection, module: str, begin: Callable[[], None] | None) -> None:
    """The child's life. It is ready once it has imported the module that its worker will probably ask for."""
    open_closed_ones()
    forks.keep_channel(pipe)
    if begin is not None:
        begin()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(STOP_SIGNAL, signal.SIG_IGN)
    child = _Child(pipe)
    with contextlib.suppress(Exception):  # the job that needs it says what is wrong with it
        importlib.import_module(module)
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        forks.keep_loop(loop)
        threading.Thread(target=_receive, args=(pipe, loop, inbox, child.post), daemon=True).start()
        with contextlib.suppress(OSError):  # the worker is gone already
            child.send({"ready": os.getpid()})
        while True:
            assignment = msgspec.convert(json.loads(runner.run(inbox.get())), type=Assignment)
            with contextlib.suppress(OSError):
                child.send({"begins": assignment.name})
            child.perform(runner, assignment)


def _receive(pipe: Connection, loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[bytes], post: Outbox) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            if message.startswith(SETTLED):
                post.answered(msgspec.json.decode(message, type=Settled))
            else:
                loop.call_soon_threadsafe(inbox.put_nowait, message)
    # The worker is gone, and with it whoever could use what happens here.
    os._exit(0)


class Outbox:
    """What the handler says, on its way to the worker: all of a moment together.

    It is sent by a thread of its own, which no signal interrupts in the middle of a message.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        # Held from the taking to the sending, so that nothing is overtaken.
        self._sending = threading.Lock()
        self._hold: Hold | None = None
        self._tracker: Tracker | None = None
        self._news = threading.Event()
        self._hurry = threading.Event()
        self._settling: _Settling | None = None
        self._settlings = 0
        # Two threads of a handler may want it at once.
        self._one_settles = threading.Lock()
        threading.Thread(target=self._work, name="howdah-outbox", daemon=True).start()

    def begin(self, hold: Hold) -> None:
        """From now on it is about this job. One before it may have left a thread that goes on talking."""
        self._hold = hold

    def changed(self, tracker: Tracker) -> None:
        if tracker.hold == self._hold:
            self._tracker = tracker
            self._news.set()

    def settle(self, tracker: Tracker, *, ends: bool) -> bool:
        if tracker.hold != self._hold:
            return False
        with self._one_settles:
            self._settlings += 1
            self._settling = settling = _Settling(self._settlings, ends=ends)
            self._hurry.set()
            self.changed(tracker)
            if not settling.answered.wait(SETTLED_WITHIN):
                log.warning("the worker has not answered whether what was said of job %s is written", tracker.hold[0])
        return settling.written

    async def asettle(self, tracker: Tracker, *, ends: bool) -> bool:
        return await asyncio.to_thread(self.settle, tracker, ends=ends)

    def rest(self, tracker: Tracker) -> Plan[None]:
        # All of it is with the worker already.
        log.warning("job %s ends before all that was said of it could be written", tracker.hold[0])
        yield from ()

    def answered(self, answer: Settled) -> None:
        """The worker has answered; perhaps when nobody waits for that any more."""
        settling = self._settling
        if settling is not None and settling.number == answer.number:
            settling.written = answer.written
            settling.answered.set()

    def end(self) -> None:
        """The handler has ended: sends its last words."""
        if self._tracker is not None:
            self._tracker.close()
        self._flush()
        self._hold = self._tracker = self._settling = None

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # the worker is gone
            while self._news.wait():
                self._flush()
                self._hurry.wait(SEND_EVERY)

    def _flush(self) -> None:
        with self._sending:
            self._news.clear()
            settling = self._settling if self._hurry.is_set() else None
            self._hurry.clear()
            words, left_out = Words(None, []), LeftOut()
            if self._tracker is not None:
                words, left_out = self._tracker.take(), self._tracker.take_left_out()
            if settling is not None or words.report is not None or words.told or any(left_out):
                *pieces, last = _pieces(words.told)
                for piece in pieces:
                    self._send(Said(Words(None, piece), LeftOut()))
                number, ends = (0, False) if settling is None else (settling.number, settling.ends)
                self._send(Said(Words(words.report, last), left_out, number, ends))


class _Settling:
    """A wait for the worker to write what was said."""

    def __init__(self, number: int, *, ends: bool) -> None:
        self.number = number
        self.ends = ends
        self.answered = threading.Event()
        self.written = False


def _pieces(told: Sequence[Told]) -> Iterator[list[Told]]:
    """All of it, at least one piece, of which none keeps the worker's loop from its work for long."""
    piece: list[Told] = []
    characters = 0
    for each in told:
        size = len(each.data) + len(each.name) + 50
        if piece and characters + size > MOST_CHARACTERS:
            yield piece
            piece, characters = [], 0
        piece.append(each)
        characters += size
    yield piece


class _Child:
    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._sending = threading.Lock()
        self.post = Outbox(self.send)
        self._resources: dict[int, Mapping[str | type, Any]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._used_up = False
        """Whether memory has run out here: what a handler has left behind would be missing for the next one."""

    def send(self, message: Any) -> None:
        with self._sending:
            self._pipe.send_bytes(packed(message))

    def perform(self, runner: asyncio.Runner, assignment: Assignment) -> None:
        ending, by_handler = self._ending(runner, assignment)
        self.post.end()
        self.send(
            {
                "kind": type(ending).__name__,
                "ending": msgspec.to_builtins(ending),
                "completed_by_handler": by_handler,
                "used_up": self._used_up,
            }
        )

    def _ending(self, runner: asyncio.Runner, assignment: Assignment) -> tuple[Ending, bool]:
        job = msgspec.convert(assignment.job, type=Job)
        try:
            handler = find_handler(assignment)
            handler.queue.connect_to(assignment.dsn, assignment.schema)
            resources = self._opened(runner, handler)
        except BaseException as error:  # noqa: BLE001
            return Failed(f"the child process could not load the handler: {describe(error)}"), False
        queue = handler.queue
        desk = Desk(resources, queue._context, queue._database, self.post, capture_logs=assignment.capture_logs)
        run = Run(handler, [job], desk)
        self.post.begin(hold_of(job))
        with log_capture.installed(handler.log_level if assignment.capture_logs else None):
            signal.signal(STOP_SIGNAL, self._stopper(runner, run))
            try:
                ending = contextvars.copy_context().run(self._run, runner, run)
            except Stopped:
                ending = Interrupted()
            except BaseException as error:  # noqa: BLE001
                ending = Failed(f"what the handler returned or raised could not be read: {describe(error)}")
            finally:
                signal.signal(STOP_SIGNAL, signal.SIG_IGN)
        checked = endings.storable(handler.queue._context, ending)
        return (ending if isinstance(checked, Completed) else checked), job.id in run.by_handler

    def _run(self, runner: asyncio.Runner, run: Run) -> Ending:
        (job,) = run.jobs
        log_capture.follow(run)
        try:
            arguments = bound(run)
        except InvalidArguments as error:
            return endings.unreadable(error)
        except HowdahError as error:
            return endings.of_error(run.handler, job, error)
        try:
            value = run.handler.function(**arguments)
            run.end_copy()
            if asyncio.iscoroutine(value):
                value = runner.run(self._awaited(value, run), context=contextvars.copy_context())
        except Stopped:
            raise
        except BaseException as error:  # noqa: BLE001
            run.end_copy(error)
            self._used_up = isinstance(error, MemoryError)
            return Interrupted() if run.cancelled else endings.of_error(run.handler, job, error)
        if run.handler.batch is not None:
            return endings.of_batch(run.handler, run.jobs, value)[0]
        return endings.of_value(run.handler, job, value)

    async def _awaited(self, value: Coroutine[Any, Any, Any], run: Run) -> Any:
        self._task = asyncio.current_task()
        try:
            return await value
        except BaseException as error:
            run.end_copy(error)
            raise
        finally:
            run.end_copy()
            self._task = None

    def _stopper(self, runner: asyncio.Runner, run: Run) -> Callable[[int, Any], None]:
        def stop(_: int, __: Any) -> None:
            run.cancelled = True
            signal.signal(STOP_SIGNAL, signal.SIG_IGN)
            if self._task is None:
                raise Stopped
            runner.get_loop().call_soon_threadsafe(self._task.cancel)

        return stop

    def _opened(self, runner: asyncio.Runner, handler: Handler[Any, Any]) -> Mapping[str | type, Any]:
        queue = handler.queue
        if id(queue) not in self._resources:
            # Never closed: the process ends without a farewell.
            self._resources[id(queue)] = runner.run(queue._open_resources(contextlib.AsyncExitStack()))
        return self._resources[id(queue)]


def find_handler(assignment: Assignment) -> Handler[Any, Any]:
    """The handler of this name in the module that defines its function."""
    found = _handler_in(importlib.import_module(assignment.module), assignment.qualname, assignment.name)
    if found is None:
        raise ImportError(
            f"{assignment.module} has no handler {assignment.name!r} when a child process imports it: register it at the"
            " top level of the module"
        )
    return found


def will_be_found(handler: Handler[Any, Any]) -> bool:
    """Whether a child process will, as far as can be seen here: it may be registered in another module than its function's."""
    module = sys.modules.get(handler.function.__module__)
    return handler.is_importable and _handler_in(module, handler.function.__qualname__, handler.name) is not None


def _handler_in(module: object, qualname: str, name: str) -> Handler[Any, Any] | None:
    found: Any = module
    for part in qualname.split("."):
        found = getattr(found, part, None)
    if isinstance(found, Handler) and found.name == name:
        return found
    for value in tuple(getattr(module, "__dict__", {}).values()):
        handler = _handlers_of(value).get(name)
        if isinstance(handler, Handler):
            return handler
    return None


def _handlers_of(value: object) -> Mapping[str, Any]:
    """Those of a queue. Whatever else a module may hold, such as a logger, can have other things of that name."""
    try:
        handlers = getattr(value, "handlers", None)
    except Exception:  # noqa: BLE001
        return {}
    return handlers if isinstance(handlers, Mapping) else {}
