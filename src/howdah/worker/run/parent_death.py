"""The kernel ends a child process together with its worker.

The child also reads the end of its pipe, but in a thread: while the handler holds the GIL (in a regular expression, in C), that thread
does not run. The child would outlive its killed worker, and a second run of its job would begin beside it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_worker() -> None:
    """Called first in a child. Linux sends the signal when the *thread* ends that started the child: see ``Children``."""
    if sys.platform == "linux":
        # An interpreter may be built without ctypes, and a sandbox may forbid the call: the pipe is left.
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    worker = multiprocessing.parent_process()
    if worker is not None and worker.pid != os.getppid():
        # It ended before the call, which has no effect then.
        os._exit(0)
