"""The main program of a child process: imports the handler, runs one job at a time, and returns its ending.

It exchanges JSON with its worker over a pipe. Nothing is imported by a name from a job: the worker sends the place of a
handler that is registered with it. The child ends with its worker: by the kernel on Linux (``parent_death``), and when the pipe is
closed. It ignores the signals that a terminal or a service manager sends to the whole process group: the worker decides when it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
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
from howdah.handlers import middleware
from howdah.handlers.handler import Handler
from howdah.handlers.outcome import Completed, Ending, Failed, Interrupted, Suspended
from howdah.model.failure import describe
from howdah.model.job import Job
from howdah.standard_streams import open_closed_ones
from howdah.worker.calls import ClaimRef, NewEvent, claim_ref
from howdah.worker.progress.tracker import LeftOut, Tracker, Unwritten
from howdah.worker.run import endings, log_capture
from howdah.worker.run.parent_death import die_with_worker
from howdah.worker.run.run import Run, RunServices
from howdah.worker.run.thread_lifespan import ThreadLifespan

log = logging.getLogger("howdah.worker")

STOP_SIGNAL = signal.SIGUSR1
SEND_EVERY = 0.2
"""Seconds that reports may wait for more, before they are sent to the worker."""
MOST_CHARACTERS = 32_000
"""Of events in one message, if possible: reading a message blocks the worker's loop."""
FLUSHED_WITHIN = 30.0


class Assignment(msgspec.Struct):
    """Sent by the worker: a job, and the place of its handler."""

    module: str
    qualname: str
    name: str
    dsn: str
    schema: str
    capture_logs: bool
    job: dict[str, Any]


class Reports(msgspec.Struct):
    """Sent by the child while its handler runs. flush: the worker replies with this number when they are written."""

    reports: Unwritten
    left_out: LeftOut
    flush: int = 0
    ends: bool = False


class Flushed(msgspec.Struct, tag="flushed"):
    """The worker's reply to a flush: whether the reports up to then are written."""

    number: int
    written: bool


FLUSHED = b'{"type":"flushed"'


def packed(message: Any) -> bytes:
    """A message for the pipe. Not by msgspec: it supports neither lone surrogates, which errors may contain, nor all numbers."""
    return json.dumps(msgspec.to_builtins(message)).encode()


class Stopped(BaseException):
    """Raised in the handler when its worker asks it to stop."""


def main(pipe: Connection, module: str, begin: Callable[[], None] | None) -> None:
    """Run the child. It is ready once it has imported the module that its worker will probably need."""
    die_with_worker()
    open_closed_ones()
    forks.keep_channel(pipe)
    if begin is not None:
        begin()
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    signal.signal(STOP_SIGNAL, signal.SIG_IGN)
    child = _Child(pipe)
    with contextlib.suppress(Exception):  # the job that needs it reports the error
        importlib.import_module(module)
    inbox: asyncio.Queue[bytes] = asyncio.Queue()
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        forks.keep_loop(loop)
        threading.Thread(target=_receive, args=(pipe, loop, inbox, child.sink), daemon=True).start()
        with contextlib.suppress(OSError):  # the worker is gone already
            child.send({"ready": os.getpid()})
        while True:
            assignment = msgspec.convert(json.loads(runner.run(inbox.get())), type=Assignment)
            with contextlib.suppress(OSError):
                child.send({"begins": assignment.name})
            child.perform(runner, assignment)


def _receive(pipe: Connection, loop: asyncio.AbstractEventLoop, inbox: asyncio.Queue[bytes], sink: Outbox) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            message = pipe.recv_bytes()
            if message.startswith(FLUSHED):
                sink.answered(msgspec.json.decode(message, type=Flushed))
            else:
                loop.call_soon_threadsafe(inbox.put_nowait, message)
    # The worker is gone, and with it the use of this process.
    os._exit(0)


