"""An encrypted queue, as a reader of the whole database and of all logs sees it."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg import sql

from howdah import JobQueue
from howdah.encryption import ENVIRONMENT, EncryptedCodec, new_key
from tests.cli.runner import howdah
from tests.conftest import Db
from tests.security import canary
from tests.security.canary import CANARY
from tests.security.working import without_own_words, work

KEY = new_key()
IN_CLEAR = ["job_type", "key", "meta", "current_stage", "name", "worker_id"]
"""What stays readable by design, as listed in docs/how-to/encryption.md."""


def cells(db: Db) -> dict[str, str]:
    """Everything that is stored: each column of each table, as text."""
    columns = db.execute(
        "SELECT c.relname AS relation, a.attname AS name FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid"
        " WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped"
    ).fetchall()
    found = {}
    for column in columns:
        query = sql.SQL("SELECT string_agg({}::text, ' ') AS text FROM howdah.{}").format(
            sql.Identifier(column["name"]), sql.Identifier(column["relation"])
        )
        row = db.execute(query).fetchone()
        assert row is not None
        found[f"{column['relation']}.{column['name']}"] = row["text"] or ""
    return found


@pytest.fixture
def sealed(dsn: str) -> JobQueue:
    return JobQueue(dsn, codec=EncryptedCodec(KEY))


def test_no_value_is_in_clear_in_any_column_nor_in_any_log(dsn: str, sealed: JobQueue, db: Db) -> None:
    secret = {"secret": CANARY}
    with sealed:
        jobs = [
            sealed.enqueue(name, secret, max_attempts=2 if name == "tries_again" else 1)
            for name in sorted(canary.queue.handlers)
        ]
        later = sealed.enqueue("later", secret)
        sealed.cancel(later, f"because of {CANARY}")
        sealed.schedules.set("often", "scheduled", secret, every=3600)
        sealed.schedules.run("often")
        sealed.enqueue_many("bulk", [secret, CANARY])
        done = work("tests.security.canary", dsn, "--drain", "--log-level", "debug", **{ENVIRONMENT: KEY})
        assert done.code == 0, done.err
        ended = [sealed.get(job) for job in jobs]
        assert {job.status for job in ended} == {"completed", "failed", "cancelled"}
        by_type = {job.job_type: job for job in ended}
        for name in ("on_the_loop", "in_a_thread", "in_a_child"):
            assert by_type[name].result == by_type[name].resumed == secret, by_type[name].last_error
            assert CANARY in str(sealed.events(by_type[name])[0].data)
        for name in ("fails_on_the_loop", "fails_in_a_thread", "fails_in_a_child"):
            assert CANARY in (by_type[name].errors[0].traceback or "")
        assert "worker died once" in (by_type["dies"].last_error or "")

    stored = cells(db)
    assert len(stored) > 100
    assert not [name for name, text in stored.items() if CANARY in text]
    assert "sealed" in stored["archive.data"]
    assert "sealed" in stored["schedules.data"]
    assert "sealed" in stored["events.data"]
    assert CANARY not in without_own_words(done)
    assert CANARY in done.err, "what a handler logs is its own, and is there to be found"


def test_what_stays_in_clear_matches_the_page(sealed: JobQueue, db: Db) -> None:
    page = (Path(__file__).parents[2] / "docs/how-to/encryption.md").read_text(encoding="utf-8")
    with sealed:
        sealed.enqueue(f"type {CANARY}", key=f"key {CANARY}", meta={"tag": CANARY})
        (job,) = sealed.claim([f"type {CANARY}"], worker_id=f"worker {CANARY}")
        sealed.progress(job, 10, f"stage {CANARY}")
        sealed.event(job, f"name {CANARY}")
        sealed.schedules.set(f"schedule {CANARY}", "scheduled", every=3600)
        sealed.pause("scheduled", f"because of {CANARY}")
    clear = {name.partition(".")[2] for name, text in cells(db).items() if CANARY in text}
    assert clear == {*IN_CLEAR, "paused_because"}
    for name in clear:
        assert f"`{name}`" in page


def test_the_command_writes_nothing_in_clear_either(dsn: str, db: Db) -> None:
    keys = {ENVIRONMENT: KEY}
    data = f'{{"secret": "{CANARY}"}}'
    added = howdah("enqueue", "work", data, dsn=dsn, **keys)
    assert howdah("enqueue", "work", "-", "--many", dsn=dsn, stdin=f"{data}\n{data}\n", **keys).code == 0
    assert howdah("schedule", "add", "often", "work", data, "--every", "1h", dsn=dsn, **keys).code == 0
    assert howdah("cancel", added.out.strip(), "--reason", CANARY, dsn=dsn, **keys).code == 0
    assert not [name for name, text in cells(db).items() if CANARY in text]
