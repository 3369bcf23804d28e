"""The lifespan of a thread: entered before the first handler that the thread runs, left when the thread ends."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeAlias

log = logging.getLogger("howdah.worker")

OpenThreadLifespan: TypeAlias = Callable[[], AbstractContextManager[Any]]


class ThreadLifespan:
    """Enters a context manager once in each thread that runs handlers. The main thread of a child process is one, too."""

    def __init__(self, open_lifespan: OpenThreadLifespan) -> None:
        self._open = open_lifespan
        self._of_thread = threading.local()

    def enter(self) -> None:
        """Enter it, unless this thread is inside. What it raises fails the job, and the thread tries again with the next one."""
        if hasattr(self._of_thread, "manager"):
            return
        # In a context of its own: otherwise the first job of a thread would see context variables that later ones do not.
        context = contextvars.Context()
        manager = self._open()
        context.run(manager.__enter__)
        self._of_thread.context, self._of_thread.manager = context, manager

    def leave(self) -> None:
        """Leave it, if this thread is inside."""
        if not hasattr(self._of_thread, "manager"):
            return
        context, manager = self._of_thread.context, self._of_thread.manager
        del self._of_thread.manager, self._of_thread.context
        try:
            context.run(manager.__exit__, None, None, None)
        except BaseException:
            # As everything that a user's code raises in a thread: it ends nothing but its own work.
            log.exception("the thread_lifespan of a thread could not be left")
