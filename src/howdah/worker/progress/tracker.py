"""The tracker of a job: keeps its progress, events and log records until they are written.

A handler may call it a million times in a loop, so a call must cost next to nothing. It only keeps the values and, the
first time since they were last read, reports that there is something to write. Percent and stage are computed on reading.
"""

from __future__ import annotations

import logging
import operator
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, NamedTuple

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.values import clean_text, stored_json, to_jsonb
from howdah.errors import InvalidOption
from howdah.model.job import Tracked
from howdah.worker.calls import ClaimRef, NewEvent, ProgressUpdate
from howdah.worker.progress.stage import MOST, Stage, count_of, percent_of, storable, total_of

log = logging.getLogger("howdah.worker")

MAX_LOGS: Final = 1_000
MAX_MESSAGE: Final = 4_000
MAX_CHARACTERS: Final = 32_000_000
"""The limit for the data of events and log records of one job that wait to be written."""
LEFT_OUT: Final = "howdah.left_out"


class LeftOut(NamedTuple):
    """How many were dropped, because there were too many."""

    events: int = 0
    logs: int = 0


class Unwritten(NamedTuple):
    """What is not written yet: the progress, if it has changed, and the events and log records."""

    update: ProgressUpdate | None
    events: list[NewEvent]


class Tracker:
    """The progress, events and log records of one job. Its handler may use it from any thread."""

    def __init__(
        self, ref: ClaimRef, context: Context, changed: Callable[[Tracker], None], *, max_events: int = 10_000
    ) -> None:
        self.ref = ref
        self.aside = False
        """Written apart from others, because it might keep them waiting."""
        self.pause = 0.0
        """Seconds between tries. More than 0: another transaction had locked the job."""
        self.quiet_until = float("-inf")
        """Not to be tried before this moment."""
        self._context = context
        self._changed = changed
        self._max_events = max_events
        # Reentrant: the garbage collector may run anywhere, and a __del__ may log.
        self._lock = threading.RLock()
        self._here = Stage("", None, 0.0, 100.0)
        self._moved = False
        self._writing_update = False
        self._reported = False
        """The writer knows that there is something to write."""
        self._closed = False
        self._events: list[NewEvent] = []
        self._characters = 0
        self._number = 0
        self._event_count = 0
        self._log_count = 0
        self._left_out = LeftOut()

    # Called by handlers

    def progress(self, percent: float | None, stage: str | None, done: float | None, total: float | None) -> None:
        if percent is not None and type(percent) is not int and not (type(percent) is float and percent == percent):
            percent = percent_of(percent)
        if stage is not None and type(stage) is not str:
            stage = options.text(stage, "stage")
        if done is not None and not (type(done) is int and -MOST <= done <= MOST):
            done = count_of(done, "done")
        if total is not None and not (type(total) is int and 0 <= total <= MOST):
            total = total_of(total)
        with self._lock:
            here = self._here
            if done is not None:
                here.done = done
            if total is not None:
                here.total = total
            if percent is not None:
                here.percent = percent
            elif (done is not None or total is not None) and here.done is not None and here.total is not None:
                here.percent = None
            if stage is not None:
                here.remark = stage
            if not self._moved:
                self._moves()

    def advance(self, n: float, total: float | None, stage: str | None) -> None:
        if not (type(n) is int and -MOST <= n <= MOST):
            n = count_of(n, "n")
        if stage is not None and type(stage) is not str:
            stage = options.text(stage, "stage")
        if total is not None and not (type(total) is int and 0 <= total <= MOST):
            total = total_of(total)
        with self._lock:
            here = self._here
            if total is not None:
                here.total = total
            here.count(n)
            if stage is not None:
                here.remark = stage
            if not self._moved:
                self._moves()

    def track(
        self, items: Any, stage: str | None, total: float | None, done: float, weight: float | None
    ) -> Tracked[Any]:
        if not isinstance(items, Iterable | AsyncIterable) and not hasattr(items, "__getitem__"):
            raise InvalidOption(f"track goes through items, and {options.shown(items)} has none")
        return _Items(
            self,
            items,
            None if stage is None else options.text(stage, "stage"),
            None if total is None else total_of(total),
            count_of(done, "done"),
            None if weight is None else percent_of(weight, "weight"),
        )

    def stage(self, name: str, weight: float | None) -> AbstractContextManager[None]:
        return _Inside(self, options.text(name, "stage"), None if weight is None else percent_of(weight, "weight"))

    def event(self, name: str, data: Mapping[str, Any]) -> None:
        name = options.name(name, "the name of an event", options.MAX_NAME_LENGTH)
        if self._event_count >= self._max_events:
            self._leave_out(events=1)
            return
        text = stored_json(self._context, data, "event data").obj
        with self._lock:
            if self._event_count >= self._max_events:
                self._leave_out(events=1)
            else:
                self._event_count += 1
                self._add(NewEvent("event", name, text, time.monotonic()))

    def log(self, level: str, logger: str, message: str) -> None:
        """Keep a log record. Its size is limited here, and so does not depend on the queue's limit."""
        if self._log_count >= MAX_LOGS:
            self._leave_out(logs=1)
            return
        record = {"logger": clean_text(logger)[:200], "message": _shortened(clean_text(message))}
        text = to_jsonb(record, codec=self._context.codec, max_bytes=None, name="log record").obj
        with self._lock:
            if self._log_count >= MAX_LOGS:
                self._leave_out(logs=1)
            else:
                self._log_count += 1
                self._add(NewEvent("log", level, text, time.monotonic()))

    def leave_out_log(self) -> None:
        """Count a log record that could not be kept."""
        self._leave_out(logs=1)

    # Called by the writer

    def read(self) -> Unwritten:
        """What to write. It stays here until it is written. The next change is reported again."""
        with self._lock:
            update = self._update() if self._moved else None
            self._writing_update = self._moved
            self._moved = self._reported = False
            return Unwritten(update, list(self._events))

    def unwritten(self) -> Unwritten:
        """All that is not known to be written, also what is being written at this moment."""
        with self._lock:
            return Unwritten(self._update() if self._moved or self._writing_update else None, list(self._events))

    def update_is_written(self) -> None:
        self._writing_update = False

    def events_are_written(self, number: int) -> None:
        """The events up to this number are written, or never can be."""
        with self._lock:
            count = next((n for n, event in enumerate(self._events) if event.number > number), len(self._events))
            self._characters -= sum(len(event.data) for event in self._events[:count])
            del self._events[:count]

    def take(self) -> Unwritten:
        """What is new. The caller keeps it from now on."""
        with self._lock:
            unwritten = self.read()
            self.update_is_written()
            self.events_are_written(self._number)
            return unwritten

    def take_left_out(self) -> LeftOut:
        with self._lock:
            left_out, self._left_out = self._left_out, LeftOut()
            return left_out

    def is_incomplete(self) -> None:
        """Not all of it could be written."""
        with self._lock:
            self._moved = self._moved or self._writing_update
            self._reported = True

    def feed(self, unwritten: Unwritten, left_out: LeftOut) -> None:
        """Add what a child process reports of the job."""
        with self._lock:
            if unwritten.update is not None:
                here = self._here
                here.percent, here.remark, here.done, here.total = unwritten.update
                self._moves()
            for event in unwritten.events:
                self._add(event)
            if any(left_out):
                self._leave_out(*left_out)

    def record_left_out(self) -> None:
        """Add one event about everything that was dropped."""
        if not any(self._left_out):
            return
        left_out = self.take_left_out()
        try:
            text = to_jsonb(left_out._asdict(), codec=self._context.codec, max_bytes=None, name="event data").obj
        except Exception:
            log.exception("job %s: %s, and the codec cannot encode that", self.ref[0], left_out)
            return
        with self._lock:
            self._add(NewEvent("event", LEFT_OUT, text, time.monotonic()))

    def close(self) -> None:
        """The attempt is over: later calls are ignored."""
        with self._lock:
            self._closed = True

    def _moves(self) -> None:
        if not self._closed:
            self._moved = True
            self._report()

    def _add(self, event: NewEvent) -> None:
        if self._closed:
            return
        if self._characters + len(event.data) > MAX_CHARACTERS and event.name != LEFT_OUT:
            self._leave_out(events=event.kind == "event", logs=event.kind == "log")
            return
        self._number += 1
        self._events.append(event._replace(number=self._number))
        self._characters += len(event.data)
        self._report()

    def _leave_out(self, events: int = 0, logs: int = 0) -> None:
        with self._lock:
            before = self._left_out
            self._left_out = LeftOut(before.events + events, before.logs + logs)
            self._report()

    def _report(self) -> None:
        if not self._reported and not self._closed:
            self._reported = True
            self._changed(self)

    def _update(self) -> ProgressUpdate:
        here = self._here
        return ProgressUpdate(here.overall(), here.path(), storable(here.done), storable(here.total))

    # Stages

    def _enter(self, name: str, weight: float | None) -> Stage:
        with self._lock:
            self._here = self._here.part(name, weight)
            self._moves()
            return self._here

    def _leave(self, stage: Stage, *, completed: bool) -> None:
        with self._lock:
            if self._back_to(stage) and stage.around is not None:
                stage.ends(stage.around, completed)
                self._here = stage.around
                self._moves()

    def _begin_items(self, stage: str | None, weight: float | None, done: float, total: float | None) -> Stage:
        with self._lock:
            if stage is not None or weight is not None or self._here.goes_through_items:
                self._enter(stage or "", weight)
            here = self._here
            here.percent, here.done, here.total, here.goes_through_items = None, done, total, True
            self._moves()
            return here

    def _next_item(self, stage: Stage) -> None:
        with self._lock:
            if self._back_to(stage):
                stage.count(1)
                self._moves()

    def _end_items(self, stage: Stage, *, are_all: bool) -> None:
        with self._lock:
            stage.goes_through_items = False
            if are_all:
                stage.total, stage.percent = stage.done, None
            self._moves()

    def _back_to(self, stage: Stage) -> bool:
        """Leave the inner stages that were never left. False if the stage itself was left long ago."""
        if not self._here.is_inside(stage):
            return False
        while self._here is not stage and self._here.around is not None:
            self._here.ends(self._here.around, completed=False)
            self._here = self._here.around
        return True


