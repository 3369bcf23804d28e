"""Tasks with options of Howdah.

``HowdahTask`` is the backend's ``task_class``. Since 6.1, and in the backport, Django's own ``@task`` passes further options on to it.
Django 6.0 does not: the ``task`` of this module does, everywhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from asgiref.sync import sync_to_async
from django.conf import settings

from howdah.checks import options
from howdah.checks.options import Seconds, unknown
from howdah.django import framework, registry
from howdah.errors import InvalidInput, InvalidOption
from howdah.handlers.handler import MEANT
from howdah.handlers.retry import AnyPolicy, as_data, attempts_of, retries
from howdah.handlers.unique import Rule, Unique, UniqueOption, digest, unique_rule
from howdah.model.job import Job
from howdah.model.results import EnqueuedCount
from howdah.model.schedule import Missed
from howdah.verbs import cron as rhythms
from howdah.verbs.schedules import MAX_NAME_LENGTH

ByArguments: TypeAlias = "Callable[[Mapping[str, Any]], str | int]"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext(framework.TaskContext):
    """What a task with ``takes_context=True`` gets first: Django's context, and the job.

    ``context.job`` reports progress, records events, stores checkpoints, and completes itself in a transaction.
    """

    job: Job


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HowdahTask(framework.Task):
    """A task with options of Howdah, each of which travels with every job.

    timeout: how long one attempt may run. expires_in: how long after it is due a job may still be started.
    max_attempts: how often it may be started, 3 if neither the task nor its queue says otherwise.
    retry: when to try again: a list of delays such as ``(1, 10, 60)``, ``Exponential()``, ``Fixed(…)``, ``Linear(…)`` or
        ``Immediately()``.
    give_up: exception classes after which the job fails for good.
    key: unique among the live jobs of this task: a text, or a function of the arguments.
    unique, debounce, throttle: whether there may be a second job like it, as in ``JobQueue.enqueue``.
    per: the flow key: the name of a parameter, or a function of the arguments. Keys of one Django queue take turns.
    cost: how many tokens of rates a job takes.
    """

    timeout: Seconds | None = None
    expires_in: Seconds | None = None
    max_attempts: int | None = None
    retry: AnyPolicy | None = None
    give_up: tuple[type[BaseException], ...] = ()
    key: str | ByArguments | None = None
    unique: UniqueOption | None = None
    debounce: Seconds | None = None
    throttle: Seconds | None = None
    per: str | ByArguments | None = None
    cost: int | None = None

    def __post_init__(self) -> None:
        for name in ("retry", "give_up", "unique"):
            if isinstance(value := getattr(self, name), list):
                # Tasks are hashable.
                object.__setattr__(self, name, tuple(value))
        framework.Task.__post_init__(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: Any = None,
        backend: str | None = None,
        **options: Any,
    ) -> Any:
        """The same task with other options: Django's, or those of Howdah."""
        if problem := unknown(options, _OF_USING, "a task", MEANT):
            raise TypeError(problem)
        given = {"priority": priority, "queue_name": queue_name, "run_after": run_after, "backend": backend, **options}
        return dataclasses.replace(self, **{name: value for name, value in given.items() if value is not None})

    def enqueue_many(
        self, items: Iterable[Mapping[str, Any]], *, chunk_size: int | None = None, return_ids: bool = False
    ) -> EnqueuedCount:
        """Adds a job for each mapping of keyword arguments, in the transaction of the ORM. ``task_enqueued`` is not sent.

        The items are streamed, and all are one transaction; with ``chunk_size``, each chunk is one.
        """
        backend = self.get_backend()
        if not hasattr(backend, "enqueue_many"):
            return EnqueuedCount(len([self.enqueue(**item) for item in items]), None)
        count: EnqueuedCount = backend.enqueue_many(self, items, chunk_size=chunk_size, return_ids=return_ids)
        return count

    async def aenqueue_many(self, items: Iterable[Mapping[str, Any]], **bulk: Any) -> EnqueuedCount:
        """``enqueue_many``, awaited."""
        return await sync_to_async(self.enqueue_many, thread_sensitive=True)(items, **bulk)


