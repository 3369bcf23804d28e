"""Nothing that others wrote reaches the terminal as a command, or the screen as markup."""

from __future__ import annotations

import asyncio

from howdah import JobQueue
from tests.cli.runner import howdah
from tests.cli.test_health import register
from tests.cli.test_terminal_escape import HOSTILE, dangers
from tests.cli.top.screen import opened
from tests.conftest import Db

MARKUP = "[bold red]alarm[/] [@click=app.bell]x[/] $accent"
WIDE = "漢字テスト🙂 e\u0301"
TYPE = "\u202e[bold]x[/bold] 漢\u2066\u2028"


def hostile_queue(queue: JobQueue, db: Db) -> None:
    for text in (HOSTILE, MARKUP, WIDE):
        register(db, text[:100], host=text)
        queue.enqueue(TYPE, {text: [text]})
        (job,) = queue.claim([TYPE], worker_id="loop")
        queue.start(job)
        queue.event(job, MARKUP, {"said": text})
        queue.progress(job, 50)
        # Past the client, which would refuse some of it.
        db.execute(
            "UPDATE live SET current_stage = left(%s, 100), worker_id = left(%s, 100), own_write = NOT own_write",
            (text, text),
        )
        queue.fail(job, text)
    db.execute("UPDATE workers SET job_types = ARRAY[%s]", (TYPE,))
    db.execute(
        "UPDATE live SET status = 'running', started_at = now(), current_stage = %s, own_write = NOT own_write",
        (HOSTILE,),
    )


def test_no_text_is_a_command_or_markup(queue: JobQueue, db: Db) -> None:
    hostile_queue(queue, db)

    async def look() -> None:
        async with opened(queue, size=(250, 60)) as seen:
            await seen.until(lambda: len(seen.table("jobs")) == 3, "the jobs")
            assert not dangers(seen.text)
            assert MARKUP in seen.text
            assert WIDE in seen.text
            assert "\\u202e[bold]x[/bold] 漢\\u2066\\u2028" in seen.text
            assert "\\x1b]0;owned" in seen.text
            await seen.press("p")
            await seen.until_seen("Pause \\u202e[bold]x[/bold]")
            await seen.press("y")
            await seen.until(lambda: "is paused" in seen.status, "the outcome")
            assert not dangers(seen.text)
            await seen.press("enter")
            await seen.until_seen("/\\u202e[bold]x[/bold]")
            await seen.press("slash")
            assert not dangers(seen.text)
            await seen.press("enter")
            for _ in range(3):
                await seen.press("enter")
                await seen.until_seen("last events", MARKUP)
                assert not dangers(seen.text)
                await seen.press("escape", "down")

    asyncio.run(look())


def test_nor_in_a_pipe(dsn: str, queue: JobQueue, db: Db) -> None:
    hostile_queue(queue, db)
    plain, in_json = howdah("top", dsn=dsn), howdah("top", "--json", dsn=dsn)
    assert (plain.code, in_json.code) == (0, 0)
    assert not dangers(plain.out)
    assert in_json.out.isascii()
    assert TYPE in in_json.lines[0]["types"]


def test_a_password_is_nowhere(dsn: str, queue: JobQueue) -> None:
    for given in (f"{dsn} password=s3cret", dsn.replace(" ", "  ") + " password='s3 cret'"):
        outcome = howdah("top", "--dsn", given)
        assert (outcome.code, outcome.err) == (0, "")
        assert "s3" not in outcome.out
        assert "/postgres  schema howdah" in outcome.out
