"""What a handler says of its job: how far it is, and what happened.

Said a million times in a loop, it must cost next to nothing. So a call only keeps the values and, the first time since
the last report was taken, tells that there is news; percent and stage are made of them when the report is taken.
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
from howdah.worker.calls import Hold, Report, Told
from howdah.worker.progress.stage import MOST, Stage, count_of, percent_of, storable, total_of

log = logging.getLogger("howdah.worker")

MAX_LOGS: Final = 1_000
MAX_MESSAGE: Final = 4_000
MAX_CHARACTERS: Final = 32_000_000
"""Of the data of events and logs of one job that wait to be written."""
LEFT_OUT: Final = "howdah.left_out"


class LeftOut(NamedTuple):
    """How many were not kept, because there were too many."""

    events: int = 0
    logs: int = 0


class Words(NamedTuple):
    """What was said since it was last asked for: where the job stands, if that has changed, and what happened."""

    report: Report | None
    told: list[Told]


class Tracker:
    """What the handler of one job says. Usable from any of its threads."""

    def __init__(
        self, hold: Hold, context: Context, changed: Callable[[Tracker], None], *, max_events: int = 10_000
    ) -> None:
        self.hold = hold
        self.aside = False
        """Not to be written together with others: it might keep them waiting."""
        self.pause = 0.0
        """Seconds between tries. More than none: the job was found locked by somebody."""
        self.quiet_until = float("-inf")
        """No use to try before this moment."""
        self._context = context
        self._changed = changed
        self._max_events = max_events
        # Reentrant: the garbage collector may run anywhere, and somebody's __del__ may log.
        self._lock = threading.RLock()
        self._here = Stage("", None, 0.0, 100.0)
        self._moved = False
        self._reporting = False
        self._news = False
        self._closed = False
        self._told: list[Told] = []
        self._characters = 0
        self._number = 0
        self._events = 0
        self._logs = 0
        self._left_out = LeftOut()

    # What a handler says

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
        if self._events >= self._max_events:
            self._leave_out(events=1)
            return
        text = stored_json(self._context, data, "event data").obj
        with self._lock:
            if self._events >= self._max_events:
                self._leave_out(events=1)
            else:
                self._events += 1
                self._tell(Told("event", name, text, time.monotonic()))

    def log(self, level: str, logger: str, message: str) -> None:
        """Keeps a log record. Its size is bounded here, and so does not depend on the queue's limit."""
        if self._logs >= MAX_LOGS:
            self._leave_out(logs=1)
            return
        record = {"logger": clean_text(logger)[:200], "message": _shortened(clean_text(message))}
        text = to_jsonb(record, codec=self._context.codec, max_bytes=None, name="log record").obj
        with self._lock:
            if self._logs >= MAX_LOGS:
                self._leave_out(logs=1)
            else:
                self._logs += 1
                self._tell(Told("log", level, text, time.monotonic()))

    def leave_out_log(self) -> None:
        """A log record could not be kept."""
        self._leave_out(logs=1)

    # What becomes of it

    def look(self) -> Words:
        """What is to be written, and stays here until it is. From now on, the next change is told again."""
        with self._lock:
            report = self._report() if self._moved else None
            self._reporting = self._moved
            self._moved = self._news = False
            return Words(report, list(self._told))

    def unwritten(self) -> Words:
        """All that is not known to be written, also what somebody is writing at this moment."""
        with self._lock:
            return Words(self._report() if self._moved or self._reporting else None, list(self._told))

    def report_is_written(self) -> None:
        self._reporting = False

    def is_written(self, number: int) -> None:
        """What was told up to this number has been written, or never can be."""
        with self._lock:
            count = next((n for n, told in enumerate(self._told) if told.number > number), len(self._told))
            self._characters -= sum(len(told.data) for told in self._told[:count])
            del self._told[:count]

    def take(self) -> Words:
        """What is new, for somebody else to keep."""
        with self._lock:
            words = self.look()
            self.report_is_written()
            self.is_written(self._number)
            return words

    def take_left_out(self) -> LeftOut:
        with self._lock:
            left_out, self._left_out = self._left_out, LeftOut()
            return left_out

    def look_again(self) -> None:
        """Not all of it could be written."""
        with self._lock:
            self._moved = self._moved or self._reporting
            self._news = True

    def feed(self, words: Words, left_out: LeftOut) -> None:
        """What a child process has said of the job."""
        with self._lock:
            if words.report is not None:
                here = self._here
                here.percent, here.remark, here.done, here.total = words.report
                self._moves()
            for told in words.told:
                self._tell(told)
            if any(left_out):
                self._leave_out(*left_out)

    def tell_left_out(self) -> None:
        """Tells of what was too much, once for all of it."""
        left_out = self.take_left_out()
        if not any(left_out):
            return
        try:
            text = to_jsonb(left_out._asdict(), codec=self._context.codec, max_bytes=None, name="event data").obj
        except Exception:
            log.exception("job %s: %s, and the codec does not let that be told", self.hold[0], left_out)
            return
        with self._lock:
            self._tell(Told("event", LEFT_OUT, text, time.monotonic()))

    def close(self) -> None:
        """The attempt is over: what is said from now on is not heard."""
        with self._lock:
            self._closed = True

    def _moves(self) -> None:
        if not self._closed:
            self._moved = True
            self._has_news()

    def _tell(self, told: Told) -> None:
        if self._closed:
            return
        if self._characters + len(told.data) > MAX_CHARACTERS and told.name != LEFT_OUT:
            self._leave_out(events=told.kind == "event", logs=told.kind == "log")
            return
        self._number += 1
        self._told.append(told._replace(number=self._number))
        self._characters += len(told.data)
        self._has_news()

    def _leave_out(self, events: int = 0, logs: int = 0) -> None:
        with self._lock:
            before = self._left_out
            self._left_out = LeftOut(before.events + events, before.logs + logs)
            self._has_news()

    def _has_news(self) -> None:
        if not self._news and not self._closed:
            self._news = True
            self._changed(self)

    def _report(self) -> Report:
        here = self._here
        return Report(here.overall(), here.path(), storable(here.done), storable(here.total))

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
        """Leaves what was entered inside of a stage and never left. False if the stage itself was left long ago."""
        if self._here is not stage and stage not in self._here.and_around():
            return False
        while self._here is not stage and self._here.around is not None:
            self._here.ends(self._here.around, completed=False)
            self._here = self._here.around
        return True


class _Inside:
    """The inside of a stage: ``with job.stage(…):``."""

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
    """Items that are counted as they go by. One is done when the next is asked for."""

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
    """One time through the items."""

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
    # Not an async generator: who breaks out of one leaves it to the loop to end it, some time later.

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
        # Whatever is wrong with it will show itself when it is gone through.
        return None
    return None if length < 0 else length


def _shortened(message: str) -> str:
    if len(message) <= MAX_MESSAGE:
        return message
    cut = f"… ({len(message):,} characters)"
    return message[: MAX_MESSAGE - len(cut)] + cut
