"""What commits have left to do for workflows, and the jobs of maps: every worker does it for all.

A commit counts the jobs that it ends, and makes due what waited for them. Only large amounts are left, and maps.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final

from howdah.checks.context import Context
from howdah.verbs.maps import advance, expand_maps
from howdah.worker.connection import WorkerConnection
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.service import Service, happens

DRAIN_PAUSE: Final = 0.02


class Workflows(Service):
    """Advances workflows when a commit notifies that it has left something, and every so often."""

    def __init__(
        self, context: Context, connection: WorkerConnection, dispatcher: Dispatcher, *, interval: float, drain: bool
    ) -> None:
        super().__init__("workflows", self._advance)
        self._context = context
        self._connection = connection
        self._dispatcher = dispatcher
        self._interval = interval
        self._drain = drain
        self._look = asyncio.Event()
        dispatcher.on_advance = self._look.set

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._look.set()

    async def _advance(self) -> None:
        await self._until_due()
        self._look.clear()
        while not self.stopping.is_set():
            activity = self._dispatcher.activity
            row = await self._connection.run(advance())
            expanded = await self._connection.run(expand_maps(self._context)) if row["maps"] else 0
            if row["done"] or expanded:
                self._dispatcher.advanced()
            elif row["more"]:
                # Another worker does it, or a transaction has locked it.
                await self.pause(0.05)
                if not self._drain:
                    return
            else:
                self._dispatcher.advanced_at = activity
                self._dispatcher.check_drained()
                return

    async def _until_due(self) -> None:
        interval = self._interval * random.uniform(0.8, 1.2)
        if not self._drain:
            await happens(self._look, interval)
            return
        due = time.monotonic() + interval
        while not await happens(self._look, DRAIN_PAUSE):
            # Only an idle worker waits for the answer, to know whether it may end.
            if not self._dispatcher.held or time.monotonic() >= due:
                return
