"""A task that is cancelled while the driver waits for the server is cancelled, whatever the driver makes of it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

import pytest

from howdah.db.database import Database
from howdah.db.plan import Pause, Plan


class Deaf:
    """Loses a cancellation that comes together with its answer, as asyncio.wait_for does until Python 3.12."""

    def __init__(self, error: Exception | None) -> None:
        self.error = error
        self.waits = asyncio.Event()

    async def wait(self, *_: object) -> None:
        self.waits.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            if self.error is not None:
                raise self.error from None

    async def __aenter__(self) -> None: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.wait()


def pausing() -> Plan[str]:
    yield Pause(0)
    return "the end"


@pytest.mark.parametrize("error", [None, ValueError("refused")], ids=["answers", "refuses"])
@pytest.mark.parametrize("where", ["a step", "the end"])
def test_a_cancelled_plan_is_cancelled(monkeypatch: pytest.MonkeyPatch, where: str, error: Exception | None) -> None:
    async def main() -> None:
        deaf = Deaf(error)

        async def answer(session: Any, step: object) -> None:
            if where == "a step":
                await deaf.wait()
            else:
                await session._stack.enter_async_context(deaf)

        monkeypatch.setattr("howdah.db.database.AsyncSession.answer", answer)
        async with asyncio.timeout(60):
            task = asyncio.create_task(Database("dbname=nothing", "howdah", pool_size=1, timeout=1).arun(pausing()))
            await deaf.waits.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(main())
