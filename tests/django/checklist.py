"""What Django documents of tasks, and what Howdah adds: a test for each line. Run by Django's own test runner.

``python -m tests.django`` runs it on whatever Django is installed; ``make django`` on 5.2 with the backport, 6.0 and 6.1.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import logging
import pickle
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase, override_settings
from django.utils import timezone

import django
from howdah import JobCancelled, Rate, Unique
from howdah.django import HowdahBackend, HowdahTask, TaskContext, periodic, registry
from howdah.django import task as our_task
from howdah.django.checks import check_schema
from howdah.django.framework import (
    IS_BACKPORT,
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_finished,
    task_started,
)
from howdah.django.models import Job
from howdah.django.testing import arun_pending, clean, run_pending
from howdah.errors import InvalidOption
from tests.django.app import tasks
from tests.django.app.models import Note

if IS_BACKPORT:
    from django_tasks import default_task_backend
    from django_tasks.exceptions import TaskResultMismatch
else:
    from django.tasks import default_task_backend
    from django.tasks.exceptions import TaskResultMismatch

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
SUCCESSFUL, FAILED = TaskResultStatus.SUCCESSFUL, TaskResultStatus.FAILED


def not_at_the_module_level() -> Any:
    def inner() -> None: ...

    return inner


def without_context(number: int) -> None: ...


def notes() -> list[str]:
    return list(Note.objects.order_by("pk").values_list("text", flat=True))


class Definitions(TestCase):
    """https://docs.djangoproject.com/en/stable/ref/tasks/"""

    def test_the_backend_supports_all_that_a_backend_may(self) -> None:
        names = ("supports_defer", "supports_async_task", "supports_get_result", "supports_priority")
        self.assertTrue(all(getattr(default_task_backend, name) for name in names))
        self.assertIs(default_task_backend.task_class, HowdahTask)

    def test_a_task_has_the_attributes_of_a_task(self) -> None:
        task = tasks.add
        self.assertEqual((task.name, task.module_path), ("add", "tests.django.app.tasks.add"))
        self.assertEqual((task.priority, task.queue_name, task.backend), (0, "default", "default"))
        self.assertEqual((task.takes_context, task.run_after), (False, None))
        self.assertEqual((tasks.send.priority, tasks.send.queue_name), (10, "mail"))
        self.assertEqual(hash(task), hash(dataclasses.replace(task)))
        self.assertEqual({tasks.divide: 1}[tasks.divide], 1)

    def test_using_makes_another_task_and_leaves_the_first(self) -> None:
        moment = timezone.now()
        changed = tasks.add.using(priority=7, queue_name="mail", run_after=moment)
        self.assertEqual((changed.priority, changed.queue_name, changed.run_after), (7, "mail", moment))
        self.assertEqual((tasks.add.priority, tasks.add.queue_name, tasks.add.run_after), (0, "default", None))
        self.assertEqual(tasks.add.using(backend="immediate").enqueue(1).return_value, 2)

    def test_what_cannot_be_a_task_is_refused_when_it_is_defined(self) -> None:
        add, refused = tasks.add.func, InvalidTask
        for wrong in (
            lambda: our_task(not_at_the_module_level()),
            lambda: our_task(without_context, takes_context=True),
            lambda: tasks.add.using(priority=101),
            lambda: tasks.add.using(priority=-101),
            lambda: tasks.add.using(priority=1.5),
            lambda: tasks.add.using(queue_name="unknown"),
            lambda: tasks.add.using(run_after=datetime(2030, 1, 1)),  # noqa: DTZ001
            # Options of ours
            lambda: our_task(add, timeout=-1),
            lambda: our_task(add, max_attempts=0),
            lambda: our_task(add, retry={"kind": "never"}),
            lambda: our_task(add, give_up=["ValueError"]),  # type: ignore[list-item]
            lambda: our_task(add, per="third"),
            lambda: our_task(add, unique=["third"]),
            lambda: our_task(add, unique="key"),
            lambda: our_task(add, key="x", unique=True),
            lambda: our_task(add, debounce=1, throttle=1),
        ):
            with self.assertRaises(refused):
                wrong()  # type: ignore[no-untyped-call]
        with self.assertRaisesRegex(TypeError, "prioritty.*Did you mean priority.*timeout"):
            tasks.add.using(prioritty=3)
        with self.assertRaisesRegex(InvalidOption, "retries: not an option of @task. Did you mean max_attempts"):
            our_task(add, retries=3)
        with self.assertRaisesRegex(InvalidTask, "how often is max_attempts=3"):
            our_task(add, retry=3)  # type: ignore[arg-type]

    def test_an_argument_that_json_does_not_have_is_named(self) -> None:
        for name, enqueue in {
            "first": lambda: tasks.add.enqueue(object()),
            "second": lambda: tasks.add.enqueue(1, second=object()),
            3: lambda: tasks.add.enqueue(1, 2, object()),
        }.items():
            with self.assertRaisesRegex(TypeError, f"tests.django.app.tasks.add: the argument {name!r}: "):
                enqueue()  # type: ignore[no-untyped-call]
        with self.assertRaisesRegex(TypeError, "the argument 'first'"):
            tasks.add.enqueue_many([{"first": 1}, {"first": object()}])

    def test_call_and_acall_run_the_function_here(self) -> None:
        self.assertEqual(tasks.add.call(1, second=2), 3)
        self.assertEqual(async_to_sync(tasks.add.acall)(1, 2), 3)
        self.assertEqual(tasks.later.call(1), 2)

    def test_djangos_decorator_passes_our_options_on(self) -> None:
        if django.VERSION[:2] == (6, 0):
            with self.assertRaises(TypeError):
                tasks.django_task(timeout=60)
            return
        task = tasks.django_task(timeout=60, retry=[1, 2])(tasks.add.func)
        self.assertEqual((task.timeout, task.retry), (60, (1, 2)))

    def test_a_task_can_be_pickled(self) -> None:
        for task in (tasks.add, tasks.divide, tasks.add.using(priority=5)):
            if hasattr(type(task), "_reconstruct"):
                self.assertEqual(pickle.loads(pickle.dumps(task)), task)

    def test_a_module_that_is_loaded_again_replaces_its_tasks(self) -> None:
        known = registry.find("tests.django.app.tasks.add")
        registry.add(tasks.add.using(priority=3))
        self.assertIs(registry.find("tests.django.app.tasks.add"), known)