class _Inside:
    """A stage as a context manager: ``with job.stage(…):``."""

    def __init__(self, tracker: Tracker, name: str, weight: float | None) -> None:
        self._tracker = tracker
        self._name = name
        self._weight = weight
        self._entered: list[Stage] = []

    def __enter__(self) -> None:
        self._entered.append(self._tracker._enter(self._name, self._weight))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tracker._leave(self._entered.pop(), completed=kind is None)


class _Items:
    """Counts items while they are iterated. An item is done when the next one is requested."""

    def __init__(
        self, tracker: Tracker, items: Any, stage: str | None, total: float | None, done: float, weight: float | None
    ) -> None:
        self._tracker = tracker
        self._items = items
        self._stage = stage
        self._total = total
        self._done = done
        self._weight = weight

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self._items, Iterable) and not hasattr(self._items, "__getitem__"):
            raise TypeError("these items are async: async for … in job.track(…)")
        return self._counted()

    def _counted(self) -> Iterator[Any]:
        pass_ = _Pass(self)
        try:
            for item in self._items:
                yield item
                pass_.next()
            pass_.end(completed=True)
        finally:
            pass_.end(completed=False)

    def __aiter__(self) -> AsyncIterator[Any]:
        if not isinstance(self._items, AsyncIterable):
            raise TypeError("these items are not async: for … in job.track(…)")
        items = aiter(self._items)
        return _AsyncItems(_Pass(self), items)


