"""The event loop of a worker's own process: uvloop if that is installed."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from importlib import metadata


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    except ImportError:
        return None
    return factory


def loop_name() -> str:
    return "asyncio" if loop_factory() is None else f"uvloop {metadata.version('uvloop')}"
