"""Tasks for the checklist, most of them by Django's own decorator."""

from __future__ import annotations

import threading
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection, transaction

from howdah import Retry, Snooze
from howdah.django import TaskContext, periodic, task
from howdah.django.framework import IS_BACKPORT
from tests.django.app.models import Note

if IS_BACKPORT:
    import django_tasks as django_framework
else:
    import django.tasks as django_framework

django_task = django_framework.task

barrier = threading.Barrier(4)


class Odd(Exception):
    """Has a path of its own."""


@django_task
def add(first: int, second: int = 1) -> int:
    return first + second


@django_task
def pairs(count: int) -> list[list[int]]:
    return [[n, n] for n in range(count)]


@django_task
def total(*numbers: int) -> int:
    return sum(numbers)


@django_task(priority=10, queue_name="mail")
def send(to: str) -> str:
    return f"sent to {to}"


@django_task(takes_context=True)
def look(context: Any) -> dict[str, Any]:
    result = context.task_result
    return {"attempt": context.attempt, "id": result.id, "status": result.status, "workers": len(result.worker_ids)}


@django_task
async def later(value: int) -> int:
    await Note.objects.acreate(text=f"async {value}")
    return value + 1


@django_task
def fail(message: str) -> None:
    raise Odd(message)


@django_task
def give(value: int) -> Any:
    return {"n": value, "pair": (1, 2), "text": b"bytes"}


@django_task
def give_object() -> object:
    return object()


@django_task
def note(text: str) -> None:
    Note.objects.create(text=text)


@task(queue_name="one")
def note_and_fail(text: str) -> None:
    Note.objects.create(text=text)
    raise Odd(text)


@task(max_attempts=1)
def break_the_transaction() -> None:
    connection.cursor().execute("SELECT no_such_column")


@task(max_attempts=1)
def leave_open(cut: bool) -> None:
    transaction.atomic().__enter__()
    Note.objects.create(text="lost")
    if cut:
        connection.close()


@task(max_attempts=1)
def leave_open_in_another(cut: bool) -> None:
    transaction.atomic(savepoint=False).__enter__()
    leave_open.call(cut)


@task(max_attempts=1)
def note_twice() -> None:
    first = Note.objects.create(text="lost")
    Note.objects.create(pk=first.pk)


@task(max_attempts=1)
def begin_by_a_statement() -> None:
    connection.cursor().execute("BEGIN")
    Note.objects.create(text="lost")


@task(max_attempts=1)
def turn_autocommit_off(commit: bool) -> None:
    transaction.set_autocommit(False)
    Note.objects.create(text="committed" if commit else "lost")
    if commit:
        transaction.commit()


@task(max_attempts=1)
async def leave_open_awaited() -> None:
    await sync_to_async(leave_open.call)(False)


@task
def durably(text: str) -> None:
    with transaction.atomic(durable=True):
        Note.objects.create(text=text)


@task(retry=[5, 50], timeout=60, give_up=[ZeroDivisionError])
def divide(number: int, by: int) -> float:
    if number < 0:
        raise Odd("negative")
    return number / by


@task(unique=True)
def once(number: int, text: str = "") -> None:
    Note.objects.create(text=f"{number}{text}")


@task(unique=True)
def once_too(number: int, text: str = "") -> None: ...


@task(key=lambda arguments: f"note-{arguments['number']}", per="number")
def keyed(number: int) -> None: ...


@task(takes_context=True)
def report(context: TaskContext, rows: int) -> int:
    for _ in context.job.track(range(rows), "rows"):
        pass
    context.job.event("rows are done", rows=rows)
    with transaction.atomic():
        Note.objects.create(text="completed together")
        context.job.complete({"rows": rows}, conn="default")
    return rows


@task(takes_context=True)
def approve(context: TaskContext, order: int) -> list[object]:
    def ask() -> str:
        Note.objects.create(text=f"asked for {order}")
        return "asked"

    with transaction.atomic():
        asked = context.job.step("ask", ask, conn="default")
    return [asked, context.job.wait_signal("approved", key=str(order))]


@task
def put_off(seconds: int) -> None:
    raise Snooze(seconds)


@task
def ask_for_retry() -> None:
    raise Retry("not yet", delay=7)


@task
def chain(left: int) -> int:
    if left:
        chain.enqueue(left - 1)
    return left


@periodic(every=400 * 86400, who="everybody")
@task(priority=5)
def morning(who: str) -> str:
    return f"good morning, {who}"


@task
def threads(number: int) -> str:
    barrier.wait(30)
    return threading.current_thread().name


@task
async def threads_of_the_orm(number: int) -> str:
    def meet() -> str:
        barrier.wait(30)
        Note.objects.count()
        return str(threading.get_ident())

    return await sync_to_async(meet)()


@task(max_attempts=1)
def cut_own_connection() -> None:
    connection.cursor().execute("SELECT pg_terminate_backend(pg_backend_pid())")
