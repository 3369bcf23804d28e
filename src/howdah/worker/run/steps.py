"""The steps of a running attempt: what earlier attempts have done is not done again, and a wait ends the attempt.

The stored steps are read once, at the first use, and not at all by an attempt whose job has none. A wait is decided by the database
in one call, which also ends the attempt. Its handler is then left by ``AttemptSuspended``.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.db.plan import Plan, Row
from howdah.errors import InvalidOption, LeaseLost, SignalTimeout, Undecodable
from howdah.handlers.arguments import Result
from howdah.handlers.outcome import AttemptSuspended
from howdah.model.codec import Unreadable, decoded
from howdah.model.connection import Connection
from howdah.model.job import Job, StepCall
from howdah.verbs import signals as verbs

R = TypeVar("R")

MAX_NAME: Final = 200
_OURS: Final = ("signal:", "sleep#")


class Perform(Protocol):
    """Runs a plan, on the caller's connection if there is one."""

    def __call__(self, plan: Plan[R], conn: Connection | None = None) -> R: ...


class AsyncPerform(Protocol):
    def __call__(self, plan: Plan[R], conn: Connection | None = None) -> Coroutine[Any, Any, R]: ...


class Kept(NamedTuple):
    """The result that an earlier attempt has recorded."""

    value: Any