class _Pass:
    """One iteration over the items."""

    def __init__(self, items: _Items) -> None:
        self._tracker = items._tracker
        known = items._total
        if known is None and (length := _length(items._items)) is not None:
            known = items._done + length
        self._is_total_said = items._total is not None
        self._outer = self._tracker._here
        self._stage = self._tracker._begin_items(items._stage, items._weight, items._done, known)
        self._ended = False

    def next(self) -> None:
        self._tracker._next_item(self._stage)

    def end(self, *, completed: bool) -> None:
        if self._ended:
            return
        self._ended = True
        are_all = completed and not self._is_total_said
        self._tracker._end_items(self._stage, are_all=are_all)
        if self._stage is not self._outer:
            self._tracker._leave(self._stage, completed=completed)


class _AsyncItems:
    # Not an async generator: after a break the loop would end that some time later.

    def __init__(self, pass_: _Pass, items: AsyncIterator[Any]) -> None:
        self._pass = pass_
        self._items = items
        self._begun = False

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        if self._begun:
            self._pass.next()
        self._begun = True
        try:
            return await anext(self._items)
        except StopAsyncIteration:
            self._begun = False
            self._pass.end(completed=True)
            raise
        except BaseException:
            self._pass.end(completed=False)
            raise

    def __del__(self) -> None:
        self._pass.end(completed=False)


def _length(items: Any) -> float | None:
    try:
        length = operator.length_hint(items, -1)
    except Exception:  # noqa: BLE001
        # If something is wrong with it, iterating will show that.
        return None
    return None if length < 0 else length


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    cut = f"… ({len(message):,} characters)"
    return message[: MAX_MESSAGE - len(cut)] + cut
