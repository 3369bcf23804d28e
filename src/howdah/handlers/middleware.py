"""Middleware: code around handlers. An async function runs on the worker's loop, a plain one where plain handlers run.

The plain form is for what belongs to a thread: connections of an ORM, scoped sessions, thread-locals, context variables. It
cannot wait for a coroutine, so it is not called around handlers that run on the loop.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from howdah.checks import options
from howdah.errors import InvalidOption
from howdah.model.job import Job

Called: TypeAlias = Job | Sequence[Job]
Next: TypeAlias = Callable[[Called], Awaitable[Any]]
Middleware: TypeAlias = Callable[[Any, Next], Awaitable[Any]]
SyncNext: TypeAlias = Callable[[Called], Any]
SyncMiddleware: TypeAlias = Callable[[Any, SyncNext], Any]
AnyMiddleware: TypeAlias = Middleware | SyncMiddleware

M = TypeVar("M", bound="Callable[[Any, Any], Any]")


def checked(function: M) -> M:
    """The function, if it can be middleware. Raises InvalidOption."""
    expected = "middleware is a function, async or plain, with the parameters job and call_next"
    if not callable(function):
        raise InvalidOption(f"{expected}, not {options.shown(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidOption(f"{expected}, not a generator: it returns what call_next(job) returns")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError as error:
        raise InvalidOption(f"{expected}: {options.shown(function)} cannot be called with two arguments") from error
    except ValueError:
        # A function of an extension module may not describe itself.
        pass
    return function


def split(middleware: Sequence[AnyMiddleware]) -> tuple[tuple[Middleware, ...], tuple[SyncMiddleware, ...]]:
    """The async ones and the plain ones, each in their order."""
    on_loop = tuple(each for each in middleware if is_async(each))
    return on_loop, tuple(each for each in middleware if not is_async(each))


def is_async(function: AnyMiddleware) -> bool:
    call = getattr(function, "__call__", function)  # noqa: B004
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def through(middleware: Sequence[SyncMiddleware], called: Called, handler: Callable[[], Any]) -> Any:
    """Call a handler through plain middleware, the first one outermost."""
    chain: SyncNext = lambda _: handler()  # noqa: E731
    for each in reversed(middleware):
        chain = functools.partial(_one, each, chain)
    return chain(called)


def _one(middleware: SyncMiddleware, inner: SyncNext, called: Called) -> Any:
    return middleware(called, inner)