class Results(TestCase):
    def test_a_new_result_is_ready(self) -> None:
        before = timezone.now() - timedelta(seconds=5)
        result = tasks.add.enqueue(1, second=2)
        self.assertIsInstance(result.id, str)
        self.assertLessEqual(len(result.id), 64)
        self.assertEqual((result.task, result.backend, result.status), (tasks.add, "default", READY))
        self.assertEqual((result.args, result.kwargs), ([1], {"second": 2}))
        self.assertEqual((result.attempts, result.errors, result.worker_ids), (0, [], []))
        self.assertEqual((result.started_at, result.finished_at, result.last_attempted_at), (None, None, None))
        self.assertGreater(result.enqueued_at, before)
        self.assertFalse(result.is_finished)
        with self.assertRaisesRegex(ValueError, "not finished"):
            _ = result.return_value

    def test_a_result_is_successful_after_its_task_returned(self) -> None:
        result = tasks.add.enqueue(1)
        (done,) = run_pending()
        self.assertEqual((done.id, done.status, done.return_value), (result.id, SUCCESSFUL, 2))
        self.assertEqual(result.status, READY)
        result.refresh()
        self.assertEqual((result.status, result.return_value, result.attempts), (SUCCESSFUL, 2, 1))
        self.assertTrue(result.is_finished)
        self.assertLessEqual(result.enqueued_at, result.started_at)
        self.assertLessEqual(result.started_at, result.finished_at)
        self.assertEqual(result.last_attempted_at, result.started_at)
        self.assertEqual(result.worker_ids, ["run_pending"])

    def test_a_failed_result_has_its_errors(self) -> None:
        result = tasks.fail.using(max_attempts=1).enqueue("no such user")
        run_pending()
        result.refresh()
        self.assertEqual((result.status, result.is_finished, result.attempts), (FAILED, True, 1))
        (error,) = result.errors
        self.assertIs(error.exception_class, tasks.Odd)
        self.assertEqual(error.exception_class_path, "tests.django.app.tasks.Odd")
        self.assertIn("tests.django.app.tasks.Odd: no such user", error.traceback)
        self.assertIn("in fail", error.traceback)
        with self.assertRaisesRegex(ValueError, "failed"):
            _ = result.return_value

    def test_a_result_is_found_by_its_id(self) -> None:
        result = tasks.add.enqueue(1)
        for found in (
            tasks.add.get_result(result.id),
            default_task_backend.get_result(result.id),
            async_to_sync(tasks.add.aget_result)(result.id),
            async_to_sync(default_task_backend.aget_result)(result.id),
        ):
            self.assertEqual((found.id, found.status, found.task), (result.id, READY, tasks.add))
        async_to_sync(result.arefresh)()
        with self.assertRaises(TaskResultMismatch):
            tasks.send.get_result(result.id)
        moment = timezone.now() + timedelta(days=1)
        with_options = tasks.add.using(priority=-3, queue_name="mail", run_after=moment)
        self.assertEqual(tasks.add.get_result(with_options.enqueue(1).id).task, with_options)

    def test_a_result_that_is_not_there(self) -> None:
        foreign = default_task_backend.queue.enqueue("default", {"args": [], "kwargs": {}}, conn="default")
        for missing in ("0199a000-0000-7000-8000-000000000000", "no id at all", "", str(foreign.id)):
            with self.assertRaises(TaskResultDoesNotExist):
                default_task_backend.get_result(missing)

    def test_arguments_are_those_that_json_has(self) -> None:
        result = tasks.add.enqueue((1, 2), second={"of": b"bytes"})
        self.assertEqual((result.args, result.kwargs), ([[1, 2]], {"second": {"of": "bytes"}}))
        self.assertEqual(default_task_backend.get_result(result.id).args, [[1, 2]])
        for wrong in (object(), timezone.now(), {1}):
            with self.assertRaises(TypeError):
                tasks.add.enqueue(wrong)
        self.assertEqual(Job.objects.count(), 1)

    def test_return_values_are_those_that_json_has(self) -> None:
        tasks.give.enqueue(5)
        tasks.give_object.enqueue()
        good, bad = run_pending()
        self.assertEqual(good.return_value, {"n": 5, "pair": [1, 2], "text": "bytes"})
        self.assertEqual((bad.status, bad.errors[0].exception_class), (FAILED, TypeError))

    def test_a_task_with_a_context_gets_it_first(self) -> None:
        result = tasks.look.enqueue()
        (done,) = run_pending()
        self.assertEqual(done.return_value, {"attempt": 1, "id": result.id, "status": "RUNNING", "workers": 1})

    def test_an_async_task_uses_the_orm(self) -> None:
        result = async_to_sync(tasks.later.aenqueue)(1)
        (done,) = run_pending()
        self.assertEqual((done.id, done.return_value, notes()), (result.id, 2, ["async 1"]))

    async def test_in_an_async_test(self) -> None:
        result = await tasks.later.aenqueue(1)
        (done,) = await arun_pending()
        self.assertEqual((done.id, done.return_value), (result.id, 2))
        self.assertEqual((await default_task_backend.aget_job(result.id)).status, "completed")

    def test_a_cancelled_job_is_failed_with_an_error_that_names_the_cancellation(self) -> None:
        result = tasks.add.enqueue(1)
        default_task_backend.queue.cancel(result.id, "not wanted", conn="default")
        result.refresh()
        self.assertEqual(result.status, FAILED)
        self.assertIs(result.errors[-1].exception_class, JobCancelled)
        self.assertIn("not wanted", result.errors[-1].traceback)

    @override_settings(USE_TZ=False)
    def test_without_use_tz_times_are_naive(self) -> None:
        result = tasks.add.using(run_after=datetime(2040, 1, 1, 12)).enqueue(1)  # noqa: DTZ001
        self.assertIsNone(result.enqueued_at.tzinfo)
        self.assertEqual(default_task_backend.get_result(result.id).task.run_after, datetime(2040, 1, 1, 12))  # noqa: DTZ001