class Steps:
    """The steps of one job, in one attempt. Usable from several threads or tasks of its handler."""

    def __init__(self, context: Context, job: Job, is_batch: bool) -> None:
        if is_batch:
            raise InvalidOption(
                f"{job.job_type!r} takes jobs in batches: they end together, so none of them can wait or have steps."
                " Leave batch_size out"
            )
        self._context = context
        self._job = job
        self._known: dict[str, Row] | None = None if job._has_steps else {}
        self._used: set[str] = set()
        self._waits: Counter[str] = Counter()
        self._lock = threading.Lock()
        self.turn = threading.Lock()
        """Of waits in threads. The first one that ends the attempt ends it for all: the others must know before they ask."""
        self.loop_turn = asyncio.Lock()
        """The same, of waits on the loop."""
        self.is_suspended = False

    # Steps

    def begin(self, name: str, function: Callable[..., Any], conn: Connection | None) -> Plan[Kept | None]:
        """The result of an earlier attempt; None: the step is to be done now."""
        name = _checked(name)
        self._go_on()
        with self._lock:
            is_again = name in self._used
            self._used.add(name)
        known = yield from self._stored()
        if is_again and conn is None:
            raise _used_twice(name)
        if name in known:
            return Kept(Result(function).decode(self._decoded(name, known[name]["result"])))
        if is_again and any(row["name"] == name for row in (yield from verbs.steps_of(self._job))):
            raise _used_twice(name)
        # Not recorded yet; or it was, and the caller has rolled that back, and repeats its transaction.
        return None

    def forget(self, name: str) -> None:
        """The function of the step raised: the handler may try it again."""
        with self._lock:
            self._used.discard(name)

    def record(self, name: str, function: Callable[..., Any], value: Any) -> Plan[None]:
        encoded = Result(function).encode(value)
        if not (yield from verbs.record_step(self._context, self._job, name, encoded)):
            raise LeaseLost(f"the step {name!r} is not recorded: {self._over}")

    def do(self, step: StepCall, perform: Perform) -> Any:
        kept = perform(self.begin(step.name, step.function, step.conn), step.conn)
        if kept is not None:
            return kept.value
        try:
            value = step.function(*step.args, **_arguments(step))
            _refuse_coroutine(step.name, value)
        except BaseException:
            self.forget(step.name)
            raise
        perform(self.record(step.name, step.function, value), step.conn)
        return value

    async def ado(self, step: StepCall, perform: AsyncPerform) -> Any:
        kept = await perform(self.begin(step.name, step.function, step.conn), step.conn)
        if kept is not None:
            return kept.value
        try:
            value = step.function(*step.args, **_arguments(step))
            if inspect.isawaitable(value):
                value = await value
        except BaseException:
            self.forget(step.name)
            raise
        await perform(self.record(step.name, step.function, value), step.conn)
        return value

    # Waits

    def wait(self, name: str, key: str | None, timeout: Seconds | None) -> Plan[Kept | None]:
        """The data of a signal; None: the attempt has ended. Raises SignalTimeout."""
        name, key = verbs.signal_name(name), verbs.signal_key(key)
        limit = None if timeout is None else options.span(timeout, "timeout")
        step = self._next(f"signal:{name}" + ("" if key is None else f":{key}"))
        row = (yield from self._stored()).get(step)
        state, data = (row["state"], row["result"]) if row is not None else ("waiting", None)
        if state == "waiting":
            state, data = yield from verbs.wait_signal(self._job, step, name, key, limit)
        if state == "timed out":
            about = "" if key is None else f" (key {key})"
            raise SignalTimeout(f"the signal {name}{about} has not come in time")
        return Kept(self._decoded(step, data)) if self._goes_on(state) else None

    def sleep(self, moment: datetime | None, delay: Seconds | None) -> Plan[Kept | None]:
        """None: the attempt has ended, because the moment has not passed."""
        until = None if moment is None else options.moment(moment, "moment")
        for_so_long = None if delay is None else options.span(delay, "seconds")
        step = self._next("sleep")
        row = (yield from self._stored()).get(step)
        state = "waiting" if row is None else row["state"]
        if state == "waiting":
            state = yield from verbs.sleep_until(self._job, step, until, for_so_long)
        return Kept(None) if self._goes_on(state) else None

    def _goes_on(self, state: str) -> bool:
        if state == "lost":
            raise LeaseLost(f"job {self._job.id} cannot wait: {self._over}")
        self.is_suspended = state == "waiting"
        return not self.is_suspended

    def result(self, kept: Kept | None) -> Any:
        """What a wait returns to the handler. Raises AttemptSuspended: not in a plan, which has a connection."""
        self._go_on()
        return None if kept is None else kept.value

    # What they share

    def _go_on(self) -> None:
        if self.is_suspended:
            raise AttemptSuspended(self._job.id)

    def _next(self, kind: str) -> str:
        self._go_on()
        with self._lock:
            self._waits[kind] += 1
            return f"{kind}#{self._waits[kind]}"

    def _stored(self) -> Plan[dict[str, Row]]:
        if self._known is None:
            self._known = {row["name"]: row for row in (yield from verbs.steps_of(self._job))}
        return self._known

    def _decoded(self, step: str, value: Any) -> Any:
        value = decoded(value, self._context.codec)
        if isinstance(value, Unreadable):
            raise Undecodable(f"the result of the step {step!r} cannot be read: {value.reason}")
        return value

    @property
    def _over(self) -> str:
        return f"this claim of job {self._job.id} (token {self._job.token}) is over. Nothing was changed."


def _used_twice(name: str) -> InvalidOption:
    return InvalidOption(
        f"the step {name!r} is used twice in this attempt: give each step a name of its own, such as f'{name}-{{n}}' in a loop"
    )


def _arguments(step: StepCall) -> Mapping[str, Any]:
    """The function gets the connection if it has a parameter for it."""
    if step.conn is None or "conn" in step.arguments:
        return step.arguments
    try:
        wants = "conn" in inspect.signature(step.function).parameters
    except (TypeError, ValueError):
        return step.arguments
    return {**step.arguments, "conn": step.conn} if wants else step.arguments


def _refuse_coroutine(name: str, value: Any) -> None:
    if inspect.iscoroutine(value):
        value.close()
        raise InvalidOption(f"the function of the step {name!r} is async: await job.astep({name!r}, …)")


def _checked(name: object) -> str:
    checked = options.name(name, "the name of a step", MAX_NAME)
    if checked.startswith(_OURS):
        raise InvalidOption(
            f"a step cannot be named {checked!r}: names that begin with signal: or sleep# are those of waits"
        )
    return checked
