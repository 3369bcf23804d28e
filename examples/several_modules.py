"""Handlers in several modules of a package (depot/), without import cycles, and a second queue in the same app.

In production, workers are processes of their own. In this folder:

    howdah work depot:queue
    howdah work depot:audit
"""

from __future__ import annotations

import asyncio

import psycopg
from depot import audit, queue
from depot.reports.daily import draw
from psycopg import sql


async def main() -> None:
    await audit.amigrate()
    async with queue, audit:
        await draw.aenqueue(day="Monday")
        # A worker imports the modules that its queue lists.
        await queue.run_worker(drain=True)
        print(f"types of the queue: {', '.join(sorted(queue.handlers))}")
        await audit.run_worker(drain=True)
        print(f"types of the audit: {', '.join(sorted(audit.handlers))}")
    with psycopg.connect(queue.dsn) as conn:
        conn.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(audit.schema)))


if __name__ == "__main__":
    asyncio.run(main())
