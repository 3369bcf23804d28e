"""UUIDv7, made by the client: a call that is repeated after a lost reply then adds one job."""

from __future__ import annotations

import os
import secrets
import threading
import time
import uuid

_lock = threading.Lock()
_last = 0


def _renew_lock() -> None:
    global _lock
    _lock = threading.Lock()


# A thread that held the lock does not exist in the child of a fork.
os.register_at_fork(after_in_child=_renew_lock)


def new_id() -> uuid.UUID:
    """A UUIDv7 that sorts after every one that this process made before."""
    global _last
    # 48 bits of milliseconds and 12 bits of their fraction: the whole of them counts up.
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    ticks = milliseconds << 12 | (nanoseconds << 12) // 1_000_000
    with _lock:
        _last = ticks = max(ticks, _last + 1)
    value = ticks >> 12 << 80 | 7 << 76 | (ticks & 0xFFF) << 64 | 2 << 62 | secrets.randbits(62)
    return uuid.UUID(int=value)
