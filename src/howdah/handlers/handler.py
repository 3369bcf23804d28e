"""A handler: the function that runs the jobs of a type, and its options.

Options of the jobs themselves (priority, attempts, timeout, retry policy, order) are stored in the database when a worker
starts, so that producers without the handler use them, too.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import logging
from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, Unpack, overload

from typing_extensions import ParamSpec, TypeVar

from howdah.checks import options
from howdah.checks.options import Seconds, unknown
from howdah.checks.values import stored_mapping
from howdah.errors import InvalidOption
from howdah.handlers.arguments import Arguments, Result
from howdah.handlers.retry import Retries, RetryRule, attempts_of, retries
from howdah.handlers.unique import UniqueOption, unique_rule
from howdah.model import failed_job
from howdah.model.job import Job
from howdah.model.rate import RateOption, parsed_rate
from howdah.model.results import EnqueuedCount, WhenFull

if TYPE_CHECKING:
    from howdah.handlers.signatures import BulkOptions, EnqueueOptions
    from howdah.queue import JobQueue

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
C = ParamSpec("C", default=...)
T = TypeVar("T")

Kind: TypeAlias = Literal["async", "thread", "process"]

MEANT: Final = {
    **dict.fromkeys(("retries", "max_retries"), "max_attempts (how often) or retry (when)"),
    **dict.fromkeys(("attempts", "tries", "max_tries"), "max_attempts"),
    **dict.fromkeys(("time_limit", "soft_time_limit", "job_timeout"), "timeout"),
    **dict.fromkeys(("countdown", "eta", "run_after", "schedule_in"), "delay or run_at of enqueue"),
    **dict.fromkeys(("cron", "every", "schedule"), "@queue.periodic"),
}
"""What users of other queues mean by a name of theirs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """How many jobs one call of a batch handler gets at most, and how long the first may wait for the others."""

    size: int
    wait: float


