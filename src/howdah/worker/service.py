"""Services: the background loops of a worker. They share one lifecycle and one policy for errors.

Only ``stop`` ends the loop of a service. In an outage it waits and tries again. An unexpected error is logged with its
traceback, and the loop continues after a pause, so no part of a worker stops unnoticed.
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

WARN_EVERY = 60.0


class CutShortWarning:
    """Logs, at most once a minute, that the server cut short a statement that cannot be made smaller."""

    def __init__(self) -> None:
        self._silent_until = float("-inf")

    def log(self, consequence: str) -> None:
        now = time.monotonic()
        if now >= self._silent_until:
            self._silent_until = now + WARN_EVERY
            log.error(
                "the server cut a statement short that cannot be made smaller: it hit statement_timeout, or it was"
                " cancelled by hand; %s. If this continues, raise statement_timeout for the login of the workers:"
                " ALTER ROLE … SET statement_timeout",
                consequence,
                extra={"event": "cut_short"},
            )


class Service:
    """A background loop that calls ``step`` until it is stopped."""

    def __init__(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        self.name = name
        self.stopping = asyncio.Event()
        self._step = step
        self._backoff = Backoff()
        self._is_locked_out = False
        self._cut_short = CutShortWarning()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._loop(), name=f"howdah {self.name}")

    def ask_to_stop(self) -> None:
        self.stopping.set()

    async def stop(self) -> None:
        """End the loop after its current step."""
        self.ask_to_stop()
        if self._task is not None:
            await self._task

    async def pause(self, seconds: float) -> bool:
        """Wait, but not beyond a request to stop. True if the service may continue."""
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
                    self._cut_short.log(f"{self.name} tries again")
                else:
                    about = {"event": "service_failed"}
                    log.error("%s failed unexpectedly and continues", self.name, exc_info=loggable(error), extra=about)
                await self.pause(self._backoff.next())
            else:
                self._backoff.reset()
                self._is_locked_out = False


async def happens(event: asyncio.Event, within: float) -> bool:
    """Wait for an event for at most ``within`` seconds. Return whether it is set."""
    try:
        async with asyncio.timeout(max(within, 0)):
            await event.wait()
    except TimeoutError:
        return event.is_set()
    return True