class Outbox:
    """Sends the reports of the handler to the worker, those of a moment together.

    It has a thread of its own, which no signal interrupts in the middle of a message.
    """

    def __init__(self, send: Callable[[Any], None]) -> None:
        self._send = send
        # Held from the reading to the sending, so that the order stays.
        self._sending = threading.Lock()
        self._ref: ClaimRef | None = None
        self._tracker: Tracker | None = None
        self._changed = threading.Event()
        self._hurry = threading.Event()
        self._flushing: _Flush | None = None
        self._flushes = 0
        # Two threads of a handler may flush at once.
        self._flush_lock = threading.Lock()
        threading.Thread(target=self._work, name="howdah-outbox", daemon=True).start()

    def begin(self, ref: ClaimRef) -> None:
        """Accept the reports of this claim only. An earlier job may have left a thread that still reports."""
        self._ref = ref

    def changed(self, tracker: Tracker) -> None:
        if tracker.ref == self._ref:
            self._tracker = tracker
            self._changed.set()

    def flush(self, tracker: Tracker, *, ends: bool) -> bool:
        if tracker.ref != self._ref:
            return False
        with self._flush_lock:
            self._flushes += 1
            self._flushing = flushing = _Flush(self._flushes, ends=ends)
            self._hurry.set()
            self.changed(tracker)
            if not flushing.answered.wait(FLUSHED_WITHIN):
                log.warning("the worker has not answered whether the reports of job %s are written", tracker.ref[0])
        return flushing.written

    async def aflush(self, tracker: Tracker, *, ends: bool) -> bool:
        return await asyncio.to_thread(self.flush, tracker, ends=ends)

    def rest(self, tracker: Tracker) -> Plan[None]:
        # The worker has all of them already.
        log.warning("job %s ends before all of its reports could be written", tracker.ref[0])
        yield from ()

    def answered(self, answer: Flushed) -> None:
        """The worker has answered; perhaps too late."""
        flushing = self._flushing
        if flushing is not None and flushing.number == answer.number:
            flushing.written = answer.written
            flushing.answered.set()

    def end(self) -> None:
        """The handler has ended: send its last reports."""
        if self._tracker is not None:
            self._tracker.close()
        self._send_reports()
        self._ref = self._tracker = self._flushing = None

    def _work(self) -> None:
        with contextlib.suppress(OSError):  # the worker is gone
            while self._changed.wait():
                self._send_reports()
                self._hurry.wait(SEND_EVERY)

    def _send_reports(self) -> None:
        with self._sending:
            self._changed.clear()
            flushing = self._flushing if self._hurry.is_set() else None
            self._hurry.clear()
            new, left_out = Unwritten(None, []), LeftOut()
            if self._tracker is not None:
                new, left_out = self._tracker.take(), self._tracker.take_left_out()
            if flushing is not None or new.update is not None or new.events or any(left_out):
                *pieces, last = _pieces(new.events)
                for piece in pieces:
                    self._send(Reports(Unwritten(None, piece), LeftOut()))
                number, ends = (0, False) if flushing is None else (flushing.number, flushing.ends)
                self._send(Reports(Unwritten(new.update, last), left_out, number, ends))


class _Flush:
    """A wait for the worker to write the reports."""

    def __init__(self, number: int, *, ends: bool) -> None:
        self.number = number
        self.ends = ends
        self.answered = threading.Event()
        self.written = False


