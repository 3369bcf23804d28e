"""Something to be asked of the database, while the screen goes on."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from textual.app import App
from textual.message import Message

T = TypeVar("T")


class Answered(Message):
    """An errand is back; ``then`` is what to do with its answer, on the screen's own thread."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then = then


def send(
    app: App[Any], work: Callable[[], T], then: Callable[[T], None], otherwise: Callable[[Exception], None]
) -> None:
    """Works in a thread; afterwards the app calls ``then`` or ``otherwise``."""

    def run() -> None:
        try:
            back = functools.partial(then, work())
        except Exception as error:  # noqa: BLE001
            back = functools.partial(otherwise, error)
        # Whoever has closed the screen does not wait for answers.
        with contextlib.suppress(RuntimeError):
            app.post_message(Answered(back))

    # Not one of the loop's own threads: those are waited for at the end, and a database may be silent for long.
    threading.Thread(target=run, name="howdah-top", daemon=True).start()
