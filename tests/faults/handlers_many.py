"""Handlers of as many types as the environment variable asks for."""

from __future__ import annotations

import os

from howdah import JobQueue

queue = JobQueue()


async def nothing(n: str = "") -> None:
    pass


for number in range(int(os.environ["MANY_TYPES"])):
    queue.job(name=f"many {number}")(nothing)
