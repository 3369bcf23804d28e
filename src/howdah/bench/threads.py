"""Threads that do something together, and stop together if they are interrupted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def together(count: int, produce: Callable[[threading.Event], None]) -> float:
    """Calls it in so many threads at once, and returns how many seconds it took until the last was done.

    It is given an event that says that it is to end early. What one of them raises is raised here.
    """
    stopped = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            produce(stopped)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)
            stopped.set()

    threads = [threading.Thread(target=run, name="howdah-bench", daemon=True) for _ in range(count)]
    began = time.monotonic()
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stopped.set()
    if errors:
        raise errors[0]
    return time.monotonic() - began
