"""Services: what a worker does in the background. One lifecycle, one policy for errors.

A service is a loop that nothing but ``stop`` ends. An outage makes it wait and try again; an error that
nobody expected is logged with its traceback, and the loop goes on after a pause: no part of a worker
dies unseen.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from howdah.db.outage import Backoff, Locked, is_cut_short
from howdah.errors import DatabaseUnavailable
from howdah.model.failure import loggable

log = logging.getLogger("howdah.worker")


COMPLAIN_EVERY = 60.0


class Complaint:
    """Says, now and then, that the server has cut a statement short that cannot be made smaller."""

    def __init__(self) -> None:
        self._silent_until = float("-inf")

    def say(self, consequence: str) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + COMPLAIN_EVERY
            log.error(
                "the server cut a statement short that cannot be made smaller, because of statement_timeout, or because"
                " somebody cancelled it; %s. If this goes on, raise statement_timeout for the login of the workers:"
                " ALTER ROLE … SET statement_timeout",
                consequence,
                extra={"event": "cut_short"},
            )


class Service:
    """A loop in the background: ``step`` is called again and again."""

    def __init__(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self._step = step
        self._backoff = Backoff()
        self._is_locked_out = False
        self._complaint = Complaint()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name=f"howdah {self.name}")

    def ask_to_stop(self) -> None:
        self.stopping.set()

    async def stop(self) -> None:
        """Ends the loop after the step that it is in."""
        self.ask_to_stop()
        if self._task is not None:
            await self._task

    async def pause(self, seconds: float) -> bool:
        """Waits; less if the service is asked to stop. True if it may go on."""
        return not await happens(self.stopping, seconds)

    async def _loop(self) -> None:
        while not self.stopping.is_set():
            try:
                await self._step()
            except DatabaseUnavailable as error:
                if isinstance(error, Locked) and not self._is_locked_out:
                    self._is_locked_out = True
                    log.warning("%s waits: %s", self.name, error, extra={"event": "locked_out"})
                await self.pause(self._backoff.next())
            except Exception as error:
                if is_cut_short(error):
                    self._complaint.say(f"{self.name} tries again")
                else:
                    about = {"event": "service_failed"}
                    log.error("%s failed unexpectedly; it goes on", self.name, exc_info=loggable(error), extra=about)
                await self.pause(self._backoff.next())
            else:
                self._backoff.reset()
                self._is_locked_out = False


async def happens(event: asyncio.Event, within: float | None) -> bool:
    """Waits for an event, at most so many seconds. Whether it came."""
    if within is None:
        await event.wait()
        return True
    try:
        async with asyncio.timeout(max(within, 0)):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