_OPTIONS: Final = tuple(HowdahTask.__annotations__)
_OF_USING: Final = (*_OPTIONS, "priority", "queue_name", "run_after", "backend")
_OF_TASK: Final = (*_OPTIONS, "priority", "queue_name", "takes_context", "backend")


def task(
    function: Callable[..., Any] | None = None,
    *,
    priority: int = framework.DEFAULT_TASK_PRIORITY,
    queue_name: str = framework.DEFAULT_TASK_QUEUE_NAME,
    backend: str = framework.DEFAULT_TASK_BACKEND_ALIAS,
    takes_context: bool = False,
    timeout: Seconds | None = None,
    expires_in: Seconds | None = None,
    max_attempts: int | None = None,
    retry: AnyPolicy | None = None,
    give_up: Sequence[type[BaseException]] = (),
    key: str | ByArguments | None = None,
    unique: UniqueOption | None = None,
    debounce: Seconds | None = None,
    throttle: Seconds | None = None,
    per: str | ByArguments | None = None,
    cost: int | None = None,
    **others: Any,
) -> Any:
    """Django's ``@task`` with options of Howdah (see ``HowdahTask``), on every version of Django.

    With another backend, such as Django's ImmediateBackend in tests, these options are without effect.
    """

    if problem := unknown(others, _OF_TASK, "@task", MEANT):
        raise InvalidOption(problem)

    def wrapper(decorated: Callable[..., Any]) -> HowdahTask:
        return HowdahTask(
            func=decorated,
            priority=priority,
            queue_name=queue_name,
            backend=backend,
            takes_context=takes_context,
            run_after=None,
            timeout=timeout,
            expires_in=expires_in,
            max_attempts=max_attempts,
            retry=retry,
            give_up=tuple(give_up),
            key=key,
            unique=unique,
            debounce=debounce,
            throttle=throttle,
            per=per,
            cost=cost,
        )

    return wrapper if function is None else wrapper(function)


def periodic(
    cron: str | None = None,
    *,
    every: Seconds | None = None,
    name: str | None = None,
    timezone: str | None = None,
    missed: Missed = "last",
    overlap: bool = True,
    **arguments: Any,
) -> Callable[[Any], Any]:
    """Runs a task periodically: ``@periodic("0 6 * * MON-FRI")`` above ``@task``. Workers store the schedule when they start.

    cron, every, missed, overlap: as in ``JobQueue.schedules.set``. timezone: Django's TIME_ZONE if not given.
    name: of the schedule, the task's path if not given. ``arguments`` are those of the task.
    """

    def decorate(decorated: Any) -> Any:
        if not isinstance(decorated, framework.Task):
            raise InvalidOption("@periodic belongs above @task: it takes a task")
        zone = settings.TIME_ZONE if timezone is None else timezone
        rhythms.check(cron, every, zone)
        schedule = options.name(name or decorated.module_path, "name", MAX_NAME_LENGTH)
        try:
            inspect.signature(decorated.func).bind(*((None,) if decorated.takes_context else ()), **arguments)
        except TypeError as error:
            raise InvalidOption(f"the schedule {schedule!r}: {error}") from None
        registry.add_schedule(
            {
                "name": schedule,
                "task": decorated,
                "arguments": framework.normalize_json(arguments),
                "cron": cron,
                "every": every,
                "timezone": zone,
                "missed": rhythms.missed_policy(missed),
                "overlap": overlap,
            }
        )
        return decorated

    return decorate


# What the backend makes of the options


def check_options(task: HowdahTask) -> None:
    """Raises InvalidTask if an option cannot be right for any job."""
    try:
        for name in ("timeout", "expires_in"):
            if (value := getattr(task, name)) is not None:
                options.span(value, name, positive=True)
        if task.max_attempts is not None:
            options.integer(task.max_attempts, "max_attempts", least=1)
        if task.cost is not None:
            options.cost(task.cost)
        if task.retry is not None:
            as_data(task.retry)
        retries(None, task.give_up)
        if not (task.key is None or callable(task.key)):
            options.name(task.key, "key", options.MAX_KEY_LENGTH)
        rule = _rule(task)
        names = () if rule is None or isinstance(rule["by"], str) else [path.partition(".")[0] for path in rule["by"]]
        parameters = inspect.signature(task.func).parameters
        for each in (*names, *([task.per] if isinstance(task.per, str) else [])):
            if each not in parameters:
                raise InvalidOption(f"the task has no parameter {each!r}: it has {', '.join(parameters) or 'none'}")
    except InvalidInput as error:
        raise framework.InvalidTask(f"{task.module_path}: {error}") from error


