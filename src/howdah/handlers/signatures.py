"""What type checkers and editors see of ``@queue.job`` and of a handler's producers.

``Concatenate[HandledJob, P]`` takes the job out of the parameters, so that ``enqueue`` asks for the others. The order of the
overloads matters. mypy gives up on a function that fits several of them by an ``Any`` in it; such a handler is typed Any. So
the job's class must not bring an ``Any`` along: this is why the parameter of ``Job`` is ``object`` if not given.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    overload,
)

from howdah.checks.options import Seconds
from howdah.handlers.retry import AnyPolicy, RetryRule
from howdah.handlers.unique import UniqueOption
from howdah.model.connection import Connection
from howdah.model.job import Job
from howdah.model.rate import RateOption
from howdah.model.results import WhenFull

if TYPE_CHECKING:
    from howdah.handlers.handler import Handler

    class HandledJob(Job[Any]):
        """The job that a worker passes: it fits a parameter of any ``Job[…]``, and has no ``Any`` in its own name."""


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound="Handler[Any, Any, Any]")

JobsFirst: TypeAlias = Callable[Concatenate[list[Job], ...], R]
"""A batch handler, or a function whose first parameter takes anything, a job included."""
JobSomewhere: TypeAlias = (
    Callable[Concatenate["HandledJob", ...], R]
    | Callable[Concatenate[Any, "HandledJob", ...], R]
    | Callable[Concatenate[Any, Any, "HandledJob", ...], R]
)
"""The job comes late, or (for mypy, to which it does not fit a P behind a Concatenate) there is a ``**others``."""


class Registers(Protocol):
    """A decorator that makes a handler of a function. The same overloads as those of ``JobQueue.job``."""

    @overload
    def __call__(self, function: H, /) -> H: ...

    @overload
    def __call__(self, function: JobsFirst[R], /) -> Handler[..., R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[HandledJob, P], R], /) -> Handler[P, R, Concatenate[Job, P]]: ...  # type: ignore[overload-overlap]

    @overload
    def __call__(self, function: JobSomewhere[R], /) -> Handler[..., R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Handler[P, R, P]: ...


class HandlerOptions(TypedDict, total=False):
    """The options of ``@queue.job(…)``."""

    name: str | None
    priority: int | None
    max_attempts: int | None
    retry: RetryRule | None
    give_up: Sequence[type[BaseException]]
    timeout: Seconds | None
    expires_in: Seconds | None
    concurrency: int | None
    ordered: bool
    order: Literal["wait", "skip"]
    per: str | Callable[[Mapping[str, Any]], str | int] | None
    limit: int | None
    rate: RateOption | None
    cost: int | None
    groups: Sequence[str]
    max_pending: int | None
    when_full: WhenFull | None
    pause_on_failure: bool
    max_crashes: int | None
    process: bool
    batch_size: int | None
    batch_wait: Seconds
    log_level: str | int | None
    max_events: int
    fail_stalled: bool
    unique: UniqueOption | None
    debounce: Seconds | None
    throttle: Seconds | None
    on_failure: str | Handler[Any, Any, Any] | None


class _SharedOptions(TypedDict, total=False):
    priority: int | None
    run_at: datetime | None
    delay: Seconds | None
    max_attempts: int | None
    timeout: Seconds | None
    expires_at: datetime | None
    expires_in: Seconds | None
    retry_policy: AnyPolicy | None
    meta: Mapping[str, Any] | None
    cost: int | None
    unique: UniqueOption | None
    debounce: Seconds | None
    throttle: Seconds | None
    room_timeout: Seconds | None
    conn: Connection | None


class EnqueueOptions(_SharedOptions, total=False):
    """The options of ``queue.enqueue``."""

    key: str | None
    id: uuid.UUID | str | None
    per: str | int | None


class BulkOptions(_SharedOptions, total=False):
    """The options of ``queue.enqueue_many``."""

    key: Callable[[Any], str] | None
    per: str | int | Callable[[Any], str | int] | None
    chunk_size: int | None
    return_ids: bool
