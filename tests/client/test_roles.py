"""What the verbs answer to logins that may do a part of everything."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from howdah import DuplicateJob, JobQueue, NotPermitted, Unique
from howdah.verbs.produce import BULK_SIZE
from tests.cli.runner import howdah
from tests.tcp_proxy import TcpProxy
from tests.tenant import Tenant

ADDS = pytest.mark.parametrize("role", ["producer", "worker"])
SECRET = "s3cret"


@pytest.fixture(scope="module")
def tenant(server_dsn: str) -> Iterator[Tenant]:
    with Tenant(server_dsn, "client_roles") as tenant:
        yield tenant


@pytest.fixture
def owner(tenant: Tenant) -> Iterator[JobQueue]:
    for table in ("live", "archive"):
        tenant.admin.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(tenant.schema, table)))
    with JobQueue(tenant.admin_dsn, tenant.schema) as owner:
        yield owner


@ADDS
def test_unique_jobs_need_no_right_to_read(tenant: Tenant, owner: JobQueue, role: str) -> None:
    there = owner.enqueue("mail", {"n": 1, "to": SECRET}, unique=("n",), priority=7)
    with tenant.queue(role) as queue:
        found = queue.enqueue("mail", {"n": 1}, unique=("n",))
        assert (found.id, found.created, found.conflict, found.priority) == (there.id, False, "kept", 7)
        assert (found.status, found.data) == ("[redacted]", "[redacted]")
        assert queue.enqueue_many("mail", [{"n": 1}, {"n": 2}], unique=("n",)) == 1
        with pytest.raises(DuplicateJob) as refused:
            queue.enqueue("mail", {"n": 2}, unique=Unique(by=("n",), conflict="raise"))
        assert refused.value.job_id is not None


@ADDS
def test_a_role_that_may_not_read_gets_the_id_of_the_job_with_the_key_but_no_values(
    tenant: Tenant, owner: JobQueue, role: str
) -> None:
    there = owner.enqueue("mail", {"to": SECRET}, key="k", priority=7, meta={"trace": SECRET})
    (held,) = owner.claim(["mail"])
    owner.start(held)
    with tenant.queue(role) as queue:
        found = queue.enqueue("mail", {"mine": 1}, key="k")
        assert found == asyncio.run(queue.aenqueue("mail", {"mine": 1}, key="k"))
        assert (found.id, found.created) == (there.id, False)
        assert (found.job_type, found.key, found.priority) == ("mail", "k", 7)
        assert (found.status, found.data, found.ended) == ("[redacted]", "[redacted]", False)
        assert SECRET not in repr([getattr(found, name) for name in found.__slots__])
        with pytest.raises(NotPermitted, match="client_roles_viewer or client_roles_operator"):
            found.wait_for(timeout=60)
    said = howdah("enqueue", "mail", "--key", "k", "--schema", tenant.schema, dsn=tenant.dsn(role))
    assert (said.code, said.out.strip()) == (0, str(there.id))
    assert said.err.strip().endswith("has the key 'k' already")


@ADDS
def test_a_repeated_id_returns_the_job_to_a_role_that_may_not_read(tenant: Tenant, owner: JobQueue, role: str) -> None:
    mine = uuid.uuid4()
    with tenant.queue(role) as queue:
        assert queue.enqueue("mail", {"n": 1}, id=mine).created
        for _ in range(2):
            again = queue.enqueue("mail", {"n": 1}, id=mine)
            assert (again.id, again.created) == (mine, False)
            owner.cancel(mine)


@ADDS
def test_a_duplicate_leaves_the_callers_transaction_alone(tenant: Tenant, owner: JobQueue, role: str) -> None:
    owner.enqueue("mail", key="k")
    with tenant.queue(role) as queue, psycopg.connect(tenant.dsn(role)) as conn:
        assert not queue.enqueue("mail", key="k", conn=conn).created
        mine = queue.enqueue("mail", conn=conn)
    assert owner.get(mine).status == "pending"


@ADDS
def test_handlers_and_bulks_add_what_is_not_there_yet(tenant: Tenant, owner: JobQueue, role: str) -> None:
    there = owner.enqueue("mail", {"n": 1}, key="1")
    with tenant.queue(role) as queue:

        @queue.job
        async def mail(n: int) -> None: ...

        found = mail.using(key="1").enqueue(n=1)
        assert (found.id, found.created) == (there.id, False)
        assert mail.enqueue(n=0).created
        items = [{"n": n} for n in range(BULK_SIZE + 1)]
        assert queue.enqueue_many("mail", items, key=lambda item: str(item["n"])) == BULK_SIZE
        assert asyncio.run(queue.aenqueue_many("mail", [{"n": 1}, {"n": -1}], key=lambda item: str(item["n"]))) == 1


@ADDS
@pytest.mark.parametrize("awaits", [False, True], ids=["sync", "async"])
def test_an_enqueue_whose_reply_is_lost_returns_the_job_to_a_role_that_may_not_read(
    tenant: Tenant, owner: JobQueue, role: str, awaits: bool
) -> None:
    with closing(proxy_of(tenant)) as proxy:
        dsn = make_conninfo(tenant.dsn(role), host="127.0.0.1", port=proxy.port, sslmode="disable")

        async def awaited(**options: Any) -> Any:
            async with JobQueue(dsn, tenant.schema) as queue:
                return await queue.aenqueue("mail", {"n": 1}, **options)

        with JobQueue(dsn, tenant.schema) as queue:
            for key in (None, "k"):
                proxy.lose_the_answer_to(b'."enqueue"(')
                job = asyncio.run(awaited(key=key)) if awaits else queue.enqueue("mail", {"n": 1}, key=key)
                assert (job.created, job.status, job.data, job.key) == (True, "pending", {"n": 1}, key)
                assert owner.get(job).data == {"n": 1}
        assert proxy.answers_lost == 2
    assert len(owner.list()) == 2


def proxy_of(tenant: Tenant) -> TcpProxy:
    host, port = tenant.admin.info.host, tenant.admin.info.port
    return TcpProxy(Path(host) / f".s.PGSQL.{port}") if host.startswith("/") else TcpProxy(host, port)


def test_a_role_that_may_see_jobs_too_gets_what_it_may_see(tenant: Tenant, owner: JobQueue) -> None:
    there = owner.enqueue("mail", {"to": SECRET}, key="k")
    viewer, login = f"{tenant.schema}_viewer", tenant.login("producer")
    tenant.execute("GRANT {} TO {}", viewer, login)
    try:
        with tenant.queue("producer") as queue:
            found = queue.enqueue("mail", key="k")
            assert (found.id, found.created, found.status, found.data) == (there.id, False, "pending", "[redacted]")
    finally:
        tenant.execute("REVOKE {} FROM {}", viewer, login)
    with tenant.queue("owner") as queue:
        assert queue.enqueue("mail", key="k").data == {"to": SECRET}


@pytest.mark.parametrize(
    ("role", "verb", "enough"),
    [
        ("viewer", "enqueue", "needs the role client_roles_producer or client_roles_worker"),
        ("producer", "claim", "needs the role client_roles_worker,"),
        ("producer", "stats", "needs the role client_roles_viewer or client_roles_operator"),
        ("worker", "pause", "needs the role client_roles_operator,"),
        ("viewer", "prune", "needs the role client_roles_worker or client_roles_operator"),
        ("nobody", "stats", "one of the roles that howdah migrate --schema client_roles --roles creates"),
    ],
)
def test_a_refusal_names_the_roles_that_would_do(tenant: Tenant, role: str, verb: str, enough: str) -> None:
    arguments: dict[str, list[Any]] = {"enqueue": ["mail"], "claim": [["mail"]], "pause": ["mail"]}
    with tenant.queue(role) as queue, pytest.raises(NotPermitted, match=enough) as refused:
        getattr(queue, verb)(*arguments.get(verb, []))
    assert "howdah migrate --schema client_roles --roles" in str(refused.value)