class Running(TestCase):
    def test_higher_priorities_first(self) -> None:
        for priority in (-100, 0, 100, 50):
            tasks.add.using(priority=priority).enqueue(priority)
        self.assertEqual([each.args for each in run_pending()], [[100], [50], [0], [-100]])
        self.assertEqual({each.priority for each in Job.objects.all()}, {0, 100, 200, 150})

    def test_not_before_run_after(self) -> None:
        tasks.add.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(1)
        self.assertEqual(run_pending(), [])
        (done,) = run_pending(advance=timedelta(hours=1, minutes=1))
        self.assertEqual(done.status, SUCCESSFUL)

    def test_only_the_chosen_queues(self) -> None:
        tasks.add.enqueue(1)
        tasks.send.enqueue("you")
        self.assertEqual([each.return_value for each in run_pending(queues=["mail"])], ["sent to you"])
        self.assertEqual([each.return_value for each in run_pending(limit=1)], [2])

    def test_signals(self) -> None:
        heard: list[tuple[str, type, str, str]] = []

        def hear(name: str) -> Any:
            def receiver(sender: type, task_result: Any, **_: Any) -> None:
                import sys

                heard.append((name, sender, task_result.status, type(sys.exc_info()[1]).__name__))

            return receiver

        receivers = [(signal, hear(name)) for name, signal in SIGNALS.items()]
        for signal, receiver in receivers:
            signal.connect(receiver)
        try:
            tasks.add.enqueue(1)
            tasks.fail.using(max_attempts=2).enqueue("x")
            run_pending()
            run_pending(advance=60)
        finally:
            for signal, receiver in receivers:
                signal.disconnect(receiver)
        self.assertEqual({sender for _, sender, _, _ in heard}, {HowdahBackend})
        self.assertEqual(
            [(name, status, raised) for name, _, status, raised in heard],
            [
                ("enqueued", "READY", "NoneType"),
                ("enqueued", "READY", "NoneType"),
                ("started", "RUNNING", "NoneType"),
                ("finished", "SUCCESSFUL", "NoneType"),
                ("started", "RUNNING", "NoneType"),
                # The first attempt of two: it is not finished.
                ("started", "RUNNING", "NoneType"),
                ("finished", "FAILED", "Odd"),
            ],
        )

    def test_retries_by_the_options_of_the_task(self) -> None:
        result = tasks.divide.enqueue(-1, 1)
        (first,) = run_pending()
        self.assertEqual((first.status, first.attempts, len(first.errors)), (READY, 1, 1))
        self.assertEqual(run_pending(advance=4), [])
        self.assertEqual(len(run_pending(advance=1)), 1)
        self.assertEqual(run_pending(advance=49), [])
        (last,) = run_pending(advance=1)
        self.assertEqual((last.id, last.status, last.attempts, len(last.errors)), (result.id, FAILED, 3, 3))

    def test_no_further_attempt_after_give_up(self) -> None:
        tasks.divide.enqueue(1, 0)
        (done,) = run_pending()
        self.assertEqual((done.status, done.attempts), (FAILED, 1))
        self.assertIs(done.errors[0].exception_class, ZeroDivisionError)

    def test_options_travel_with_each_job(self) -> None:
        tasks.divide.using(timeout=5, max_attempts=9, cost=3, expires_in=60).enqueue(1, 1)
        queue = default_task_backend.queue
        (job,) = queue.list(conn="default")
        self.assertEqual((job.timeout, job.max_attempts, job.cost), (timedelta(seconds=5), 9, 3))
        self.assertEqual(job.expires_at, job.run_at + timedelta(seconds=60))
        self.assertEqual(job.retry_policy, {"kind": "delays", "delays": [5, 50]})
        self.assertEqual(job.meta, {"task": "tests.django.app.tasks.divide"})

    def test_outcomes_of_howdah(self) -> None:
        snoozed, retried = tasks.put_off.enqueue(60), tasks.ask_for_retry.enqueue()
        run_pending()
        for result, attempts in ((snoozed, 0), (retried, 1)):
            result.refresh()
            self.assertEqual((result.status, result.attempts), (READY, attempts))
        self.assertEqual(len(run_pending(advance=8)), 1)

    def test_a_name_in_a_row_imports_nothing(self) -> None:
        queue = default_task_backend.queue
        for path in ("os.system", "antigravity.fly", "tests.django.checklist.not_at_the_module_level"):
            queue.enqueue(
                "default", {"args": ["true"], "kwargs": {}}, meta={"task": path}, max_attempts=1, conn="default"
            )
        for _ in range(3):
            # A job of no known task has no result. Its attempt is recorded all the same.
            with self.assertRaises(TaskResultDoesNotExist):
                run_pending()
        self.assertEqual({job.status for job in queue.list(conn="default")}, {"failed"})
        import sys

        self.assertNotIn("antigravity", sys.modules)

    def test_tasks_that_tasks_enqueue(self) -> None:
        tasks.chain.enqueue(3)
        self.assertEqual([each.return_value for each in run_pending()], [3, 2, 1, 0])

    def test_tasks_of_a_workflow_get_results_and_maps_their_jobs(self) -> None:
        queue = default_task_backend.queue
        run_task = queue.handlers["default"]

        def named(task: str) -> dict[str, Any]:
            return {"meta": {"task": f"tests.django.app.tasks.{task}"}}

        with queue.workflow("sums", conn=connection) as flow:
            made = flow.add(run_task, args=[4], kwargs={}, options=named("pairs"))
            sums = flow.map(run_task, made, kwargs={}, options=named("add"), name="sums")
            flow.add(run_task, args=sums, kwargs={}, options=named("total"), name="total")
        self.assertEqual([each.return_value for each in run_pending()][1:], [0, 2, 4, 6, 12])
        self.assertEqual(flow.status(conn=connection), "completed")

    def test_progress_events_and_completion_in_the_tasks_own_transaction(self) -> None:
        result = tasks.report.enqueue(4)
        (done,) = run_pending()
        self.assertEqual(done.return_value, {"rows": 4})
        job = default_task_backend.get_job(result.id)
        self.assertEqual((job.status, job.percent), ("completed", 100))
        events = default_task_backend.queue.events(result.id, conn="default")
        self.assertIn("rows are done", [event.name for event in events])
        self.assertEqual(notes(), ["completed together"])

    def test_a_task_waits_for_a_signal_and_keeps_its_steps(self) -> None:
        result = tasks.approve.enqueue(17)
        queue = default_task_backend.queue
        (waiting,) = run_pending(raise_errors=True)
        self.assertEqual(waiting.status, READY)
        self.assertEqual(queue.signal("approved", "yes", key="17", conn="default"), (1, False))
        (done,) = run_pending()
        self.assertEqual((done.id, done.return_value), (result.id, ["asked", "yes"]))
        self.assertEqual(notes(), ["asked for 17"])

    def test_errors_are_raised_on_request(self) -> None:
        tasks.divide.enqueue(1, 0)
        with self.assertRaises(ZeroDivisionError):
            run_pending(raise_errors=True)


