"""A plan as two methods of a class: one that blocks, and one that is awaited."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from howdah.checks.context import Context
from howdah.db.database import Database
from howdah.db.plan import Plan

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class Runner(Protocol[C_co]):
    """What has such methods: a database, and the first argument of its plans."""

    @property
    def _database(self) -> Database: ...

    @property
    def _context(self) -> C_co: ...


class VerbGroup:
    """Verbs of a queue that are about one thing, such as ``queue.schedules``.

    They ask the queue for its database at each call, because ``connect_to`` replaces it.
    """

    def __init__(self, queue: Runner[Context]) -> None:
        self._queue = queue

    @property
    def _database(self) -> Database:
        return self._queue._database

    @property
    def _context(self) -> Context:
        return self._queue._context


Verb = Callable[Concatenate[Runner[C], P], R]


def both(
    plan: Callable[Concatenate[C, P], Plan[R]],
) -> tuple[Verb[C, P, R], Verb[C, P, Coroutine[Any, Any, R]]]:
    """A plan as two verbs: one that blocks and one that is awaited. Both run it on ``conn``, if that is given."""

    @functools.wraps(plan)
    def verb(self: Runner[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if (conn := kwargs.get("conn")) is not None:
            self._database.look_after_callers()
        return self._database.run(plan(self._context, *args, **kwargs), conn)

    @functools.wraps(plan)
    async def averb(self: Runner[C], /, *args: P.args, **kwargs: P.kwargs) -> R:
        if (conn := kwargs.get("conn")) is not None:
            await self._database.alook_after_callers()
        return await self._database.arun(plan(self._context, *args, **kwargs), conn)

    return verb, averb


def name_verbs(cls: type) -> None:
    """Gives each verb of a class the name and the signature of a method, instead of those of its plan."""
    for name, verb in vars(cls).items():
        if hasattr(verb, "__wrapped__"):
            plan = inspect.signature(verb.__wrapped__)
            this, *others = plan.parameters.values()
            verb.__signature__ = plan.replace(
                parameters=[this.replace(name="self", annotation=this.empty), *others],
                return_annotation=str(plan.return_annotation).removeprefix("Plan[").removesuffix("]"),
            )
            verb.__name__, verb.__qualname__ = name, f"{cls.__name__}.{name}"
