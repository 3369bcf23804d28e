"""An action that is repeated while other work runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")


def beside(work: Callable[[], R], act: Callable[[], object], *, least: int = 20) -> R:
    """Repeat an action while the work runs in another thread, and at least this often. Return the result of the work."""
    with ThreadPoolExecutor(1) as pool:
        working = pool.submit(work)
        times = 0
        while not working.done() or times < least:
            act()
            times += 1
        return working.result()