SIGNALS = {"enqueued": task_enqueued, "started": task_started, "finished": task_finished}


class Keys(TestCase):
    def test_a_second_call_with_the_same_arguments_is_the_first_one(self) -> None:
        first = tasks.once.enqueue(1)
        self.assertEqual(tasks.once.enqueue(number=1, text="").id, first.id)
        self.assertNotEqual(tasks.once.enqueue(2).id, first.id)
        self.assertNotEqual(tasks.once.using(unique=False).enqueue(1).id, first.id)

    def test_another_task_with_the_same_arguments_is_another(self) -> None:
        self.assertNotEqual(tasks.once.enqueue(1).id, tasks.once_too.enqueue(1).id)

    def test_keys_include_the_path_of_the_task(self) -> None:
        first = tasks.keyed.enqueue(1)
        self.assertEqual(tasks.keyed.enqueue(1).id, first.id)
        self.assertNotEqual(tasks.add.using(key="note-1").enqueue(1).id, first.id)
        job = default_task_backend.get_job(first.id)
        self.assertEqual((job.key, job.flow_key), ("tests.django.app.tasks.keyed:note-1", "1"))

    def test_rules(self) -> None:
        debounced = tasks.add.using(debounce=10, unique=True)
        first = debounced.enqueue(1)
        self.assertEqual(debounced.enqueue(1).id, first.id)
        throttled = tasks.send.using(throttle=60, unique=["to"])
        self.assertEqual(throttled.enqueue("you").id, throttled.enqueue("you").id)
        replacing = tasks.add.using(unique=Unique(by=("second",), conflict="replace"))
        self.assertEqual(replacing.enqueue(1, 7).id, replacing.enqueue(2, 7).id)
        self.assertEqual([each.return_value for each in run_pending(advance=20)].count(9), 1)

    def test_many_at_once(self) -> None:
        count = tasks.add.enqueue_many(({"first": n} for n in range(2500)), return_ids=True)
        self.assertEqual((count, len(count.ids or ())), (2500, 2500))
        self.assertEqual([each.return_value for each in run_pending(limit=3)], [1, 2, 3])
        self.assertEqual(tasks.once.enqueue_many([{"number": 1}, {"number": 1}, {"number": 2}]), 2)
        self.assertEqual(async_to_sync(tasks.keyed.aenqueue_many)([{"number": 1}, {"number": 2}]), 2)
        self.assertEqual(tasks.add.using(backend="immediate").enqueue_many([{"first": 1}]), 1)


