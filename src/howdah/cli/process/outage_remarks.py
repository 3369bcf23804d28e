"""Outages of the database, which the library logs, as remarks of a command."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator


class _Remarks(logging.Handler):
    def __init__(self, remark: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._remark = remark

    def emit(self, record: logging.LogRecord) -> None:
        # On one line: a message of PostgreSQL may have several.
        self._remark(" ".join(record.getMessage().split()))


@contextlib.contextmanager
def outages_remarked(remark: Callable[[str], None]) -> Iterator[None]:
    """While the block runs. ``remark`` is called from other threads."""
    # The pool logs each failed try, which would be printed across the bars.
    handlers = {"howdah": _Remarks(remark), "psycopg": logging.NullHandler()}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name, handler in handlers.items():
            logging.getLogger(name).removeHandler(handler)
