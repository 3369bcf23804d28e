"""Lazy claims: a claim that a crash of the server undoes is not followed by one with the same token."""

from __future__ import annotations

import psycopg
import pytest

from howdah import JobQueue
from tests import servers
from tests.conftest import Db
from tests.worker.durable_server import DurableServer
from tests.worker.in_process import drain

CLAIM = "SELECT id, token FROM howdah.claim('one', '{work}', 1, 1, p_lazily => %s)"
COMPLETE = "SELECT * FROM howdah.complete(ARRAY[%s], ARRAY[%s])"


@pytest.mark.parametrize("lazily", [True, False])
def test_a_claim_that_a_crash_undoes_cannot_end_the_job(lazily: bool) -> None:
    binaries = servers.find(servers.MAJORS[0])
    assert binaries is not None
    # Nothing but a durable commit writes to the disk in time.
    with DurableServer(binaries, {"wal_writer_delay": "10s", "wal_writer_flush_after": "1GB"}) as server:
        with JobQueue(server.dsn) as queue:
            queue.migrate()
            job = queue.enqueue("work")
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            id, token = conn.execute(CLAIM, (lazily,)).fetchall()[0]
        server.halt("immediate")
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as conn, JobQueue(server.dsn) as queue:
            ended = conn.execute(COMPLETE, (id, token)).fetchall()
            if not lazily:
                assert ended == [(job.id,)]
                return
            assert queue.get(job).status == "pending", "the claim was not on the disk"
            assert not ended
            id, later = conn.execute(CLAIM, (lazily,)).fetchall()[0]
            assert later != token
            assert not conn.execute(COMPLETE, (id, token)).fetchall()
            assert conn.execute(COMPLETE, (id, later)).fetchall() == [(job.id,)]


NOTE_SETTING = """
    CREATE TABLE public.setting_of_claims (setting text);
    CREATE FUNCTION public.note_setting() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.setting_of_claims VALUES (current_setting('synchronous_commit'));
        RETURN NEW;
    END $$;
    CREATE TRIGGER note_setting BEFORE UPDATE ON howdah.live FOR EACH ROW
        WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION public.note_setting()
"""


@pytest.mark.parametrize(("lazily", "setting"), [(True, "off"), (False, "on")])
def test_a_worker_claims_lazily_if_the_option_is_set(lazily: bool, setting: str, queue: JobQueue, db: Db) -> None:
    @queue.job
    async def work() -> None: ...

    queue.enqueue("work")
    db.execute(NOTE_SETTING)
    try:
        drain(queue, lazy_claims=lazily)
        seen = db.execute("SELECT setting FROM public.setting_of_claims").fetchall()
    finally:
        db.execute("DROP FUNCTION public.note_setting CASCADE; DROP TABLE public.setting_of_claims")
    assert seen == [{"setting": setting}]
