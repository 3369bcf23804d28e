"""The live stream: one for each browser, all of them fed by one reader.

A ``tick`` says that the page may be old: pages then ask for themselves again. ``progress`` has the bars that moved. Both are the same for all, so
a stream costs the database nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from datetime import datetime, timezone
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from howdah.errors import HowdahError
from howdah.model.job import Job
from howdah.web import words
from howdah.web.defence import Refusal
from howdah.web.site import Site

TICK: Final = 1.0
KEEPALIVE: Final = 10.0
_PATCH_EVERY: Final = 0.25
_MOST_PATCHES: Final = 500
_MOST_BEHIND: Final = 20


class Live:
    """The streams of one dashboard. Its reader runs while there is a stream."""

    def __init__(self, site: Site, *, max_streams: int) -> None:
        self._site = site
        self._max_streams = max_streams
        self._mailboxes: set[asyncio.Queue[bytes | None]] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._patches: dict[str, dict[str, Any]] = {}

    async def stream(self, _: Request) -> Response:
        if len(self._mailboxes) >= self._max_streams:
            raise Refusal(503, "too many pages are open", {"retry-after": "10"})
        headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
        return StreamingResponse(self._messages(), media_type="text/event-stream", headers=headers)

    async def close(self) -> None:
        """Ends the streams, so that the server can stop."""
        for mailbox in self._mailboxes:
            _put(mailbox, None)
        await self._rest()

    async def _messages(self) -> AsyncGenerator[bytes]:
        mailbox: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_BEHIND)
        self._mailboxes.add(mailbox)
        if not self._tasks:
            self._tasks = [asyncio.create_task(each, name="howdah-web-live") for each in (self._tick(), self._follow())]
        try:
            yield b"retry: 1000\nevent: hello\ndata: {}\n\n"
            while True:
                try:
                    message = await asyncio.wait_for(mailbox.get(), KEEPALIVE)
                except TimeoutError:
                    message = b": still here\n\n"
                if message is None:
                    return
                yield message
        finally:
            self._mailboxes.discard(mailbox)
            if not self._mailboxes:
                await self._rest()

    async def _rest(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _tick(self) -> None:
        since = 0.0
        while True:
            await asyncio.sleep(_PATCH_EVERY)
            since += _PATCH_EVERY
            if self._patches:
                patches, self._patches = list(self._patches.values()), {}
                self._send("progress", patches)
            if since >= TICK:
                since = 0.0
                self._send("tick", {})

    async def _follow(self) -> None:
        """Keeps the last progress of each job, until it is sent."""
        while True:
            try:
                async with contextlib.aclosing(self._site.queue.awatch_all(kinds=["progress"])) as updates:
                    async for update in updates:
                        if update.job is not None and len(self._patches) < _MOST_PATCHES:
                            self._patches[str(update.job_id)] = patch(update.job)
            except HowdahError:
                await asyncio.sleep(1)

    def _send(self, event: str, data: Any) -> None:
        message = b"event: %s\ndata: %s\n\n" % (event.encode(), msgspec.json.encode(data))
        for mailbox in self._mailboxes:
            _put(mailbox, message)


def patch(job: Job[Any]) -> dict[str, Any]:
    """What of a page changes with the progress of a job."""
    now = datetime.now(timezone.utc)
    percent = words.progress_of(job)
    return {
        "id": str(job.id),
        "state": words.state_of(job, now),
        "percent": None if percent is None else round(percent, 1),
        "stage": job.current_stage or "",
        "amounts": words.amounts(job),
        "left": words.left(job, now),
    }


def _put(mailbox: asyncio.Queue[bytes | None], message: bytes | None) -> None:
    # A browser that does not read misses patches. The next tick brings its page up to date.
    if mailbox.full():
        mailbox.get_nowait()
    mailbox.put_nowait(message)
