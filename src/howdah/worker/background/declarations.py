"""Tells the database of the types that this worker handles.

A type whose row another transaction has locked is declared later, and not claimed until then: it would run in no order though its
handler asks for one, or by defaults that are not its own. All others go on meanwhile.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping

from howdah.checks.context import Context
from howdah.db.outage import Locked
from howdah.handlers.handler import AnyHandler
from howdah.worker import calls
from howdah.worker.background.connection import Link
from howdah.worker.background.service import Service

log = logging.getLogger("howdah.worker")


class Declarations(Service):
    """Declares what it could not at the beginning. It ends when nothing is missing any more."""

    def __init__(
        self, link: Link, context: Context, handlers: Mapping[str, AnyHandler], *, declared: Callable[[], None]
    ) -> None:
        super().__init__("declarations", self._retry)
        self._link = link
        self._context = context
        self._handlers = handlers
        self._declared = declared
        self.missing: set[str] = set()

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
        """Declares what is missing, and says why some of it still is: all at once, or, where one is locked, one by one."""
        because = None
        for names in ([sorted(self.missing)], [[name] for name in sorted(self.missing)]):
            for some in names:
                try:
                    await self._link.run(
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
                self._declared()
            if not self.missing:
                log.info("all types are declared, and claimed from now on", extra={"event": "declared"})
