"""Reads a stream in a thread of its own, or in an event loop there, while the test continues."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from types import TracebackType
from typing import Any, Self

from howdah import Job, JobQueue, Update

PATIENCE = 120.0
"""Seconds until a test fails. Only failures get there."""

FLAVOURS = ["plain", "awaited"]
TWINS = {"watch": "awatch", "watch_all": "awatch_all"}


class Listener:
    """Collects the updates of a stream. ``pace``, if given, is called with each update before the next is read."""

    def __init__(
        self,
        queue: JobQueue,
        flavour: str,
        verb: str,
        *args: Any,
        pace: Callable[[Update], None] | None = None,
        **kwargs: Any,
    ) -> None:
        self.updates: list[Update] = []
        self.error: BaseException | None = None
        self._changed = threading.Condition()
        self._over = False
        self._stopping = threading.Event()
        self._pace = pace
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        if flavour == "plain":
            self._stream: Any = getattr(queue, verb)(*args, **kwargs)
            target: Callable[[], None] = self._listen
        else:
            self._stream = getattr(queue, TWINS[verb])(*args, **kwargs)
            target = self._run
        self._thread = threading.Thread(target=target, daemon=True)
        self._thread.start()

    def until(self, condition: Callable[[list[Update]], object], what: str = "it") -> list[Update]:
        """All updates, once the condition holds for them."""
        with self._changed:
            came = self._changed.wait_for(lambda: self._over or condition(self.updates), PATIENCE)
            assert came, f"{what} did not come; what did: {summary(self.updates)}"
            assert condition(self.updates), (what, self.error, summary(self.updates))
            return list(self.updates)

    def ended(self) -> list[Update]:
        """All updates, once the stream has ended by itself."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), summary(self.updates)
        if self.error is not None:
            raise self.error
        return self.updates

    def failed(self) -> BaseException:
        self._thread.join(PATIENCE)
        assert self.error is not None, summary(self.updates)
        return self.error

    def stop(self) -> None:
        """Stops at the next update; what is awaited is cancelled."""
        self._stopping.set()
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _listen(self) -> None:
        stream: Generator[Update, None, None] = self._stream
        try:
            with contextlib.closing(stream):
                for update in stream:
                    self._on_update(update)
                    if self._stopping.is_set():
                        break
        except BaseException as error:  # noqa: BLE001
            self.error = error
        finally:
            self._finish()

    def _run(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(self._alisten())

    async def _alisten(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        stream: AsyncGenerator[Update, None] = self._stream
        try:
            async with contextlib.aclosing(stream):
                async for update in stream:
                    self._on_update(update)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001
            self.error = error
        finally:
            self._finish()

    def _on_update(self, update: Update) -> None:
        with self._changed:
            self.updates.append(update)
            self._changed.notify_all()
        if self._pace is not None:
            self._pace(update)

    def _finish(self) -> None:
        with self._changed:
            self._over = True
            self._changed.notify_all()


def summary(updates: Sequence[Update]) -> list[str]:
    return [f"{each.kind} {each.name or (each.job and each.job.status)}" for each in updates[-30:]]


def without_progress(updates: Sequence[Update]) -> list[tuple[str, str | None, Any]]:
    """The events and changes of status: all updates but progress."""
    return [(each.kind, each.name, each.data) for each in updates if each.kind != "progress"]


def names(updates: Sequence[Update]) -> list[str | None]:
    return [each.name for each in updates if each.kind == "event"]


def has(name: str) -> Callable[[Sequence[Update]], bool]:
    """Whether an event of this name is among the updates."""
    return lambda updates: any(each.name == name for each in updates)


def held(queue: JobQueue, job_type: str = "mail", data: Any = None) -> Job:
    """A job that runs, held by the test."""
    job = queue.enqueue(job_type, data)
    (claimed,) = queue.claim([job_type], 1)
    assert claimed.id == job.id
    queue.start(claimed)
    return claimed
