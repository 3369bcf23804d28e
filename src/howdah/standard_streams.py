"""Standard input, output and error of a process that was started without them."""

from __future__ import annotations

import os
import sys


def open_closed_ones() -> None:
    """Open /dev/null for each stream that is closed, and set it in ``sys``, where Python has None.

    Otherwise a pipe would get the number of a closed stream, and the start of a child process would overwrite it.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(opened, True)
    os.close(opened)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - open until the process ends
