"""Standard input, output and error of a process that was started without them."""

from __future__ import annotations

import os


def open_closed_ones() -> None:
    """Open /dev/null for each that is closed: otherwise a pipe gets its number, and the next process that is started overwrites it."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