class Schedules(TestCase):
    def test_a_schedule_fires_and_its_task_gets_its_arguments(self) -> None:
        self.assertEqual(run_pending(schedules=True), [])
        (schedule,) = default_task_backend.queue.schedules.list(conn="default")
        self.assertEqual((schedule.name, schedule.timezone), ("tests.django.app.tasks.morning", "Europe/Berlin"))
        (done,) = run_pending(advance=timedelta(days=400), schedules=True)
        self.assertEqual((done.return_value, done.task.priority), ("good morning, everybody", 5))
        self.assertEqual(run_pending(schedules=True), [])

    def test_what_is_no_schedule_is_refused(self) -> None:
        for wrong in (
            lambda: periodic("every morning")(tasks.add),
            lambda: periodic(),
            lambda: periodic("@daily")(without_context),
            lambda: periodic("@daily", name="tests.django.app.tasks.morning")(tasks.add),
        ):
            with self.assertRaises(InvalidOption):
                wrong()(tasks.add)
        with self.assertRaisesRegex(
            InvalidOption, "schedule 'tests.django.app.tasks.add': missing a required argument"
        ):
            periodic("@daily", second=2)(tasks.add)


class Transactions(TransactionTestCase):
    """With commits: each test cleans up."""

    def setUp(self) -> None:
        clean()
        self.addCleanup(default_task_backend.close)

    def test_a_task_is_enqueued_with_the_transaction_or_not_at_all(self) -> None:
        with transaction.atomic():
            tasks.note.enqueue("rolled back")
            transaction.set_rollback(True)
        with transaction.atomic():
            with transaction.atomic():
                tasks.note.enqueue("savepoint rolled back")
                transaction.set_rollback(True)
            tasks.note.enqueue("committed")
            tasks.add.enqueue_many([{"first": 1}])
            self.assertEqual(list(default_task_backend.queue.list()), [], "others see nothing yet")
        tasks.note.enqueue("autocommit")
        self.assertEqual(work()["completed"], 3)
        self.assertEqual(sorted(notes()), ["autocommit", "committed"])

    def test_the_worker_runs_plain_and_async_tasks(self) -> None:
        results = [tasks.add.enqueue(1), tasks.later.enqueue(1), tasks.fail.using(max_attempts=1).enqueue("x")]
        self.assertEqual(work(), {"completed": 2, "failed": 1})
        for result in results:
            result.refresh()
        self.assertEqual([each.status for each in results], [SUCCESSFUL, SUCCESSFUL, FAILED])
        self.assertEqual([results[0].return_value, results[1].return_value], [2, 2])
        self.assertIs(results[2].errors[0].exception_class, tasks.Odd)
        self.assertEqual(results[0].worker_ids, ["checklist"])

    def test_the_worker_suspends_a_task_that_waits(self) -> None:
        heard: list[Any] = []
        task_finished.connect(receiver := lambda task_result, **_: heard.append(task_result.status))
        result = tasks.approve.using(max_attempts=1).enqueue(17)
        try:
            self.assertEqual(work(), {"snoozed": 1})
            self.assertEqual(heard, [])
            default_task_backend.queue.signal("approved", "yes", key="17")
            self.assertEqual(work(), {"completed": 1})
        finally:
            task_finished.disconnect(receiver)
        result.refresh()
        self.assertEqual((result.return_value, heard, notes()), (["asked", "yes"], [SUCCESSFUL], ["asked for 17"]))

    def test_the_worker_sends_signals_in_the_thread_of_the_task(self) -> None:
        heard: list[tuple[str, str]] = []

        def receiver(task_result: Any, signal: Any, **_: Any) -> None:
            heard.append((task_result.status, "x" * Note.objects.count()))

        for signal in (task_started, task_finished):
            signal.connect(receiver)
        try:
            tasks.note.enqueue("x")
            tasks.later.enqueue(1)
            work()
        finally:
            for signal in (task_started, task_finished):
                signal.disconnect(receiver)
        self.assertEqual(sorted(status for status, _ in heard), ["RUNNING", "RUNNING", "SUCCESSFUL", "SUCCESSFUL"])

    def test_plain_tasks_run_in_threads_of_their_own(self) -> None:
        results = [tasks.threads.enqueue(n) for n in range(4)]
        work()
        self.assertEqual(len({tasks.threads.get_result(each.id).return_value for each in results}), 4)

    def test_async_tasks_do_not_share_one_thread_for_the_orm(self) -> None:
        results = [tasks.threads_of_the_orm.enqueue(n) for n in range(4)]
        work()
        self.assertEqual(len({tasks.threads_of_the_orm.get_result(each.id).return_value for each in results}), 4)

    def test_a_lost_connection_fails_one_task_and_not_those_after_it(self) -> None:
        tasks.cut_own_connection.using(priority=50).enqueue()
        tasks.note.enqueue("after it")
        self.assertEqual(work(concurrency=1), {"failed": 1, "completed": 1})
        self.assertEqual(notes(), ["after it"])

    def test_a_transaction_that_was_left_open_fails_one_task_and_takes_no_other_in(self) -> None:
        broken = [
            tasks.leave_open.using(priority=50).enqueue(False),
            tasks.leave_open.using(priority=50).enqueue(True),
            tasks.leave_open_awaited.using(priority=50).enqueue(),
            tasks.begin_by_a_statement.using(priority=50).enqueue(),
            tasks.turn_autocommit_off.using(priority=50).enqueue(False),
        ]
        tasks.note.enqueue("after it")
        self.assertEqual(work(concurrency=1), {"failed": 5, "completed": 1})
        self.assertEqual(notes(), ["after it"])
        for result in broken:
            result.refresh()
            self.assertIn("inside of a transaction of 'default'", result.errors[0].traceback)

    def test_a_task_may_turn_autocommit_off_and_commit(self) -> None:
        tasks.turn_autocommit_off.using(priority=50).enqueue(True)
        tasks.note.enqueue("after it")
        self.assertEqual(work(concurrency=1), {"completed": 2})
        self.assertEqual(notes(), ["committed", "after it"])

    def test_nothing_is_left_that_would_keep_the_test_database_from_being_dropped(self) -> None:
        tasks.note.enqueue("x")
        tasks.later.enqueue(1)
        work()
        # On a connection of the queue's own.
        default_task_backend.queue.workers()
        with connection.cursor() as cursor:
            for _ in range(1000):
                # A server process ends a moment after its client.
                cursor.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                    " AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
                )
                if not (left := cursor.fetchone()[0]):
                    break
                cursor.execute("SELECT pg_sleep(0.05)")
            self.assertEqual(left, 0)

    def test_an_unknown_task_stays_pending_for_a_worker_that_has_it(self) -> None:
        queue = default_task_backend.queue
        job = queue.enqueue("default", {"args": [], "kwargs": {}}, meta={"task": "shop.tasks.new"})
        work()
        self.assertEqual((queue.get(job.id).status, queue.get(job.id).attempts), ("pending", 0))

    def test_the_command_works_off_what_is_due(self) -> None:
        tasks.note.enqueue("by the command")
        tasks.send.enqueue("nobody")
        logger = logging.getLogger("howdah")
        self.addCleanup(logger.handlers.clear)
        self.addCleanup(logger.setLevel, logger.level)
        with self.assertRaises(SystemExit) as ended:
            call_command("howdah_worker", queues=["default"], drain=True, verbosity=0)
        self.assertEqual((ended.exception.code, notes()), (0, ["by the command"]))
        for wrong, words in (
            ({"backend": "other"}, "has no backend"),
            ({"backend": "immediate"}, "ImmediateBackend"),
            ({"queues": ["other"]}, "QUEUES has no queue"),
        ):
            with self.assertRaisesRegex(CommandError, words):
                call_command("howdah_worker", drain=True, **wrong)

    def test_schedules_are_stored_when_a_worker_starts(self) -> None:
        work()
        (schedule,) = default_task_backend.queue.schedules.list()
        self.assertEqual(schedule.name, "tests.django.app.tasks.morning")


