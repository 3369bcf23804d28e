"""The dashboard of the demo: beside the board in the terminal, and after it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from howdah.cli.render.output import say
from howdah.errors import HowdahError
from howdah.queue import JobQueue


@contextlib.contextmanager
def shown(queue: JobQueue, is_wanted: bool, is_quiet: bool) -> Iterator[str | None]:
    """Serves it, and yields its address; None if it is not wanted."""
    if not is_wanted:
        yield None
        return
    try:
        from howdah.web import app, serve
    except ImportError as error:
        raise HowdahError(f"the dashboard needs more packages ({error.name}): pip install 'howdah[web]'") from None
    with serve(app(queue, title="Howdah demo")) as address:
        if not is_quiet:
            say(f"The dashboard is at {address}")
        yield address


def wait(address: str) -> None:
    """Until it is interrupted. The workers go on meanwhile, and the jobs stay."""
    say(f"The dashboard stays at {address} until Ctrl-C.")
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
