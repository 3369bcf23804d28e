"""HowdahBackend: Django's tasks as jobs.

The job type is the Django queue, and the task's path is in the job's ``meta``: paths can be longer than a job type, and
``using(queue_name=…)`` moves single calls. Jobs are added through Django's own connection, so they are part of its transaction.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from asgiref.sync import sync_to_async
from django.core import mail
from django.core.checks import CheckMessage
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone
from django.utils.module_loading import import_string
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo

from howdah.config import DEFAULT_SCHEMA
from howdah.django import checks, registry, run
from howdah.django.framework import (
    BaseTaskBackend,
    Task,
    TaskResult,
    TaskResultDoesNotExist,
    task_enqueued,
)
from howdah.django.results import PRIORITY, task_of, task_result
from howdah.django.task import HowdahTask, Keys, check_options, enqueue_options, stored_arguments, stored_options
from howdah.errors import InvalidInput, InvalidOption, JobNotFound
from howdah.model.job import Job
from howdah.model.results import EnqueuedCount
from howdah.queue import JobQueue
from howdah.worker import Worker

OPTIONS: Final = ("database", "schema", "queues", "modules", "codec", "max_payload_bytes")
QUEUE_OPTIONS: Final = (
    "max_attempts",
    "retry",
    "timeout",
    "expires_in",
    "concurrency",
    "limit",
    "rate",
    "cost",
    "groups",
    "ordered",
    "order",
    "per",
    "max_pending",
    "when_full",
    "pause_on_failure",
    "max_crashes",
    "log_level",
    "max_events",
    "fail_stalled",
)

_queues: dict[tuple[Any, ...], JobQueue] = {}
"""The queues of this process. There is a backend for each thread, and one pool for all of them."""
_lock = threading.Lock()


class HowdahBackend(BaseTaskBackend):
    """A backend for Django's tasks. Its OPTIONS, all of them optional:

    database: the alias of the database with the jobs, ``"default"`` if not given. schema: ``"howdah"`` if not given.
    queues: options for single Django queues, such as ``{"mail": {"limit": 5, "rate": "10/s"}}``: those of ``JobQueue.job`` that are
        about a job type. ``per``: True: limits, rates and order are for each flow key.
    modules: modules with tasks, beside the module ``tasks`` of each app.
    codec: a Codec, or the path of one. max_payload_bytes: larger arguments and results are refused.
    """

    task_class: ClassVar = HowdahTask
    supports_defer: ClassVar = True
    supports_async_task: ClassVar = True
    supports_get_result: ClassVar = True
    supports_priority: ClassVar = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        self.database: str = self.options.get("database", DEFAULT_DB_ALIAS)
        self.schema: str = self.options.get("schema", DEFAULT_SCHEMA)

    def validate_task(self, task: Task) -> None:
        super().validate_task(task)
        if isinstance(task, HowdahTask):
            check_options(task)
        registry.add(task)

    # Producers

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Adds a job, in the transaction of the ORM on the backend's database."""
        self.validate_task(task)
        args, kwargs, keys = *stored_arguments(task, args, kwargs), Keys(task)
        job = self.queue.enqueue(
            task.queue_name,
            {"args": args, "kwargs": kwargs},
            key=keys.key(args, kwargs),
            per=keys.flow_key(args, kwargs) if keys.has_flow_key else None,
            conn=self._connection(),
            **self._shared(task),
        )
        result = task_result(self, task, job)
        if job.created:
            task_enqueued.send(type(self), task_result=result)
        return result

    def enqueue_many(
        self,
        task: Task,
        items: Iterable[Mapping[str, Any]],
        *,
        chunk_size: int | None = None,
        return_ids: bool = False,
    ) -> EnqueuedCount:
        """Adds a job for each mapping of keyword arguments. See ``HowdahTask.enqueue_many``."""
        self.validate_task(task)
        keys = Keys(task)
        return self.queue.enqueue_many(
            task.queue_name,
            ({"args": [], "kwargs": stored_arguments(task, (), item)[1]} for item in items),
            key=(lambda item: keys.key((), item["kwargs"]) or "") if keys.has_key else None,
            per=(lambda item: keys.flow_key((), item["kwargs"])) if keys.has_flow_key else None,
            chunk_size=chunk_size,
            return_ids=return_ids,
            conn=self._connection(),
            **self._shared(task),
        )

    def _shared(self, task: Task) -> dict[str, Any]:
        """The options of a task's jobs that do not depend on their arguments."""
        return {
            "priority": PRIORITY + int(task.priority),
            "run_at": _aware(task.run_after),
            "meta": {"task": task.module_path},
            **enqueue_options(task),
        }

    # Results

    def get_result(self, result_id: str) -> TaskResult:
        """The result as it is now. Raises TaskResultDoesNotExist."""
        job = self.get_job(result_id)
        task = task_of(job)
        if task is None or not isinstance(job.data, dict):
            raise TaskResultDoesNotExist(f"{result_id}: not a job of a task that this process knows")
        return task_result(self, task, job)

    def get_job(self, result_id: str) -> Job:
        """The job behind a result, with its progress. Raises TaskResultDoesNotExist."""
        try:
            return self.queue.get(result_id, conn=self._connection())
        except (JobNotFound, InvalidInput) as error:
            raise TaskResultDoesNotExist(str(error)) from error

    async def aget_job(self, result_id: str) -> Job:
        """``get_job``, awaited."""
        return await sync_to_async(self.get_job, thread_sensitive=True)(result_id)

    def check(self, **kwargs: Any) -> Iterable[CheckMessage]:
        yield from super().check(**kwargs)
        yield from checks.of_backend(self)

    # The queue

    @property
    def queue(self) -> JobQueue:
        """The queue of this process, with a handler for each Django queue. Its verbs take ``conn="default"``, too."""
        name = connections[self.database].settings_dict["NAME"]
        wanted = (self.alias, self.database, name, self.schema)
        found = _queues.get(wanted)
        if found is None:
            with _lock:
                found = _queues.get(wanted)
                if found is None:
                    found = _queues[wanted] = self._make_queue()
        return found

    def close(self) -> None:
        """Closes the connections that the queue of this process has beside Django's. The next use opens them again."""
        for wanted in [each for each in _queues if each[0] == self.alias]:
            _queues.pop(wanted).close()

    def _make_queue(self) -> JobQueue:
        if unknown := self.options.keys() - set(OPTIONS):
            raise InvalidOption(f"OPTIONS has {_listed(unknown)}; there are {_listed(OPTIONS)}")
        codec = self.options.get("codec")
        settings = {name: self.options[name] for name in ("max_payload_bytes",) if name in self.options}
        queue = JobQueue(
            _dsn_of(connections[self.database]),
            self.schema,
            codec=import_string(codec) if isinstance(codec, str) else codec,
            lifespan=run.lifespan,
            **settings,
        )
        # The end of a test run drops the database, which fails while anything is connected to it. Only test runs have an outbox.
        queue._database.keeps_connections = not hasattr(mail, "outbox")
        for_queues = self.options.get("queues", {})
        if self.queues and (unknown := for_queues.keys() - self.queues):
            raise InvalidOption(f"OPTIONS has queues {_listed(unknown)}; QUEUES has {_listed(self.queues)}")
        for name in sorted(self.queues | for_queues.keys()):
            self.add_handler(queue, name)
        return queue

    def add_handler(self, queue: JobQueue, name: str) -> None:
        """Registers the handler of a Django queue."""
        given = dict(self.options.get("queues", {}).get(name, {}))
        if unknown := given.keys() - set(QUEUE_OPTIONS):
            raise InvalidOption(
                f"the queue {name!r} has the options {_listed(unknown)}; there are {_listed(QUEUE_OPTIONS)}"
            )
        if "per" in given:
            # The key comes with each job. What has none shares one.
            given["per"] = (lambda _: "") if given["per"] else None
        queue.job(name=name, **given)(run.handler(self.alias))

    def worker(self, *, queues: Sequence[str] | None = None, **options: Any) -> Worker:
        """A worker for the tasks of this backend, or of some of its Django queues. The options are those of ``JobQueue.worker``."""
        queue = self.queue
        for name in queues or ():
            if self.queues and name not in self.queues:
                raise InvalidOption(f"QUEUES has no queue {name!r}; it has {_listed(self.queues)}")
            if name not in queue.handlers:
                self.add_handler(queue, name)
        if not queue.handlers:
            raise InvalidOption("QUEUES is empty, so any name is a queue: name those that the worker is for")
        schedules = self.schedules()
        queue._periodic[:] = [{**each, "handler": queue.handlers[each["job_type"]]} for each in schedules]
        return queue.worker(types=queues, **options)

    def schedules(self) -> list[dict[str, Any]]:
        """The schedules that are in the code, as arguments of ``JobQueue.schedules.set``."""
        return [
            {
                "name": each["name"],
                "job_type": each["task"].queue_name,
                # A schedule has no meta.
                "data": {"task": each["task"].module_path, "args": [], "kwargs": each["arguments"]},
                "priority": PRIORITY + int(each["task"].priority),
                **{name: each[name] for name in ("cron", "every", "timezone", "missed", "overlap")},
                **stored_options(each["task"]),
            }
            for each in registry.schedules(self.alias)
        ]

    def _connection(self) -> Any:
        return connections[self.database]


def forget_queues(*, setting: str, **_: Any) -> None:
    """Other settings mean other queues: those of a test, for example."""
    if setting in ("TASKS", "DATABASES"):
        while _queues:
            _queues.popitem()[1].close()


def _dsn_of(connection: Any) -> str:
    """The DSN of a connection of Django, with its role. What only Django's driver knows is left out."""
    known = {option.keyword.decode() for option in Conninfo.get_defaults()}
    given = connection.get_connection_params()
    if role := connection.settings_dict.get("OPTIONS", {}).get("assume_role"):
        quoted = role.replace("\\", "\\\\").replace(" ", "\\ ")
        given["options"] = f"{given.get('options') or ''} -c role={quoted}".strip()
    return make_conninfo(**{name: str(value) for name, value in given.items() if name in known and value is not None})


def _aware(run_after: datetime | None) -> datetime | None:
    return timezone.make_aware(run_after) if run_after is not None and timezone.is_naive(run_after) else run_after


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