def work(**options: Any) -> dict[str, int]:
    """Runs a worker until nothing is due. Returns how many jobs ended how."""
    worker = default_task_backend.worker(drain=True, name="checklist", **{"concurrency": 10, **options})
    return {name: count for name, count in asyncio.run(worker.run()).counts.items() if count}


class InsideOfATestCase(TestCase):
    """What run_pending does to the test's transaction."""

    def test_writes_of_a_failed_task_stay_as_they_do_in_a_worker(self) -> None:
        tasks.note_and_fail.enqueue("kept")
        (done,) = run_pending()
        self.assertEqual((done.status, notes()), (FAILED, ["kept"]))

    def test_an_error_of_the_database_does_not_end_the_test(self) -> None:
        tasks.break_the_transaction.enqueue()
        (done,) = run_pending()
        self.assertEqual((done.status, done.errors[0].exception_class.__name__), (FAILED, "ProgrammingError"))
        self.assertEqual(notes(), [])

    def test_a_transaction_that_was_left_open_fails_its_task_and_takes_no_other_in(self) -> None:
        with transaction.atomic():
            for left_open in (tasks.leave_open.using(priority=50), tasks.leave_open_in_another.using(priority=50)):
                left_open.enqueue(False)
                tasks.note.enqueue("after it")
                failed, succeeded = run_pending()
                self.assertIn("inside of a transaction of 'default'", failed.errors[0].traceback)
                self.assertEqual((failed.status, succeeded.status), (FAILED, SUCCESSFUL))
        self.assertEqual(notes(), ["after it"] * 2)

    def test_an_error_of_the_database_inside_of_a_model_does_not_end_the_test(self) -> None:
        tasks.note_twice.enqueue()
        (done,) = run_pending()
        self.assertEqual((done.errors[0].exception_class.__name__, notes()), ("IntegrityError", []))

    def test_a_task_may_ask_for_a_durable_transaction(self) -> None:
        tasks.durably.enqueue("x")
        self.assertEqual(run_pending()[0].status, SUCCESSFUL)

    def test_time_stands_still_after_it_was_moved(self) -> None:
        tasks.put_off.enqueue(60)
        run_pending(advance=0)
        self.assertEqual(run_pending(advance=59), [])
        self.assertEqual(len(run_pending(advance=1)), 1)