class Handler(Generic[P, R_co, C]):
    """A registered function. Calling it calls the function; ``enqueue`` adds a job that calls it in a worker.

    For type checkers, ``Handler[P, R]`` has the arguments P of its jobs, and the result R of the function.
    """

    def __init__(
        self,
        queue: JobQueue,
        function: Callable[C, R_co],
        *,
        name: str | None = None,
        priority: int | None = None,
        max_attempts: int | None = None,
        retry: RetryRule | None = None,
        give_up: Sequence[type[BaseException]] = (),
        timeout: Seconds | None = None,
        expires_in: Seconds | None = None,
        concurrency: int | None = None,
        ordered: bool = False,
        order: Literal["wait", "skip"] = "wait",
        per: str | Callable[[Mapping[str, Any]], str | int] | None = None,
        limit: int | None = None,
        rate: RateOption | None = None,
        cost: int | None = None,
        groups: Sequence[str] = (),
        max_pending: int | None = None,
        when_full: WhenFull | None = None,
        pause_on_failure: bool = False,
        max_crashes: int | None = None,
        process: bool = False,
        batch_size: int | None = None,
        batch_wait: Seconds = 0,
        log_level: str | int | None = "INFO",
        max_events: int = 10_000,
        fail_stalled: bool = False,
        unique: UniqueOption | None = None,
        debounce: Seconds | None = None,
        throttle: Seconds | None = None,
        on_failure: str | Handler[Any, Any] | None = None,
    ) -> None:
        if not callable(function):
            raise InvalidOption(f"a handler is a function, not {options.shown(function)}")
        functools.update_wrapper(self, function)
        self.queue = queue
        self.function = function
        self.name = options.job_type(_name_of(function) if name is None else name)
        self.kind = _kind(function, process, self.name)
        self.batch = _batch(batch_size, batch_wait, process, ordered)
        self.arguments = Arguments(function, batch=self.batch is not None)
        self.result = Result(function, batch=self.batch is not None)
        self.retries: Retries = retries(retry, give_up)
        self.concurrency = None if concurrency is None else options.integer(concurrency, "concurrency", least=1)
        self.timeout = _span(timeout, "timeout")
        self.ordered = bool(ordered)
        if order not in ("wait", "skip"):
            raise InvalidOption(f'order is "wait" or "skip", not {options.shown(order)}')
        self.per = per if per is None or callable(per) else self.arguments.named(per, "per")
        self.limit = None if limit is None else options.integer(limit, "limit", least=1)
        if self.ordered and self.limit is not None:
            raise InvalidOption("jobs of an ordered handler run one at a time already: leave limit out")
        self.rate = None if rate is None else parsed_rate(rate)
        if isinstance(groups, str):
            raise InvalidOption(f"groups is a list of names: groups=[{groups!r}]")
        self.groups = sorted({options.name(group, "a group", options.MAX_KEY_LENGTH) for group in groups})
        if when_full == "drop_oldest" and pause_on_failure:
            raise InvalidOption(
                "pause_on_failure would pause the type for each job that is dropped: choose another when_full"
            )
        self.unique = unique_rule(unique, debounce, throttle)
        self._check_unique()
        self.log_level = None if log_level is None else _level(log_level)
        self.max_events = options.integer(max_events, "max_events", least=0)
        max_attempts = attempts_of(retry) if max_attempts is None else max_attempts
        self._declared = {
            "priority": None if priority is None else options.integer(priority, "priority"),
            "max_attempts": None if max_attempts is None else options.integer(max_attempts, "max_attempts", least=1),
            "timeout": self.timeout,
            "expires_in": _span(expires_in, "expires_in"),
            "max_crashes": None if max_crashes is None else options.integer(max_crashes, "max_crashes", least=1),
            "pause_on_failure": bool(pause_on_failure),
            "fail_stalled": bool(fail_stalled),
            # A function cannot be stored: the process that enqueues calls it.
            "per": self.per if isinstance(self.per, str) else "" if self.per else None,
            "limit": self.limit,
            "order_skips": order == "skip",
            "groups": self.groups or None,
            "rate": None if self.rate is None else self.rate.stored,
            "cost": None if cost is None else options.cost(cost),
            "max_pending": None if max_pending is None else options.integer(max_pending, "max_pending", least=1),
            "when_full": None if when_full is None else options.when_full(when_full),
            "on_failure": None if on_failure is None else self._name_on_failure(on_failure),
        }
        if process and self.arguments.lazy:
            raise InvalidOption(
                f"the handler {self.name!r} runs in a child process, which cannot read Results: annotate a list"
            )
        if process and not self.is_importable:
            raise InvalidOption(
                f"the handler {self.name!r} runs in a child process, which must import it: define"
                f" {_name_of(function)} at the top level of a module"
            )

    def __call__(self, *args: C.args, **kwargs: C.kwargs) -> R_co:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Handler({self.name!r}, {self.kind})"

    # Producers

    @overload
    def enqueue(self: Handler[P, Coroutine[Any, Any, T]], /, *args: P.args, **arguments: P.kwargs) -> Job[T]: ...

    @overload
    def enqueue(self: Handler[P, T], /, *args: P.args, **arguments: P.kwargs) -> Job[T]: ...

    def enqueue(self, /, *args: Any, **arguments: Any) -> Job[Any]:
        """Adds a job with these arguments, as in a call without the job. Raises InvalidArguments where they do not fit the handler."""
        return self.queue.enqueue(self.name, self._data(args, arguments))

    @overload
    async def aenqueue(self: Handler[P, Coroutine[Any, Any, T]], /, *args: P.args, **arguments: P.kwargs) -> Job[T]: ...

    @overload
    async def aenqueue(self: Handler[P, T], /, *args: P.args, **arguments: P.kwargs) -> Job[T]: ...

    async def aenqueue(self, /, *args: Any, **arguments: Any) -> Job[Any]:
        """``enqueue``, awaited."""
        return await self.queue.aenqueue(self.name, self._data(args, arguments))

    def enqueue_many(self, items: Iterable[Mapping[str, Any]], **bulk: Unpack[BulkOptions]) -> EnqueuedCount:
        """Adds a job for each mapping of arguments, with the options of ``queue.enqueue_many``."""
        return self.using().enqueue_many(items, **bulk)

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any]], **bulk: Unpack[BulkOptions]) -> EnqueuedCount:
        """``enqueue_many``, awaited."""
        return await self.using().aenqueue_many(items, **bulk)

    @overload
    def using(
        self: Handler[P, Coroutine[Any, Any, T]], **options: Unpack[EnqueueOptions]
    ) -> HandlerWithOptions[P, T]: ...

    @overload
    def using(self: Handler[P, T], **options: Unpack[EnqueueOptions]) -> HandlerWithOptions[P, T]: ...

    def using(self, **options: Any) -> HandlerWithOptions[Any, Any]:
        """The same handler with options of ``queue.enqueue`` set: ``handler.using(delay=60).enqueue(…)``."""
        known = inspect.signature(self.queue.enqueue).parameters.keys() - {"self", "job_type", "data"}
        if problem := unknown(options, known, "enqueue", MEANT):
            raise InvalidOption(problem)
        return HandlerWithOptions(self, options)

    def call(self, /, *args: Any, **arguments: Any) -> Call:
        """A call of the handler as a part of a chain or a group: ``howdah.chain(download.call(url=url), parse)``."""
        return Call(self, args, arguments)

    def _data(self, args: tuple[Any, ...], arguments: Mapping[str, Any]) -> dict[str, Any]:
        return self.arguments.encode(self.arguments.bound(args, arguments) if args else arguments)

    def _encoded(self, items: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        return (self.arguments.encode(item) for item in items)

    # Workers

    @property
    def declaration(self) -> dict[str, Any]:
        """The options of the type that are stored in the database."""
        return {
            "job_type": self.name,
            "ordered": self.ordered,
            "retry_policy": self.retries.stored,
            "unique_rule": self.unique,
            **self._declared,
        }

    @property
    def defaults(self) -> dict[str, Any]:
        """The options of its jobs where the caller sets none."""
        stored = self.retries.stored
        defaults = {
            **{name: self._declared[name] for name in ("priority", "max_attempts", "timeout", "expires_in")},
            "retry_policy": None if stored is None else stored_mapping(stored, "retry_policy"),
        }
        return {name: value for name, value in defaults.items() if value is not None}

    def _check_unique(self) -> None:
        by = "arguments" if self.unique is None else self.unique["by"]
        for path in () if isinstance(by, str) else by:
            self.arguments.named(path.partition(".")[0], "unique")

    def _name_on_failure(self, other: str | Handler[Any, Any]) -> str:
        if not isinstance(other, Handler):
            return options.job_type(other)
        if other.queue is not self.queue:
            raise InvalidOption(
                f"on_failure of {self.name!r} is a handler of another queue: its job is added to this one"
            )
        other.check_failed_parameter()
        return other.name

    def check_failed_parameter(self) -> None:
        """Raises InvalidOption if the handler cannot be the ``on_failure`` of another one."""
        self.arguments.named(failed_job.PARAMETER, "on_failure")

    @property
    def has_flow(self) -> bool:
        """Whether an ended job may make room for others of its type, at any worker."""
        return self.ordered or bool(self.groups) or any(rule is not None for rule in (self.per, self.limit, self.rate))

    def flow_key(self, data: Mapping[str, Any]) -> str:
        """The flow key of a job with these arguments."""
        key = self.per(data) if callable(self.per) else data.get(self.per or "", "")
        return options.flow_key("" if key is None else key)

    @property
    def is_importable(self) -> bool:
        """Whether a child process can import the function by its name."""
        return "<" not in getattr(self.function, "__qualname__", "<")


AnyHandler: TypeAlias = Handler[Any, Any, Any]
OPTIONS: Final = tuple(inspect.signature(Handler).parameters)[2:]
"""The options of ``@queue.job``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """A handler with arguments, for a chain or a group."""

    target: AnyHandler | HandlerWithOptions[Any, Any]
    args: tuple[Any, ...] = ()
    named: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def handler(self) -> AnyHandler:
        return self.target.handler if isinstance(self.target, HandlerWithOptions) else self.target


@dataclasses.dataclass(frozen=True, slots=True)
class HandlerWithOptions(Generic[P, T]):
    """A handler, and options for the jobs that are added through it."""

    handler: AnyHandler
    options: Mapping[str, Any]

    def enqueue(self, /, *args: P.args, **arguments: P.kwargs) -> Job[T]:
        """Adds a job with these arguments and options."""
        return self.handler.queue.enqueue(self.handler.name, self.handler._data(args, arguments), **self.options)

    async def aenqueue(self, /, *args: P.args, **arguments: P.kwargs) -> Job[T]:
        """``enqueue``, awaited."""
        return await self.handler.queue.aenqueue(self.handler.name, self.handler._data(args, arguments), **self.options)

    def call(self, /, *args: Any, **arguments: Any) -> Call:
        """A call of the handler, with the options, as a part of a chain or a group."""
        return Call(self, args, arguments)

    def enqueue_many(self, items: Iterable[Mapping[str, Any]], **bulk: Unpack[BulkOptions]) -> EnqueuedCount:
        """Adds a job for each mapping of arguments, with the options."""
        encoded = self.handler._encoded(items)
        return self.handler.queue.enqueue_many(self.handler.name, encoded, **{**self.options, **bulk})

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any]], **bulk: Unpack[BulkOptions]) -> EnqueuedCount:
        """``enqueue_many``, awaited."""
        encoded: Iterable[Any] | AsyncIterable[Any] = self.handler._encoded(items)
        return await self.handler.queue.aenqueue_many(self.handler.name, encoded, **{**self.options, **bulk})


def _name_of(function: Callable[..., Any]) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _kind(function: Callable[..., Any], process: bool, name: str) -> Kind:
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(call):
        raise InvalidOption(f"the handler {name!r} is a generator: a handler returns its result once")
    if process:
        return "process"
    return "async" if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call) else "thread"


def _batch(size: int | None, wait: Seconds, process: bool, ordered: bool) -> Batch | None:
    if size is None:
        return None
    if process or ordered:
        raise InvalidOption("a batch handler cannot be ordered, nor run in a child process")
    return Batch(
        options.integer(size, "batch_size", least=1, most=10_000), options.span(wait, "batch_wait").total_seconds()
    )


def _level(value: str | int) -> int:
    known = logging.getLevelNamesMapping()
    if isinstance(value, str) and value.upper() in known:
        return known[value.upper()]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise InvalidOption(f"log_level is the name or the number of a level, or None, not {options.shown(value)}")


def _span(value: Seconds | None, name: str) -> timedelta | None:
    return None if value is None else options.span(value, name, positive=True)
