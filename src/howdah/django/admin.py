"""Jobs in Django's admin: filters, retry, cancel and another priority. Nothing counts all jobs, of which there may be millions."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.views.main import PAGE_VAR, ChangeList
from django.core.exceptions import ImproperlyConfigured
from django.core.paginator import Paginator
from django.db import models, transaction
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.text import Truncator

from django import forms
from howdah.django import registry
from howdah.django.backend import HowdahBackend
from howdah.django.framework import TASK_MAX_PRIORITY, TASK_MIN_PRIORITY, task_backends
from howdah.django.models import Job
from howdah.django.results import PRIORITY
from howdah.errors import HowdahError
from howdah.queue import JobQueue

AT_ONCE: Final = 1_000
"""How many jobs an action changes at most."""
RECENT: Final = 50_000
"""Filters without an index look at so many of the newest jobs."""


def backend() -> HowdahBackend:
    """The backend whose jobs the model has: the first one of Howdah in TASKS."""
    for each in task_backends.all():
        if isinstance(each, HowdahBackend):
            return each
    raise ImproperlyConfigured("TASKS has no backend of Howdah, whose jobs the admin could show")


class JobActionForm(ActionForm):
    """The actions, with the priority for one of them."""

    # Its limits are checked by the action: Django would only say that no action was selected.
    priority = forms.IntegerField(required=False, label="Priority:", initial=0)


class Uncounted(Paginator):
    """Pages of jobs. It knows whether there is a next one, and not how many there are."""

    def __init__(self, jobs: Any, per_page: int, page: int, **options: Any) -> None:
        super().__init__(jobs, per_page, **options)
        self._first = (page - 1) * per_page

    @cached_property
    def count(self) -> int:
        found = self.object_list.values_list("pk", flat=True)[self._first : self._first + self.per_page + 1]
        return self._first + len(found)


class JobList(ChangeList):
    """The list of jobs, with links to newer and older ones."""

    def get_results(self, request: Any) -> None:
        super().get_results(request)
        # Otherwise the page would show how many there are, as far as it knows.
        self.full_result_count = self.result_count

    @property
    def newer(self) -> str | None:
        return self.get_query_string({PAGE_VAR: self.page_num - 1}) if self.page_num > 1 else None

    @property
    def older(self) -> str | None:
        has_more = self.result_count > self.page_num * self.list_per_page
        return self.get_query_string({PAGE_VAR: self.page_num + 1}) if has_more else None


class RecentFilter(admin.SimpleListFilter):
    """A filter without an index, among the newest jobs."""

    field: str

    def queryset(self, request: Any, queryset: Any) -> Any:  # noqa: ARG002
        value = self.value()
        if value is None:
            return None
        if "\x00" in value:
            # No text of PostgreSQL has one, and the database would refuse the question.
            return queryset.none()
        oldest = Job.objects.using(queryset.db).values_list("pk", flat=True)[RECENT : RECENT + 1].first()
        recent = queryset if oldest is None else queryset.filter(pk__gt=oldest)
        return recent.filter(**{self.field: value})


class QueueFilter(RecentFilter):
    title = "queue"
    parameter_name = field = "job_type"

    def lookups(self, request: Any, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(name, name) for name in sorted(backend().queue.handlers)]


class TaskFilter(RecentFilter):
    title = "task"
    parameter_name = "task"
    field = "task_path"

    def lookups(self, request: Any, model_admin: Any) -> Iterable[tuple[str, str]]:  # noqa: ARG002
        return [(path, path) for path in registry.paths()]


@admin.register(Job)
class JobAdmin(admin.ModelAdmin):
    list_display = (
        "task_name",
        "job_type",
        "status",
        "shown_progress",
        "attempt",
        "django_priority",
        "created_at",
        "error",
    )
    list_filter = ("status", QueueFilter, TaskFilter)
    search_fields = ("id",)
    search_help_text = "The id of a job"
    sortable_by = ()
    list_per_page = 50
    list_max_show_all = 0
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    actions = ("retry", "cancel", "reprioritise")
    action_form = JobActionForm
    fields = readonly_fields = (
        "task_name", "id", "job_type", "status", "shown_progress", "attempt", "django_priority", "created_at", "run_at", "started_at",
        "finished_at", "worker_id", "key", "flow_key", "arguments", "shown_result", "shown_errors",
    )  # fmt: skip

    # Which jobs

    def get_queryset(self, request: Any) -> Any:  # noqa: ARG002
        path = Coalesce(KT("meta__task"), KT("data__task"), "job_type", output_field=models.TextField())
        jobs = Job.objects.using(backend().database).annotate(task_path=path)
        return jobs.defer("data", "result", "errors").order_by("-pk")

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ARG002
        if not search_term:
            return queryset, False
        try:
            return queryset.filter(pk=uuid.UUID(search_term.strip())), False
        except ValueError:
            return queryset.none(), False

    def get_changelist(self, request: Any, **kwargs: Any) -> type[ChangeList]:  # noqa: ARG002
        return JobList

    def get_paginator(self, request: Any, queryset: Any, per_page: int, *_: Any, **__: Any) -> Paginator:
        try:
            # A larger number would be none of the database's.
            page = min(max(int(request.GET.get(PAGE_VAR, 1)), 1), 10**9)
        except ValueError:
            page = 1
        return Uncounted(queryset, per_page, page)

    # What may be done

    def has_add_permission(self, request: Any) -> bool:  # noqa: ARG002
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def change_view(self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None) -> Any:
        unsaved = {"show_save": False, "show_save_and_continue": False, "show_save_and_add_another": False}
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **unsaved})

    def save_model(self, request: Any, obj: Any, form: Any, change: Any) -> None:
        """Nothing can be changed in the form."""

    @admin.action(description="Retry", permissions=["change"])
    def retry(self, request: Any, jobs: Any) -> None:
        self._each(request, jobs, "will run again", lambda queue, **job: queue.retry(**job))

    @admin.action(description="Cancel", permissions=["change"])
    def cancel(self, request: Any, jobs: Any) -> None:
        reason = f"by {request.user.get_username()}, in the admin"
        self._each(request, jobs, "cancelled", lambda queue, **job: queue.cancel(**job, reason=reason))

    @admin.action(description="Set the priority", permissions=["change"])
    def reprioritise(self, request: Any, jobs: Any) -> None:
        form = JobActionForm(request.POST)
        form.fields["action"].choices = self.get_action_choices(request)
        priority = form.cleaned_data["priority"] if form.is_valid() else None
        if priority is None or not TASK_MIN_PRIORITY <= priority <= TASK_MAX_PRIORITY:
            hint = f"a whole number from {TASK_MIN_PRIORITY} to {TASK_MAX_PRIORITY}"
            self.message_user(request, f"Nothing was changed: the priority is {hint}.", messages.ERROR)
            return
        self._each(
            request, jobs, "changed", lambda queue, **job: queue.reprioritise(**job, priority=PRIORITY + priority)
        )

    def _each(self, request: Any, jobs: Any, done: str, change: Callable[..., Any]) -> None:
        """Changes jobs one by one, and says how many."""
        queue: JobQueue = backend().queue
        changed = 0
        for pk in jobs.values_list("pk", flat=True)[:AT_ONCE]:
            try:
                with transaction.atomic(using=jobs.db):
                    changed += bool(change(queue, job=pk, conn=jobs.db))
            except HowdahError as error:
                self.message_user(request, f"Job {pk}: {error}", messages.ERROR)
        kept = "" if changed else " Their status does not allow it, or nothing was to be changed."
        level = messages.SUCCESS if changed else messages.WARNING
        self.message_user(request, f"{changed} {'job' if changed == 1 else 'jobs'} {done}.{kept}", level)

    # How it looks

    @admin.display(description="task")
    def task_name(self, job: Job) -> str:
        return str(getattr(job, "task_path", job.task))

    @admin.display(description="progress")
    def shown_progress(self, job: Job) -> str:
        return f"{job.progress} %" + (f" · {job.current_stage}" if job.current_stage else "")

    @admin.display(description="attempt")
    def attempt(self, job: Job) -> str:
        return f"{job.attempts} of {job.max_attempts}"

    @admin.display(description="priority")
    def django_priority(self, job: Job) -> int:
        return job.priority - PRIORITY

    @admin.display(description="last error")
    def error(self, job: Job) -> str:
        return Truncator(job.last_error or "").chars(80)

    @admin.display(description="arguments")
    def arguments(self, job: Job) -> str:
        return _preformatted(json.dumps(job.data, indent=2, ensure_ascii=False))

    @admin.display(description="result")
    def shown_result(self, job: Job) -> str:
        return _preformatted(json.dumps(job.result, indent=2, ensure_ascii=False))

    @admin.display(description="errors")
    def shown_errors(self, job: Job) -> str:
        entries = [entry for entry in job.errors or () if isinstance(entry, dict)]
        return _preformatted("\n\n".join(str(entry.get("traceback") or entry.get("error")) for entry in entries) or "–")


def _preformatted(text: str) -> str:
    return format_html("<pre>{}</pre>", text)