class NothingIsLeft(TransactionTestCase):
    def test_a_transaction_that_was_left_open_fails_its_task_and_not_the_test(self) -> None:
        clean()
        for left_open in (
            lambda: tasks.leave_open.enqueue(False),
            lambda: tasks.leave_open_awaited.enqueue(),
            lambda: tasks.begin_by_a_statement.enqueue(),
            lambda: tasks.turn_autocommit_off.enqueue(False),
        ):
            left_open()  # type: ignore[no-untyped-call]
            (failed,) = run_pending()
            self.assertIn("inside of a transaction of 'default'", failed.errors[0].traceback)
            self.assertEqual((failed.status, notes()), (FAILED, []))
            self.assertFalse(connection.in_atomic_block)
            self.assertTrue(connection.get_autocommit())
        tasks.turn_autocommit_off.enqueue(True)
        self.assertEqual((run_pending()[0].status, notes()), (SUCCESSFUL, ["committed"]))
        self.assertTrue(connection.get_autocommit())

    def test_what_a_test_case_did_was_never_committed(self) -> None:
        clean()
        with transaction.atomic():
            tasks.note.enqueue("x")
            run_pending(advance=3600)
            transaction.set_rollback(True)
        self.assertEqual((Job.objects.count(), notes()), (0, []))
        now = default_task_backend.queue.enqueue("default", {"args": [], "kwargs": {}}, conn="default").created_at
        self.assertLess(abs(now - timezone.now()), timedelta(minutes=30))
        with self.assertRaisesRegex(InvalidOption, "TestCase"):
            run_pending(advance=1)


class Project(TestCase):
    def test_migrations_are_complete(self) -> None:
        call_command("makemigrations", "howdah", check=True, dry_run=True, stdout=io.StringIO())
        told = io.StringIO()
        call_command("migrate", "howdah", stdout=told, verbosity=1)
        self.assertIn("No migrations to apply", told.getvalue())

    def test_checks_find_nothing_wrong(self) -> None:
        self.assertEqual(
            [each for each in run_checks(databases=["default"]) if (each.id or "").startswith("howdah")], []
        )

    def test_checks_find_what_is_wrong(self) -> None:
        ours = {"BACKEND": "howdah.django.HowdahBackend"}
        without = [app for app in django.conf.settings.INSTALLED_APPS if app not in ("howdah.django", "django_tasks")]
        cases: list[tuple[dict[str, Any], str]] = [
            ({"TASKS": {"default": {**ours, "OPTIONS": {"database": "missing"}}}}, "howdah.E002"),
            ({"TASKS": {"default": {**ours, "OPTIONS": {"dsn": "x"}}}}, "howdah.E003"),
            ({"TASKS": {"default": {**ours, "QUEUES": ["q" * 51]}}}, "howdah.E003"),
            ({"TASKS": {"default": {**ours, "OPTIONS": {"queues": {"default": {"process": True}}}}}}, "howdah.E003"),
            ({"TASKS": {"default": {**ours, "OPTIONS": {"queues": {"default": {"limit": 0}}}}}}, "howdah.E003"),
            ({"TASKS": {"default": {**ours, "OPTIONS": {"queues": {"mail": {}}}}}}, "howdah.E003"),
            ({"DATABASE_ROUTERS": ["tests.django.checklist.Elsewhere"]}, "howdah.W001"),
            ({"INSTALLED_APPS": without}, "howdah.E001"),
            *([({"INSTALLED_APPS": [*without, "howdah.django"]}, "howdah.W002")] if IS_BACKPORT else []),
        ]
        for changes, expected in cases:
            with override_settings(**changes):
                from howdah.django import checks

                found = [*task_backends["default"].check(), *checks.check_app()]
                self.assertIn(expected, [each.id for each in found], changes)
                self.assertTrue(all(each.hint for each in found))

    def test_a_schema_that_is_missing_has_one_remedy_and_migrate_does_not_warn_of_it(self) -> None:
        missing = {"default": {"BACKEND": "howdah.django.HowdahBackend", "OPTIONS": {"schema": "missing"}}}
        with override_settings(TASKS=missing):
            (found,) = check_schema(["default"])
            self.assertEqual((found.id, found.hint), ("howdah.W003", "Run: manage.py migrate"))
            self.assertNotIn("Run", found.msg)
            with mock.patch("sys.argv", ["manage.py", "migrate"]):
                self.assertEqual(check_schema(["default"]), [])

    def test_options_of_queues_are_those_of_their_jobs(self) -> None:
        handlers = default_task_backend.queue.handlers
        self.assertEqual(set(handlers), {"default", "mail", "one"})
        self.assertEqual(handlers["one"].limit, 1)
        options = {"mail": {"rate": Rate(5, seconds=1), "per": True, "ordered": True}}
        tasks_setting = {"default": {**django.conf.settings.TASKS["default"], "OPTIONS": {"queues": options}}}
        with override_settings(TASKS=tasks_setting):
            self.assertTrue(default_task_backend.queue.handlers["mail"].ordered)


