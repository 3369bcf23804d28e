"""Howdah in Django: a backend for its tasks, with ``"howdah.django"`` in INSTALLED_APPS.

    backend     HowdahBackend: tasks become jobs, in the transaction of the ORM
    task        @task with options of Howdah, and @periodic
    results     a job as a TaskResult
    run         runs tasks: in a thread with its own connections, or on the loop
    testing     run_pending(): runs tasks inside of a TestCase
    models      the table of jobs, for the admin

Django loads this module before its apps are ready, so nothing here may import a model.
"""

from howdah.django.backend import HowdahBackend
from howdah.django.framework import task_backends
from howdah.django.task import HowdahTask, TaskContext, periodic, task

__all__ = ["HowdahBackend", "HowdahTask", "TaskContext", "periodic", "task", "task_backends"]
