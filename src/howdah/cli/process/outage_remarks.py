"""What the library logs while a command watches, as remarks: that the database went away, and that it is back."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator


class _Remarks(logging.Handler):
    def __init__(self, remark: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._remark = remark

    def emit(self, record: logging.LogRecord) -> None:
        # On one line: what PostgreSQL says of its end has several.
        self._remark(" ".join(record.getMessage().split()))


@contextlib.contextmanager
def outages_remarked(remark: Callable[[str], None]) -> Iterator[None]:
    """For as long as the block lasts. The remarks come from another thread."""
    # The pool's own complaints, one for each try, would be written across the picture.
    handlers = {"howdah": _Remarks(remark), "psycopg": logging.NullHandler()}
    for name, handler in handlers.items():
        logging.getLogger(name).addHandler(handler)
    try:
        yield
    finally:
        for name, handler in handlers.items():
            logging.getLogger(name).removeHandler(handler)
