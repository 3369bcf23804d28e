"""The table jobs as ORMs see it: a class for each of its rows, in SQLAlchemy and in Django."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
import sqlalchemy as sa
from django.conf import settings  # type: ignore[import-untyped]
from django.db import connections, models  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.orm.attributes import flag_modified

import django  # type: ignore[import-untyped]


class Base(DeclarativeBase):
    metadata = sa.MetaData(schema="howdah")


class AlchemyJob(Base):
    __tablename__ = "jobs"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, server_default=sa.FetchedValue())
    job_type: Mapped[str]
    priority: Mapped[int] = mapped_column(server_default=sa.FetchedValue())
    status: Mapped[str] = mapped_column(default="pending")
    data: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    progress: Mapped[int | None] = mapped_column(default=0)
    current_stage: Mapped[str | None]
    events_count: Mapped[int | None] = mapped_column(default=0)
    worker_id: Mapped[str | None]
    claimed_at: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True))
    created_at: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True), server_default=sa.FetchedValue())
    started_at: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True))
    completed_at: Mapped[datetime | None] = mapped_column(sa.DateTime(timezone=True))
    attempts: Mapped[int] = mapped_column(default=0)
    max_attempts: Mapped[int] = mapped_column(server_default=sa.FetchedValue())
    last_error: Mapped[str | None]


@contextmanager
def alchemy(dsn: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn), poolclass=sa.NullPool)
    try:
        yield engine
    finally:
        engine.dispose()


if not settings.configured:
    settings.configure(USE_TZ=True, DATABASES={}, INSTALLED_APPS=[])
    django.setup()


class DjangoJob(models.Model):  # type: ignore[misc]
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    job_type = models.CharField(max_length=50)
    priority = models.IntegerField(default=100)
    status = models.CharField(max_length=20, default="pending")
    data = models.JSONField(default=dict)
    progress = models.IntegerField(null=True, default=0)
    current_stage = models.CharField(max_length=100, null=True)
    events_count = models.IntegerField(null=True, default=0)
    worker_id = models.CharField(max_length=100, null=True)
    claimed_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    attempts = models.IntegerField(null=True, default=0)
    max_attempts = models.IntegerField(null=True, default=3)
    last_error = models.TextField(null=True)

    class Meta:
        app_label = "plain"
        managed = False
        db_table = '"howdah"."jobs"'


@contextmanager
def django_database(dsn: str) -> Iterator[str]:
    """The alias for Django: DjangoJob.objects.using(alias). Each thread has its own connections."""
    alias = f"plain-{uuid.uuid4()}"
    options = conninfo_to_dict(dsn)
    connections.databases[alias] = connections.configure_settings(
        {
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": options.pop("dbname"),
                "OPTIONS": {**options, "options": "-c search_path=howdah"},
            }
        }
    )["default"]
    try:
        yield alias
    finally:
        connections[alias].close()
        del connections[alias]
        del connections.databases[alias]


def _by_alchemy_core(dsn: str, job_id: uuid.UUID, error: str) -> int:
    jobs = AlchemyJob.__table__
    with alchemy(dsn) as engine, engine.begin() as conn:
        failure = sa.update(jobs).where(jobs.c.id == job_id).values(  # type: ignore[arg-type]
            status=sa.case((jobs.c.attempts >= jobs.c.max_attempts, "failed"), else_="pending"),
            last_error=error, worker_id=None, claimed_at=None,
        )  # fmt: skip
        return conn.execute(failure).rowcount


def _by_alchemy_update(dsn: str, job_id: uuid.UUID, error: str) -> int:
    failure = (
        sa.update(AlchemyJob)
        .where(AlchemyJob.id == job_id)
        .values(status="pending", last_error=error, worker_id=None, claimed_at=None)
        .returning(AlchemyJob.id)
    )
    with alchemy(dsn) as engine, Session(engine) as session, session.begin():
        return len(session.execute(failure).all())


def _by_alchemy_attributes(dsn: str, job_id: uuid.UUID, error: str) -> int:
    with alchemy(dsn) as engine, Session(engine) as session, session.begin():
        job = session.get_one(AlchemyJob, job_id)
        job.status, job.last_error, job.worker_id, job.claimed_at = "pending", error, None, None
        # By itself, it would not send what is as it was.
        flag_modified(job, "last_error")
    return 1


def _by_django_update(dsn: str, job_id: uuid.UUID, error: str) -> int:
    with django_database(dsn) as alias:
        status = models.Case(
            models.When(attempts__gte=models.F("max_attempts"), then=models.Value("failed")),
            default=models.Value("pending"),
        )
        jobs = DjangoJob.objects.using(alias).filter(pk=job_id)
        return int(jobs.update(status=status, last_error=error, worker_id=None, claimed_at=None))


def _by_django_save(dsn: str, job_id: uuid.UUID, error: str, **how: Any) -> int:
    with django_database(dsn) as alias:
        job = DjangoJob.objects.using(alias).get(pk=job_id)
        job.status, job.last_error, job.worker_id, job.claimed_at = "pending", error, None, None
        job.save(**how)
    return 1


def _by_django_save_of_some_columns(dsn: str, job_id: uuid.UUID, error: str) -> int:
    return _by_django_save(dsn, job_id, error, update_fields=["status", "last_error", "worker_id", "claimed_at"])


def _by_django_bulk_update(dsn: str, job_id: uuid.UUID, error: str) -> int:
    with django_database(dsn) as alias:
        jobs = DjangoJob.objects.using(alias)
        job = jobs.get(pk=job_id)
        job.status, job.last_error, job.worker_id, job.claimed_at = "pending", error, None, None
        return int(jobs.bulk_update([job], ["status", "last_error", "worker_id", "claimed_at"]))


FAILS: dict[str, Callable[[str, uuid.UUID, str], int]] = {
    "SQLAlchemy Core": _by_alchemy_core,
    "SQLAlchemy ORM, update()": _by_alchemy_update,
    "SQLAlchemy ORM, attributes": _by_alchemy_attributes,
    "Django, update()": _by_django_update,
    "Django, save()": _by_django_save,
    "Django, save(update_fields)": _by_django_save_of_some_columns,
    "Django, bulk_update()": _by_django_bulk_update,
}
"""Fails by ORMs: each ends the attempt of a job with an error, and returns how many rows it changed."""
