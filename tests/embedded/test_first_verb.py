"""The first verb on an embedded server that nothing has migrated, on connections of every driver."""

from __future__ import annotations

import os
import subprocess
import sys

from .clients import MYSELF, Project

FIRST_VERBS = """
import asyncio
import asyncpg, psycopg
from sqlalchemy.ext.asyncio import create_async_engine
from howdah import JobQueue

queue, shop, books, news = JobQueue(), JobQueue(schema="shop"), JobQueue(schema="books"), JobQueue(schema="news")
with psycopg.connect(queue.dsn) as conn:
    queue.enqueue("a", conn=conn)
    shop.enqueue("b", conn=conn)

async def main():
    conn = await asyncpg.connect(queue.dsn)
    await books.aenqueue("c", conn=conn)
    await conn.close()
    engine = create_async_engine(queue.dsn.replace("postgresql://", "postgresql+asyncpg://"))
    async with engine.begin() as conn:
        await news.aenqueue("d", conn=conn)
    await engine.dispose()

asyncio.run(main())
print(*(type for each in (queue, shop, books, news) for type in each.stats()))
"""


def test_the_first_verb_may_be_on_a_connection_of_the_callers_and_in_any_schema(project: Project) -> None:
    unset = {name: value for name, value in os.environ.items() if name not in ("HOWDAH_DSN", "DATABASE_URL")}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_VERBS],
        capture_output=True,
        text=True,
        cwd=project.folder,
        env=unset | MYSELF.environment,
        timeout=180,
        check=False,
    )
    assert done.stdout.split() == ["a", "b", "c", "d"], done.stderr
    told = [line.removeprefix("howdah: ") for line in done.stderr.splitlines()]
    assert told == [
        f"no HOWDAH_DSN or DATABASE_URL set, so the jobs are in an embedded PostgreSQL 18 under {project.home}/",
        *(f"installed the schema {name} in the embedded PostgreSQL" for name in ("shop", "books", "news")),
    ]