def stored_options(task: framework.Task) -> dict[str, Any]:
    """The options that do not depend on the arguments, as those of ``JobQueue.enqueue`` and ``JobQueue.schedules.set``."""
    if not isinstance(task, HowdahTask):
        return {}
    attempts = attempts_of(task.retry) if task.max_attempts is None else task.max_attempts
    given = {"timeout": task.timeout, "max_attempts": attempts, "retry_policy": task.retry}
    return {name: value for name, value in given.items() if value is not None}


def stored_arguments(
    task: framework.Task, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call as JSON. Raises Django's error, with the name of the argument."""
    try:
        return framework.normalize_json(list(args)), framework.normalize_json(kwargs)
    except (TypeError, ValueError) as error:
        parameters = [*inspect.signature(task.func).parameters][1 if task.takes_context else 0 :]
        named = [*zip((*parameters, *range(len(parameters) + 1, len(args) + 1)), args, strict=False), *kwargs.items()]
        culprit = next((name for name, value in named if not _is_json(value)), None)
        where = "" if culprit is None else f": the argument {culprit!r}"
        raise type(error)(f"{task.module_path}{where}: {error}. Pass what JSON has, such as an id") from error


def _is_json(value: Any) -> bool:
    try:
        framework.normalize_json(value)
    except (TypeError, ValueError):
        return False
    return True


def enqueue_options(task: framework.Task) -> dict[str, Any]:
    """All that do not depend on the arguments."""
    if not isinstance(task, HowdahTask):
        return {}
    given: dict[str, Any] = {name: getattr(task, name) for name in ("expires_in", "cost", "debounce", "throttle")}
    if _rule(task) is not None:
        # By the key, which has the path of the task in it: another task of the queue may have the same arguments.
        given["unique"] = dataclasses.replace(task.unique, by="key") if isinstance(task.unique, Unique) else "key"
    return {**stored_options(task), **{name: value for name, value in given.items() if value is not None}}


class Keys:
    """The key and the flow key of each call of a task."""

    def __init__(self, task: framework.Task) -> None:
        self._task = task
        self._rule = _rule(task) if isinstance(task, HowdahTask) else None
        self.has_key = isinstance(task, HowdahTask) and (task.key is not None or self._rule is not None)
        self.has_flow_key = isinstance(task, HowdahTask) and task.per is not None

    def key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        if not self.has_key:
            return None
        task = self._task
        if isinstance(task.key, str):
            text = task.key
        elif task.key is not None:
            text = _text(task.key(self._bound(args, kwargs)))
        else:
            assert self._rule is not None
            text = digest(self._bound(args, kwargs), self._rule)
        named = f"{task.module_path}:{text}"
        return named if len(named) <= options.MAX_KEY_LENGTH else hashlib.sha256(named.encode()).hexdigest()

    def flow_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | int:
        per, bound = self._task.per, self._bound(args, kwargs)
        found: str | int | None = per(bound) if callable(per) else bound.get(per)
        return "" if found is None else found

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name, with their defaults: f(1) and f(number=1) are the same call."""
        first = (None,) if self._task.takes_context else ()
        bound = inspect.signature(self._task.func).bind(*first, *args, **kwargs)
        bound.apply_defaults()
        if self._task.takes_context:
            del bound.arguments["context"]
        named: dict[str, Any] = framework.normalize_json(bound.arguments)
        return named


def _text(key: object) -> str:
    if not isinstance(key, str | int):
        raise InvalidOption(f"the function of a key returns a str or an int, not {options.shown(key)}")
    return str(key)


def _rule(task: HowdahTask) -> Rule | None:
    rule = unique_rule(task.unique, task.debounce, task.throttle, has_key=task.key is not None)
    if rule is not None and (task.key is not None) != (rule["by"] == "key"):
        raise InvalidOption(
            "unique is about the arguments, and there is a key, too: pass unique='key', or leave one of them out"
            if task.key is not None
            else "unique is about the key, and there is none: pass key="
        )
    return rule
