"""The threads that call sync handlers: every call is made once, never too many at a time, and not by more than need be."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from howdah.worker.run.threads import ThreadCall, Threads
from tests.worker.in_process import run, until


class Calls:
    """Calls of functions in threads, and how they ended."""

    def __init__(self, most: int) -> None:
        self.leaks: list[int] = []
        self.ended: list[object] = []
        self.threads = Threads(most, on_leak=self.leaks.append)

    def call(self, function: Callable[[], object]) -> ThreadCall:
        return self.threads.call(function, self._note, contextvars.copy_context(), "work")

    async def stuck(self, value: object = None) -> tuple[ThreadCall, threading.Event]:
        """A call that is in its thread, and the event until which it stays there."""
        is_in, go_on = threading.Event(), threading.Event()

        def wait() -> object:
            is_in.set()
            go_on.wait()
            return value

        call = self.call(wait)
        await until(is_in.is_set)
        return call, go_on

    def _note(self, value: object, error: BaseException | None) -> None:
        self.ended.append(error or value)


@settings(max_examples=40, deadline=None)
@given(most=st.integers(1, 5), waits=st.lists(st.booleans(), min_size=1, max_size=60))
def test_every_call_is_made_once_and_never_too_many_at_a_time(most: int, waits: list[bool]) -> None:
    at_once, peak, lock = 0, 0, threading.Lock()

    def work(place: int, wait: bool) -> int:
        nonlocal at_once, peak
        with lock:
            at_once += 1
            peak = max(peak, at_once)
        if wait:
            threading.Event().wait(0.0005)
        with lock:
            at_once -= 1
        return place

    async def main() -> list[object]:
        calls = Calls(most)
        for place, wait in enumerate(waits):
            calls.call(lambda place=place, wait=wait: work(place, wait))  # type: ignore[misc]
            if wait:
                await asyncio.sleep(0)
        await until(lambda: len(calls.ended) == len(waits))
        calls.threads.close()
        return calls.ended

    assert sorted(run(main())) == list(range(len(waits)))  # type: ignore[type-var]
    assert peak <= most


def test_slow_calls_run_side_by_side_and_quick_ones_need_few_threads() -> None:
    async def main() -> tuple[int, int]:
        calls = Calls(20)
        makers: set[int] = set()
        for _ in range(500):
            calls.call(lambda: makers.add(threading.get_ident()))
        await until(lambda: len(calls.ended) == 500)
        together = threading.Barrier(20)
        for _ in range(20):
            calls.call(lambda: together.wait(20))
        await until(lambda: len(calls.ended) == 520)
        assert not any(isinstance(end, BaseException) for end in calls.ended)
        calls.threads.close()
        return len(makers), calls.threads._started

    few, all_of_them = run(main())
    assert few <= 20
    assert all_of_them == 20


def test_an_abandoned_thread_is_replaced() -> None:
    async def main() -> list[int]:
        calls = Calls(1)
        stuck, go_on = await calls.stuck()
        calls.call(lambda: "next")
        assert stuck.abandon()
        await until(lambda: calls.ended == ["next"])
        go_on.set()
        await until(lambda: len(calls.leaks) == 2)
        calls.call(lambda: "last")
        await until(lambda: calls.ended == ["next", "last"])
        calls.threads.close()
        return calls.leaks

    assert run(main()) == [1, -1]


def test_a_handler_that_raises_whatever_it_likes_ends_no_thread() -> None:
    def leave() -> None:
        raise SystemExit(3)

    async def main() -> list[object]:
        calls = Calls(1)
        calls.call(leave)
        calls.call(lambda: "after")
        await until(lambda: len(calls.ended) == 2)
        calls.threads.close()
        return calls.ended

    first, second = run(main())
    assert isinstance(first, SystemExit)
    assert second == "after"


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_where_no_more_threads_can_be_had_those_that_are_there_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[object]:
        calls = Calls(5)
        _, go_on = await calls.stuck("first")
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", refuse)
            calls.call(lambda: "second")
            go_on.set()
            await until(lambda: len(calls.ended) == 2)
        calls.call(lambda: "third")
        await until(lambda: len(calls.ended) == 3)
        calls.threads.close()
        return calls.ended

    assert run(main()) == ["first", "second", "third"]


def test_a_call_for_which_no_thread_can_be_had_is_refused_and_never_made(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[object]:
        calls = Calls(5)
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError):
                calls.call(lambda: "never")
        calls.call(lambda: "later")
        await until(lambda: calls.ended)
        calls.threads.close()
        return calls.ended

    assert run(main()) == ["later"]


def test_an_abandoned_thread_is_used_again_where_it_could_not_be_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[object]:
        calls = Calls(1)
        stuck, go_on = await calls.stuck()
        calls.call(lambda: "next")
        with monkeypatch.context() as system:
            system.setattr(threading.Thread, "start", refuse)
            assert stuck.abandon()
            go_on.set()
            await until(lambda: len(calls.ended) == 1)
        calls.call(lambda: "last")
        await until(lambda: len(calls.ended) == 2)
        calls.threads.close()
        return calls.ended

    assert run(main()) == ["next", "last"]
