"""Standard input, output and error of a process that was started without them."""

from __future__ import annotations

import os
import sys


def open_closed_ones() -> None:
    """Open /dev/null for each that is closed, and give it to Python, which has None there.

    Otherwise a pipe gets its number, and the next process that is started overwrites it.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for as long as the process
