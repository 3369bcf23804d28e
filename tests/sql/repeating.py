"""Something that is done again and again while something else goes on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")


def beside(work: Callable[[], R], act: Callable[[], object], *, least: int = 20) -> R:
    """Acts while the work is done in another thread, and at least so often. Returns what the work does."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        times = 0
        while not working.done() or times < least:
            act()
            times += 1
        return working.result()
