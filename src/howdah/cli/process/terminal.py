"""Tells a terminal that was closed from somebody who sends SIGHUP."""

from __future__ import annotations

import os


class Terminal:
    """The terminal that this process was started from, if there was one."""

    def __init__(self) -> None:
        self._was_there = _is_there()

    def is_gone(self) -> bool:
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
