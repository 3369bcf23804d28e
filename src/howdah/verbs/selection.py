"""Many jobs at once: a selection by filters, and the verbs that change what it has.

A verb works in batches, each of which is a transaction of its own: so a million jobs neither hold locks for long nor wait in one
large transaction. The database goes through the jobs in the order of their ids, which never change, so a job is seen once, also if a
verb makes it match again. Jobs that were created, or have ended, after the verb was called are left out.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal, TypeAlias

import psycopg

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import Seconds
from howdah.checks.values import clean_text, stored_text
from howdah.db.batch_size import BatchSize
from howdah.db.database import Database
from howdah.db.plan import Plan, call, read
from howdah.errors import InvalidOption, NotPermitted
from howdah.model.codec import PLAIN
from howdah.model.connection import Connection
from howdah.model.job import Status
from howdah.model.results import ChangedCount, SelectedCount
from howdah.verbs.both import Runner, both, name_verbs
from howdah.verbs.operate import matching_types, now

BATCH: Final = 1_000

SelectionVerb: TypeAlias = Literal["cancel", "delete", "reprioritise", "reschedule", "retry"]
OnChanged: TypeAlias = Callable[[ChangedCount], object]
"""Called after each batch, with what has been changed so far."""


@dataclasses.dataclass(frozen=True, slots=True)
class Selected:
    """What a selection selects by."""

    context: Context
    filters: Mapping[str, Any]
    """As the SQL functions take them; None where there is none."""
    older_than: timedelta | None
    everything: bool

    @property
    def has_filters(self) -> bool:
        return self.older_than is not None or any(value is not None for value in self.filters.values())


# The verbs


def count(
    selected: Selected, verb: SelectionVerb | None = None, *, conn: Connection | None = None
) -> Plan[SelectedCount]:
    """How many jobs match all filters now; an int, whose ``groups`` has the number for each type and status.

    verb: count only what this verb would change, such as ``"retry"``.
    """
    filters = yield from _filters(selected)
    groups = Counter[tuple[str, Status]]()
    position = None
    while True:
        rows = yield from call("count_selected", verb=verb, **filters, position=position)
        groups.update({(row["job_type"], row["status"]): row["jobs"] for row in rows if row["jobs"]})
        position = rows[0]["next_position"]
        if position is None:
            return SelectedCount(groups.total(), groups)


def retry(
    selected: Selected,
    *,
    fresh: bool = False,
    on_progress: OnChanged | None = None,
    conn: Connection | None = None,
) -> Plan[ChangedCount]:
    """Makes ended jobs pending again, with all their attempts; the old errors stay.

    Without a ``status`` in the selection, these are the failed jobs: name completed or cancelled ones to run them again. A job whose
    key a live job has taken is left as it is, and counted as ``unchanged``.

    fresh: they begin without the steps and checkpoints that they have recorded.
    on_progress: called after each batch with the ``ChangedCount`` so far.
    """
    return (yield from _change(selected, "retry", on_progress, conn, fresh=bool(fresh) or None))


def cancel(
    selected: Selected,
    reason: str | None = None,
    *,
    on_progress: OnChanged | None = None,
    conn: Connection | None = None,
) -> Plan[ChangedCount]:
    """Cancels waiting jobs, and asks running ones to stop: ``asked`` counts these.

    on_progress: called after each batch with the ``ChangedCount`` so far.
    """
    kept = None if reason is None else stored_text(selected.context, options.text(reason, "reason"))
    return (yield from _change(selected, "cancel", on_progress, conn, reason=kept))


def delete(
    selected: Selected, *, on_progress: OnChanged | None = None, conn: Connection | None = None
) -> Plan[ChangedCount]:
    """Deletes waiting and ended jobs, with their events. Running jobs are left: cancel them first.

    on_progress: called after each batch with the ``ChangedCount`` so far.
    """
    return (yield from _change(selected, "delete", on_progress, conn))


def reprioritise(
    selected: Selected,
    priority: int,
    *,
    on_progress: OnChanged | None = None,
    conn: Connection | None = None,
) -> Plan[ChangedCount]:
    """Sets the priority of pending jobs.

    on_progress: called after each batch with the ``ChangedCount`` so far.
    """
    wanted = options.integer(priority, "priority")
    return (yield from _change(selected, "reprioritise", on_progress, conn, priority=wanted))


def reschedule(
    selected: Selected,
    *,
    run_at: datetime | None = None,
    delay: Seconds | None = None,
    on_progress: OnChanged | None = None,
    conn: Connection | None = None,
) -> Plan[ChangedCount]:
    """Sets when pending jobs become due, all at the same time; now if neither is given. Jobs that wait for a signal, or sleep, are
    left as they are, and counted as ``unchanged``.

    on_progress: called after each batch with the ``ChangedCount`` so far.
    """
    due = options.due(run_at, delay)
    if delay is not None:
        due["run_at"] = (yield from now()) + options.span(delay, "delay")
    return (yield from _change(selected, "reschedule", on_progress, conn, run_at=due["run_at"]))


# What they share


def _change(
    selected: Selected,
    verb: SelectionVerb,
    on_progress: OnChanged | None,
    conn: Connection | None,
    **arguments: Any,
) -> Plan[ChangedCount]:
    if not (selected.has_filters or selected.everything):
        raise InvalidOption(
            f"the selection has no filter, and {verb} would change every job: pass job_type, status, key, per,"
            " error or older_than to select, or everything=True if that is what you mean"
        )
    filters = yield from _filters(selected)
    changed, position, batch_size = ChangedCount(), None, BatchSize(BATCH)
    while True:
        size = batch_size.size
        try:
            (row,) = yield from call(
                "change_selected", verb=verb, **filters, **arguments, position=position, limit=size
            )
        except psycopg.errors.QueryCanceled:
            # Too much for statement_timeout. Inside of the caller's transaction, nothing can be repeated.
            batch_size.was_cut_short(size)
            if conn is not None or size == 1:
                raise
            continue
        except psycopg.errors.LockNotAvailable as error:
            error.add_note(
                f"{changed:,} jobs were changed before. Another transaction holds a lock that this needs: howdah doctor"
                " names old ones. Then call it again: it continues with the others."
            )
            raise
        batch_size.went_well(size)
        position = row.pop("next_position")
        changed = changed.plus(**row)
        if on_progress is not None:
            on_progress(changed)
        if position is None:
            return changed


def _filters(selected: Selected) -> Plan[dict[str, Any]]:
    """The filters for the database, with the time that bounds them: later jobs are not part of the selection."""
    filters = selected.filters
    names = {"key": "key", "flow_key": "per", "error": "error"}
    by_contents = [option for name, option in names.items() if filters[name] is not None]
    if by_contents and not (yield from read("may_see_data"))[0]["may"]:
        raise NotPermitted(
            f"this login may not see the contents of jobs, and cannot select by {' and '.join(by_contents)}: that needs"
            " SELECT on the table live"
        )
    types = yield from matching_types(selected.context, filters["job_types"])
    return {**filters, "job_types": types, "before": (yield from now()) - (selected.older_than or timedelta(0))}


class Selection:
    """Jobs that match all filters of ``queue.select(…)``, to be counted or changed many at once.

    It is evaluated anew by each verb. A verb changes the jobs that match when it is called, in batches of a thousand, each of them a
    transaction of its own; a job that another transaction has locked is skipped, not waited for. With ``conn=``, all of it is
    part of your transaction, which then holds the locks of all jobs until it ends.
    """

    def __init__(self, database: Database, selected: Selected) -> None:
        self._database = database
        self._context = selected

    count, acount = both(count)
    retry, aretry = both(retry)
    cancel, acancel = both(cancel)
    delete, adelete = both(delete)
    reprioritise, areprioritise = both(reprioritise)
    reschedule, areschedule = both(reschedule)

    def __repr__(self) -> str:
        filters = {**self._context.filters, "older_than": self._context.older_than}
        shown = [f"{name}={value!r}" for name, value in filters.items() if value is not None]
        return f"Selection({', '.join(shown or ['everything'])})"


name_verbs(Selection)


def select(
    self: Runner[Context],
    *,
    job_type: str | Sequence[str] | None = None,
    status: Status | Sequence[Status] | None = None,
    key: str | None = None,
    per: str | int | None = None,
    error: str | None = None,
    older_than: Seconds | None = None,
    everything: bool = False,
) -> Selection:
    """Selects jobs, to count or change many at once: ``queue.select(job_type="mail", status="failed").retry()``

    Jobs must match all filters.

    job_type, status: one or several; ``mail.*`` is every type that begins so and has a handler here or in a worker.
    key: exactly this key. per: exactly this flow key, such as a customer, of any type or of ``job_type``.
    error: a text that ``last_error`` contains, in the same case.
    older_than: live jobs that were created longer ago than this, and ended jobs that ended longer ago.
    everything: every job, without a filter. The verbs refuse a selection without filters otherwise.
    """
    if error is not None and self._context.codec is not PLAIN:
        raise InvalidOption("errors cannot be searched: this queue stores them through a codec")
    if error == "":
        raise InvalidOption("error is empty, and every error contains that: pass a part of the error, or leave it out")
    selected = Selected(
        self._context,
        {
            "job_types": None
            if job_type is None
            else options.job_types([job_type] if isinstance(job_type, str) else job_type),
            "statuses": None if status is None else options.statuses(status),
            "key": None if key is None else options.name(key, "key", options.MAX_KEY_LENGTH),
            "flow_key": None if per is None else options.flow_key(per),
            "error": None if error is None else clean_text(options.text(error, "error")),
        },
        None if older_than is None else options.span(older_than, "older_than"),
        everything,
    )
    if everything and selected.has_filters:
        raise InvalidOption("everything and filters exclude each other: leave everything out, or the filters")
    return Selection(self._database, selected)
