"""Handlers of as many types as the surroundings say."""

from __future__ import annotations

import os

from howdah import JobQueue

queue = JobQueue()


async def nothing(n: str = "") -> None:
    pass


for number in range(int(os.environ["MANY_TYPES"])):
    queue.job(name=f"many {number}")(nothing)
