"""Declares the types that this worker handles in the database.

A type whose row another transaction has locked is declared later, and not claimed until then: its jobs could run out of
order although the handler is ordered, or with wrong defaults. All other types are claimed meanwhile.
"""

from __future__ import annotations

import logging
import random

from howdah.checks.context import Context
from howdah.db.outage import Locked
from howdah.worker import calls
from howdah.worker.connection import WorkerConnection
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.service import Service

log = logging.getLogger("howdah.worker")


class Declarations(Service):
    """Declares the types that were locked at the beginning. It ends when none is missing."""

    def __init__(self, connection: WorkerConnection, context: Context, dispatcher: Dispatcher) -> None:
        super().__init__("declarations", self._retry)
        self._connection = connection
        self._context = context
        self._dispatcher = dispatcher
        self._handlers = dispatcher.handlers
        self.missing: set[str] = set()
        for group in dispatcher.groups:
            group.undeclared = self.missing

    async def begin(self) -> None:
        self.missing.update(self._handlers)
        if because := await self._declare():
            log.warning(
                "not claimed until they can be declared: %s. %s",
                ", ".join(sorted(self.missing)),
                because,
                extra={"event": "undeclared"},
            )

    async def _declare(self) -> Locked | None:
        """Declare the missing types: all at once, or, if one is locked, one by one. Returns why some are still missing."""
        because = None
        for names in ([sorted(self.missing)], [[name] for name in sorted(self.missing)]):
            for some in names:
                try:
                    await self._connection.run(
                        calls.declare(self._context, [self._handlers[name].declaration for name in some])
                    )
                except Locked as error:
                    because = error
                else:
                    self.missing.difference_update(some)
            if not self.missing:
                return None
        return because

    async def _retry(self) -> None:
        if not self.missing:
            self.ask_to_stop()
        elif await self.pause(random.uniform(0.5, 1.5)):
            before = len(self.missing)
            await self._declare()
            if len(self.missing) < before:
                for group in self._dispatcher.groups:
                    group.room.set()
                    group.wake()
            if not self.missing:
                log.info("all types are declared, and claimed from now on", extra={"event": "declared"})
