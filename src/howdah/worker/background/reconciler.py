"""Orders: what the database says about the jobs that are held here.

A job may have been cancelled, or may no longer be this worker's: its handler is told. And the answer to
a claim may have been lost on its way: then the database says that this worker holds a job of which it
knows nothing. Seen twice in a row, with no claim under way, such a job is handed back, unless another process has
this worker's name by now: then it is that one's.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from howdah.checks.context import Context
from howdah.model.job import Job
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Service, happens
from howdah.worker.calls import Hold, Word
from howdah.worker.run.run import Run

log = logging.getLogger("howdah.worker")


class Orders(Service):
    """Asks now and then, and at once when a cancellation was heard of."""

    def __init__(
        self,
        link: Link,
        context: Context,
        *,
        interval: float,
        boot: Callable[[], uuid.UUID],
        held: Mapping[Hold, Job],
        run_of: Callable[[Job], Run | None],
        claims_under_way: Callable[[], bool],
        taken_from_line: Callable[[Job], None],
    ) -> None:
        super().__init__("orders", self._look)
        self._link = link
        self._context = context
        self._interval = interval
        self._boot = boot
        self._held = held
        self._run_of = run_of
        self._claims_under_way = claims_under_way
        self._taken_from_line = taken_from_line
        self._now = asyncio.Event()
        self._strikes = Counter[Hold]()

    def heard_of(self, id: uuid.UUID) -> None:
        """A job was cancelled somewhere."""
        if any(held == id for held, _ in self._held):
            self._now.set()

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._now.set()

    async def _look(self) -> None:
        await happens(self._now, self._interval)
        if self.stopping.is_set():
            return
        self._now.clear()
        holds = list(self._held)
        under_way = self._claims_under_way()
        words = await self._link.run(calls.attend(self._context, holds))
        for word in words:
            if word.word != "unknown":
                self._told(word)
        if not under_way and not self._claims_under_way():
            await self._disown([word for word in words if word.word == "unknown" and word.hold not in self._held])

    def _told(self, word: Word) -> None:
        job = self._held.get(word.hold)
        if job is None:
            return
        run = self._run_of(job)
        if run is None:
            self._taken_from_line(job)
        elif word.word == "cancel":
            run.cancel(job)
        else:
            run.lose(job)

    async def _disown(self, strangers: Sequence[Word]) -> None:
        strikes = Counter({word.hold: self._strikes[word.hold] + 1 for word in strangers})
        self._strikes = strikes
        forgotten = [hold for hold, seen in strikes.items() if seen >= 2]
        if forgotten:
            back = await self._link.run(calls.disown(self._context, self._boot(), forgotten))
            if back:
                log.warning("handed back %d jobs that a lost answer had left behind", len(back))