class Elsewhere:
    """A router that writes notes to another database."""

    def db_for_write(self, model: type, **_: Any) -> str | None:
        return "elsewhere" if model is Note else None


class Admin(TestCase):
    def setUp(self) -> None:
        self.user = User.objects.create_superuser("boss")
        self.client.force_login(self.user)

    def act(self, action: str, *results: Any, **data: Any) -> Any:
        chosen = {"action": action, "_selected_action": [each.id for each in results], **data}
        return self.client.post("/admin/howdah/job/", chosen, follow=True)

    def test_the_list_has_filters_and_counts_nothing(self) -> None:
        tasks.add.enqueue_many({"first": n} for n in range(60))
        tasks.send.enqueue("you")
        with self.settings(DEBUG=True):
            from django.db import reset_queries

            reset_queries()
            page = self.client.get("/admin/howdah/job/")
            self.assertFalse(
                [each for each in connection.queries if "COUNT(" in each["sql"] and "job_details" in each["sql"]]
            )
        self.assertContains(page, "tests.django.app.tasks.send")
        self.assertContains(page, "Older")
        self.assertNotContains(page, "Newer")
        older = self.client.get("/admin/howdah/job/?p=2")
        self.assertContains(older, "Newer")
        self.assertNotContains(older, "Older")
        for query, count in (
            ("job_type=mail", 1),
            ("task=tests.django.app.tasks.send", 1),
            ("status__exact=failed", 0),
            ("q=nothing", 0),
            ("p=99", None),
            (f"p={10**20}", None),
        ):
            found = self.client.get(f"/admin/howdah/job/?{query}", follow=True)
            if count is not None:
                self.assertEqual(len(found.context["cl"].result_list), count, query)

    def test_a_filter_that_no_text_can_match_finds_nothing(self) -> None:
        tasks.add.enqueue(1)
        for query in ("task=%00", "job_type=default%00"):
            found = self.client.get(f"/admin/howdah/job/?{query}")
            self.assertEqual((found.status_code, len(found.context["cl"].result_list)), (200, 0), query)

    def test_a_job_is_shown_and_cannot_be_edited(self) -> None:
        result = tasks.fail.using(max_attempts=1).enqueue("<b>no</b>")
        run_pending()
        page = self.client.get(f"/admin/howdah/job/{result.id}/change/")
        self.assertContains(page, "tests.django.app.tasks.Odd: &lt;b&gt;no&lt;/b&gt;")
        self.assertNotContains(page, 'name="_save"')
        self.assertEqual(self.client.get("/admin/howdah/job/add/").status_code, 403)
        self.assertContains(self.client.get(f"/admin/howdah/job/?q={result.id}"), "tasks.fail")

    def test_retry_cancel_and_another_priority(self) -> None:
        failed, waiting = tasks.fail.using(max_attempts=1).enqueue("x"), None
        run_pending()
        self.assertContains(self.act("retry", failed), "1 job will run again")
        failed.refresh()
        self.assertEqual((failed.status, failed.attempts), (READY, 0))
        waiting = tasks.add.enqueue(1)
        self.assertContains(self.act("reprioritise", waiting, failed, priority="50"), "2 jobs changed")
        self.assertEqual(default_task_backend.get_result(waiting.id).task.priority, 50)
        self.assertContains(self.act("reprioritise", waiting, priority="1000"), "from -100 to 100")
        self.assertContains(self.act("cancel", waiting), "1 job cancelled")
        waiting.refresh()
        self.assertIn("by boss, in the admin", waiting.errors[-1].traceback)
        self.assertContains(self.act("cancel", waiting), "0 jobs cancelled")

    def test_actions_need_the_permission(self) -> None:
        viewer = User.objects.create_user("viewer", is_staff=True)
        viewer.user_permissions.add(Permission.objects.get(codename="view_job"))
        self.client.force_login(viewer)
        result = tasks.add.enqueue(1)
        self.assertNotContains(self.client.get("/admin/howdah/job/"), 'value="cancel"')
        self.act("cancel", result)
        result.refresh()
        self.assertEqual(result.status, READY)

    def test_jobs_are_not_saved_by_the_orm(self) -> None:
        result = tasks.add.enqueue(1)
        job = Job.objects.get(pk=result.id)
        self.assertEqual(str(job), f"tests.django.app.tasks.add {result.id}")
        for change in (job.save, job.delete):
            with self.assertRaises(TypeError):
                change()


__all__ = ["TaskContext"]
