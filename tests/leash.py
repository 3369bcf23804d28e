"""What a test has started ends with the test's process, also when that is killed."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from typing import Any, Final

# A line means that all is well; the end of the pipe without one, that the process which held its other end is gone.
_SCRIPT: Final = 'read -r _ && exit; "$@"; rm -rf "$0"'


class Leash:
    """Runs a command and removes a folder when this process is gone, however it went: the kernel closes its end of a pipe.

    A server that is just being started, and so does not heed the command, ends when it misses its folder.
    """

    def __init__(self, folder: str, command: Sequence[str], **options: Any) -> None:
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", _SCRIPT, folder, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # A signal to the group of the tests, as Ctrl-C in a terminal, does not reach it.
            start_new_session=True,
            **options,
        )

    def release(self) -> None:
        """All has ended as it should."""
        self._watcher.communicate(b"\n")
