"""The lifespan of a queue, which a worker enters and leaves. One that hangs must not keep the worker from ending.

It is entered and left in one task, as task groups and timeouts inside of it need it. So it is interrupted as ``asyncio.timeout``
interrupts: by a cancellation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

from howdah.worker.shutdown import StopRequests

log = logging.getLogger("howdah.worker")

Resources: TypeAlias = Mapping[str | type, Any]

TO_HURRY: Final = 2.0
"""Seconds to leave it after a second request to stop, and with a shorter grace."""


class BoundedLifespan:
    """Opens the resources of one worker, and closes them."""

    def __init__(
        self,
        open_resources: Callable[[contextlib.AsyncExitStack], Awaitable[Resources]],
        stops: StopRequests,
        grace: float,
    ) -> None:
        self.was_cut = False
        """Whether it was interrupted as it ended."""
        self._open_resources = open_resources
        self._stops = stops
        self._grace = max(grace, TO_HURRY)
        self._stack = contextlib.AsyncExitStack()

    async def open(self) -> Resources | None:
        """Enters it. None: the worker was stopped meanwhile."""
        try:
            async with _interrupted(None, self._stops.first, 0) as limit:
                return await self._open_resources(self._stack)
        except TimeoutError:
            if not limit.expired():
                raise
        log.warning("stopped while the lifespan was opening: it was cancelled", extra={"event": "lifespan_cancelled"})
        return None

    async def close(self, *error: Any) -> bool:
        """Leaves it, for a stack of contexts."""
        try:
            async with _interrupted(self._grace, self._stops.second, TO_HURRY) as limit:
                end_of_grace = limit.when()
                return bool(await self._stack.__aexit__(*error))
        except TimeoutError:
            if not limit.expired():
                raise
        self.was_cut = True
        waited = f"within {self._grace:g} s" if limit.when() == end_of_grace else "after a second request to stop"
        log.error("the lifespan did not close %s: it was cancelled", waited, extra={"event": "lifespan_cut"})
        return False


@contextlib.asynccontextmanager
async def _interrupted(seconds: float | None, event: asyncio.Event, later: float) -> AsyncIterator[asyncio.Timeout]:
    """``asyncio.timeout``, which also ends so many seconds after an event."""
    async with asyncio.timeout(seconds) as limit:

        async def watch() -> None:
            await event.wait()
            moment = asyncio.get_running_loop().time() + later
            if not limit.expired():
                limit.reschedule(min(moment, limit.when() or moment))

        watching = asyncio.create_task(watch())
        try:
            yield limit
        finally:
            watching.cancel()
            await asyncio.wait({watching})