def _pieces(events: Sequence[NewEvent]) -> Iterator[list[NewEvent]]:
    """All events in at least one piece, each too small to block the worker's loop for long."""
    piece: list[NewEvent] = []
    characters = 0
    for each in events:
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
        self.sink = Outbox(self.send)
        self._resources: dict[int, Mapping[str | type, Any]] = {}
        self._thread_lifespans: dict[int, ThreadLifespan] = {}
        self._task: asyncio.Task[Any] | None = None
        self._used_up = False
        """Whether memory has run out: what the handler left behind would be missing for the next job."""

    def send(self, message: Any) -> None:
        with self._sending:
            self._pipe.send_bytes(packed(message))

    def perform(self, runner: asyncio.Runner, assignment: Assignment) -> None:
        ending, run = self._ending(runner, assignment)
        self.sink.end()
        self.send(
            {
                "kind": type(ending).__name__,
                "ending": msgspec.to_builtins(ending),
                # Not in the ending: middleware on the worker's loop may still replace that.
                "spawned": [] if run is None else msgspec.to_builtins(run.spawned.get(run.jobs[0].id, [])),
                "completed_by_handler": run is not None and bool(run.by_handler),
                "used_up": self._used_up,
            }
        )

    def _ending(self, runner: asyncio.Runner, assignment: Assignment) -> tuple[Ending, Run | None]:
        """How the attempt ended, and its run if the handler could be loaded."""
        job = msgspec.convert(assignment.job, type=Job)
        try:
            handler = find_handler(assignment)
            handler.queue.connect_to(assignment.dsn, assignment.schema)
            resources = self._opened(runner, handler)
        except BaseException as error:  # noqa: BLE001
            return Failed(f"the child process could not load the handler: {describe(error)}"), None
        queue = handler.queue
        services = RunServices(
            resources, queue._context, queue._database, self.sink, capture_logs=assignment.capture_logs
        )
        run = Run(handler, [job], services)
        self.sink.begin(claim_ref(job))
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
        if job.id in run.waiting:
            ending = Suspended()
        checked = endings.storable(queue._context, ending)
        ending = endings.in_json(queue._context, ending) if isinstance(checked, Completed) else checked
        return ending, run

    def _run(self, runner: asyncio.Runner, run: Run) -> Ending:
        (job,) = run.jobs
        log_capture.follow(run)
        try:
            arguments = run.arguments()
        except InvalidArguments as error:
            return endings.unreadable(error)
        except HowdahError as error:
            return endings.of_error(run.handler, job, error)
        try:
            value = self._wrapped(run, functools.partial(self._call, runner, run, arguments))
            run.end_copy()
        except Stopped:
            raise
        except BaseException as error:  # noqa: BLE001
            run.end_copy(error)
            self._used_up = isinstance(error, MemoryError)
            return Interrupted() if run.cancelled else endings.of_error(run.handler, job, error)
        if run.handler.batch is not None:
            return endings.of_batch(run.handler, run.jobs, value)[0]
        return endings.of_value(run.handler, job, value)

    def _wrapped(self, run: Run, call: Callable[[], Any]) -> Any:
        """Call the handler through what the queue has for threads: its lifespan, and plain middleware."""
        queue = run.handler.queue
        _, around = middleware.split(queue._middleware)
        # A handler of the loop that runs here because it is a suspect is called as it would be there.
        if run.handler.kind == "async" or not (around or queue._thread_lifespan):
            return call()
        run.bind()
        if (open_lifespan := queue._open_thread_lifespan()) is not None:
            # Never left: the process ends without cleanup.
            self._thread_lifespans.setdefault(id(queue), ThreadLifespan(open_lifespan)).enter()
        return middleware.through(around, run.called, call)

    def _call(self, runner: asyncio.Runner, run: Run, arguments: Mapping[str, Any]) -> Any:
        value = run.call_handler(arguments)
        if asyncio.iscoroutine(value):
            value = runner.run(self._awaited(value, run), context=contextvars.copy_context())
        return value

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

    def _opened(self, runner: asyncio.Runner, handler: Handler[Any, Any, Any]) -> Mapping[str | type, Any]:
        queue = handler.queue
        if id(queue) not in self._resources:
            # Never closed: the process ends without cleanup.
            self._resources[id(queue)] = runner.run(queue._open_resources(contextlib.AsyncExitStack()))
        return self._resources[id(queue)]


def find_handler(assignment: Assignment) -> Handler[Any, Any, Any]:
    """The handler of this name in the module that defines its function."""
    found = _handler_in(importlib.import_module(assignment.module), assignment.qualname, assignment.name)
    if found is None:
        raise ImportError(
            f"{assignment.module} has no handler {assignment.name!r} when a child process imports it: register it at the"
            " top level of the module"
        )
    return found


def will_be_found(handler: Handler[Any, Any, Any]) -> bool:
    """Whether a child process will find the handler, as far as can be seen here: another module may register it."""
    module = sys.modules.get(handler.function.__module__)
    return handler.is_importable and _handler_in(module, handler.function.__qualname__, handler.name) is not None


def _handler_in(module: object, qualname: str, name: str) -> Handler[Any, Any, Any] | None:
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
    """The handlers of a queue. Other objects of a module, such as a logger, may have a different attribute of that name."""
    try:
        handlers = getattr(value, "handlers", None)
    except Exception:  # noqa: BLE001
        return {}
    return handlers if isinstance(handlers, Mapping) else {}
