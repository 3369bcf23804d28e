"""What ties a worker to its supervisor: two pipes, named in the environment.

The worker writes into the one when it is ready. Nobody ever writes into the other: its end means that
the supervisor is gone, however it went, because the kernel closed it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import threading
from collections.abc import MutableMapping
from typing import Final, Self

VARIABLE: Final = "HOWDAH_SUPERVISED"
READY: Final = b"ready\n"
STUCK: Final = 6


@dataclasses.dataclass(frozen=True, slots=True)
class SupervisorPipe:
    """The worker's end. ``number`` tells it from its siblings, and ``name`` is what the queue knows it by."""

    number: int
    name: str
    ready_pipe: int
    lifeline: int

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str]) -> Self | None:
        """The pipes of this process, if a supervisor started it. What it starts in turn does not inherit it."""
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

    def tell_ready(self) -> None:
        with contextlib.suppress(OSError):
            os.write(self.ready_pipe, READY)

    def watch(self, patience: float) -> None:
        """Stops this process as SIGTERM does when the supervisor is gone, and at all events after ``patience``."""
        threading.Thread(
            target=self._wait_for_the_end, args=(patience,), name="howdah-supervisor-pipe", daemon=True
        ).start()

    def _wait_for_the_end(self, patience: float) -> None:
        os.read(self.lifeline, 1)
        os.kill(os.getpid(), signal.SIGTERM)
        # There is nobody left who would kill it if it does not end.
        threading.Event().wait(patience)
        os._exit(STUCK)
