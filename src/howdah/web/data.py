"""Reads for the pages: short, bounded, with the rights of the visitor's role, and shared by all pages that ask for the same.

Pages ask again every second or two. So an answer is kept for a moment, and a question that is on its way is not sent again: a hundred
open pages cost the database about as much as one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from howdah.db.plan import Begin, Plan, Row, read
from howdah.errors import NotPermitted
from howdah.web.access import Visitor

if TYPE_CHECKING:
    from howdah.queue import JobQueue

R = TypeVar("R")

FRESH: Final = 1.0
"""Seconds that an answer is kept."""
_MOST_KEPT: Final = 500


class Data:
    """The database as the dashboard sees it."""

    def __init__(self, queue: JobQueue, *, statement_timeout: float) -> None:
        self.queue = queue
        self.fresh = FRESH
        self._timeout = f"{round(1000 * statement_timeout)}ms"
        self._kept: dict[Hashable, tuple[float, asyncio.Future[Any]]] = {}
        self._lasting: set[Hashable] = set()
        self._roles: dict[str, Row] = {}

    async def read(self, visitor: Visitor, plan: Plan[R]) -> R:
        """Runs a plan that only reads, in a transaction that can do nothing else."""
        role = None if visitor.may_operate else await self._viewer_role()
        return await self.queue._database.arun(_bounded(plan, self._timeout, role))

    async def write(self, plan: Plan[R]) -> R:
        """Runs a plan of an action in a transaction, as the role of operators if the queue's login may take it, or else as the login."""
        return await self.queue._database.arun(_as_role(plan, await self._operator_role()))

    async def write_as_login(self, plan: Plan[R], entry: Callable[[R], Plan[None]]) -> R:
        """Runs a plan that begins a transaction as the login, and in that transaction makes its entry in the audit, as in ``write``."""
        return await self.queue._database.arun(_entered(plan, entry, await self._operator_role()))

    async def kept(self, key: Hashable, ask: Callable[[], Awaitable[R]], *, seconds: float | None = None) -> R:
        key = (id(asyncio.get_running_loop()), key)
        if seconds is None:
            seconds = self.fresh
        else:
            self._lasting.add(key)
        found = self._kept.get(key)
        if found is None or (found[1].done() and (time.monotonic() - found[0] > seconds or _has_failed(found[1]))):
            if len(self._kept) > _MOST_KEPT:
                self._forget()
            task: asyncio.Future[Any] = asyncio.ensure_future(ask())
            # Its error is for those that ask; none may be left when it comes.
            task.add_done_callback(_has_failed)
            found = self._kept[key] = (time.monotonic(), task)
        # One that asks and goes away must not take the answer from the others.
        answer: R = await asyncio.shield(found[1])
        return answer

    def close(self) -> None:
        """Ends what is on its way: nothing asks for it any more."""
        for _, task in self._kept.values():
            if not task.done():
                task.get_loop().call_soon_threadsafe(task.cancel)
        self._kept.clear()

    def forget(self) -> None:
        """Drops what is kept for a moment: after an action, its own page must show what it did."""
        self._kept = {key: found for key, found in self._kept.items() if key in self._lasting}

    def _forget(self) -> None:
        oldest = sorted(self._kept, key=lambda key: self._kept[key][0])
        for key in oldest[: _MOST_KEPT // 2]:
            del self._kept[key]

    async def _viewer_role(self) -> str | None:
        its = (await self._known_roles()).get("viewer")
        if its is not None and not its["may"]:
            # As its own login it would show viewers what their role hides.
            raise NotPermitted(
                f"viewers are shown what the role {its['role']} may see, and this dashboard cannot take it: GRANT"
                f" {its['role']} TO {its['login']}"
            )
        return None if its is None else its["role"]

    async def _operator_role(self) -> str | None:
        its = (await self._known_roles()).get("operator")
        return its["role"] if its is not None and its["may"] else None

    async def _known_roles(self) -> dict[str, Row]:
        """The roles of the schema by kind. One that is missing or cannot be taken is looked for again: it may be there, or granted, since."""
        if not self._roles or not all(each["may"] for each in self._roles.values()):
            rows = await self.kept("roles", lambda: self.queue._database.arun(read("web/roles")), seconds=self.fresh)
            self._roles = {row["kind"]: row for row in rows}
        return self._roles


def _has_failed(task: asyncio.Future[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


def _as_role(plan: Plan[R], role: str | None) -> Plan[R]:
    yield Begin()
    yield from _take(role)
    return (yield from plan)


def _entered(plan: Plan[R], entry: Callable[[R], Plan[None]], role: str | None) -> Plan[R]:
    result = yield from plan
    yield from _take(role)
    yield from entry(result)
    return result


def _take(role: str | None) -> Plan[None]:
    if role is not None:
        yield from read("web/take_role", role=role)


def _bounded(plan: Plan[R], timeout: str, role: str | None) -> Plan[R]:
    yield Begin(discard=True)
    yield from read("web/bounds", timeout=timeout, role=role)
    return (yield from plan)
