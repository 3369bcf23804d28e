"""Two pipes between a worker and its supervisor, passed by number in the environment.

The worker writes into one when it is ready. Nothing is written into the other: the kernel closes it when the supervisor ends, even
by SIGKILL, and the worker reads the end of file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
import os
import signal
import threading
from collections.abc import MutableMapping
from typing import Final, Self

log = logging.getLogger("howdah.worker")

VARIABLE: Final = "HOWDAH_SUPERVISED"
READY: Final = b"ready\n"
STUCK: Final = 6


@dataclasses.dataclass(frozen=True, slots=True)
class SupervisorPipe:
    """The worker's end. ``number`` is for log lines, ``name`` is what the worker registers as."""

    number: int
    name: str
    ready_pipe: int
    lifeline: int
    announces: bool = True
    """Whether it says where an embedded PostgreSQL is: one process of a command is enough."""

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> Self | None:
        """The pipes of this process, if a supervisor started it. Processes that it starts do not inherit them."""
        text = environ.pop(VARIABLE, None)
        if text is None:
            return None
        pipe = cls(**json.loads(text))
        pipe.let_inherit(False)
        return pipe

    def as_environment(self) -> dict[str, str]:
        return {VARIABLE: json.dumps(dataclasses.asdict(self))}

    def let_inherit(self, inheritable: bool) -> None:
        for pipe in (self.ready_pipe, self.lifeline):
            os.set_inheritable(pipe, inheritable)

    def report_ready(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self.ready_pipe, READY)

    def watch(self, patience: float) -> None:
        """Stops this process when the supervisor has ended: by SIGTERM, and ``patience`` seconds later for certain."""
        threading.Thread(
            target=self._wait_for_the_end, args=(patience,), name="howdah-supervisor-pipe", daemon=True
        ).start()

    def _wait_for_the_end(self, patience: float) -> None:
        os.read(self.lifeline, 1)
        log.warning("the supervisor is gone: stopping", extra={"event": "supervisor_gone"})
        os.kill(os.getpid(), signal.SIGTERM)
        # No supervisor is left to kill it.
        threading.Event().wait(patience)
        os._exit(STUCK)
