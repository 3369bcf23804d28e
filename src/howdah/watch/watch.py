"""Watching jobs: their updates as they happen, and from any position again.

A position in one job's stream is the ``seq`` of the last event before it. Behind the job's end it also has the token,
which a retry changes. A position in the stream of all jobs is what ``read_events`` returns, opaque here.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId
from howdah.db.outage import Backoff, is_temporary
from howdah.db.plan import Emit, Pause, Plan, Row, Waker, read
from howdah.errors import InvalidOption
from howdah.model.event import EVENT_KINDS, event_of
from howdah.model.job import Job, from_row
from howdah.model.workflow import Workflow
from howdah.verbs.events import some_of
from howdah.verbs.operate import row_of
from howdah.watch.hub import Hub
from howdah.watch.mailbox import Mailbox, Message
from howdah.watch.readers import JobWatch, StreamWatch, has_ended, seq_of

UpdateKind: TypeAlias = Literal["progress", "event", "log", "status"]
KINDS: Final[tuple[UpdateKind, ...]] = get_args(UpdateKind)

PAGE: Final = 1_000
LONGEST_POSITION: Final = 16_384
"""A position lists the transactions that were in progress."""
_POSITION: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,18}))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """News of a job.

    kind: "progress": the job as it is now, in ``job``; only the newest is sent, and some in between may be skipped.
        "event", "log" and "status": what happened, each exactly once and in order: see ``Event``.
    at: when it happened, by the database's clock.
    position: pass it as ``after`` to resume behind it.
    attempt: the attempt that it belongs to.
    name, data: as in ``Event``. job: with ``"progress"`` only.
    workflow: with ``"progress"`` of a whole workflow, instead of job. ``job_id`` is its id then, and ``job_type`` its name, as in the
        ``"status"`` of the whole.
    """

    kind: UpdateKind
    job_id: uuid.UUID
    job_type: str
    at: datetime
    position: str
    attempt: int
    name: str | None = None
    data: Any = dataclasses.field(default=None, repr=False)
    job: Job[Any] | None = None
    workflow: Workflow | None = None


class Watching:
    """What both have in common."""

    def __init__(self, hub: Hub, context: Context, kinds: Sequence[UpdateKind] | None) -> None:
        wanted = frozenset[str](KINDS) if kinds is None else some_of(kinds, KINDS)
        self._hub = hub
        self._context = context
        self._kinds = wanted.intersection(EVENT_KINDS)
        self._wants_progress = "progress" in wanted

    def _event(self, row: Row, position: str) -> Update:
        event = event_of(row, self._context.codec)
        return Update(
            kind=event.kind,
            job_id=event.job_id,
            job_type=event.job_type,
            at=event.at,
            position=position,
            attempt=event.attempt,
            name=event.name,
            data=event.data,
        )

    def _progress(self, row: Row, position: str) -> Update:
        job = from_row(dict(row), self._context.codec, self._context.home)
        reported = None if job.record is None else job.record.last_report_at
        changed = (job.created_at, job.claimed_at, job.started_at, reported, job.finished_at)
        return Update(
            kind="progress",
            job_id=job.id,
            job_type=job.job_type,
            at=max(moment for moment in changed if moment is not None),
            position=position,
            attempt=job.attempts,
            job=job,
        )


class JobUpdates(Watching):
    """The updates of one job, until it has ended."""

    def __init__(
        self, hub: Hub, context: Context, job: JobOrId, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> None:
        super().__init__(hub, context, kinds)
        self._id = options.job_id(job)
        self._seq, self._ended_token = _parse_position(after)
        self._last: Job | None = None

    def plan(self, waker: type[Waker]) -> Plan[None]:
        row = yield from row_of(self._id)
        if has_ended(row):
            if row["token"] != self._ended_token:
                yield from self._past(row)
            return
        yield Emit(self._state(row))
        mailbox = Mailbox(waker(), self._hub.wake)
        types = frozenset([row["job_type"]])
        watch = JobWatch(mailbox, self._id, types, self._kinds, self._wants_progress, self._seq)
        self._hub.join(watch)
        try:
            is_over = False
            while not is_over:
                updates: list[Update] = []
                for message in (yield from mailbox.receive()):
                    assert message.row is not None
                    is_over = message.kind == "end"
                    updates += self._events([message.row]) if message.kind == "event" else self._state(message.row)
                yield Emit(updates)
        finally:
            self._hub.leave(watch)

    def _past(self, row: Row) -> Plan[None]:
        """The updates of a job that has ended already. Events of a later retry are left out."""
        if self._kinds and self._seq < seq_of(row):
            yield Emit(self._state(row, is_end=False))
            kinds = sorted(self._kinds)
            while page := [
                event
                for event in (yield from insist("events", id=self._id, after=self._seq, kinds=kinds, limit=PAGE))
                if event["seq"] <= seq_of(row)
            ]:
                yield Emit(self._events(page))
        yield Emit(self._state(row))

    def _events(self, rows: Sequence[Row]) -> list[Update]:
        self._seq = rows[-1]["seq"]
        return [self._event(row, str(row["seq"])) for row in rows]

    def _state(self, row: Row, *, is_end: bool | None = None) -> list[Update]:
        """How far the job is, if that is wanted and has changed. Its end is always new."""
        if not self._wants_progress:
            return []
        is_end = has_ended(row) if is_end is None else is_end
        update = self._progress(row, f"{seq_of(row)}-{row['token']}" if is_end else str(self._seq))
        is_new = is_end or update.job != self._last
        self._last = update.job
        return [update] if is_new else []


class StreamUpdates(Watching):
    """The updates of all jobs, or of those of some types, without end."""

    def __init__(
        self,
        hub: Hub,
        context: Context,
        types: Sequence[str] | None,
        kinds: Sequence[UpdateKind] | None,
        after: str | None,
    ) -> None:
        super().__init__(hub, context, kinds)
        self._types = None if types is None else frozenset(options.job_types(types))
        # An empty one is the oldest event that is kept.
        self._position = after if after in (None, "") else options.name(after, "after", LONGEST_POSITION)

    def plan(self, waker: type[Waker]) -> Plan[None]:
        while True:
            mailbox = Mailbox(waker(), self._hub.wake, loses=True)
            watch = StreamWatch(mailbox, self._types, self._kinds, self._wants_progress)
            self._hub.join(watch)
            try:
                yield from self._until_lost(mailbox)
            finally:
                self._hub.leave(watch)

    def _until_lost(self, mailbox: Mailbox) -> Plan[None]:
        """Emits all updates until the mailbox was full. Then the watch resumes from its position."""
        while True:
            updates: list[Update] = []
            for message in (yield from mailbox.receive()):
                match message:
                    case Message("joined", position=position):
                        yield from self._catch_up(position)
                    case Message("lost"):
                        yield Emit(updates)
                        return
                    case Message("event", dict(row), position):
                        updates.append(self._event(row, position))
                        self._position = position
                    case Message("state", dict(row), position):
                        updates.append(self._progress(row, position))
                        self._position = position
            yield Emit(updates)

    def _catch_up(self, position: str) -> Plan[None]:
        """Emits the events before the position at which the hub began to read for this watch, if they are wanted."""
        is_there = self._position is None or not self._kinds
        types = None if self._types is None else sorted(self._types)
        filters = {"until": position, "job_types": types, "kinds": sorted(self._kinds), "limit": PAGE}
        while not is_there:
            *rows, last = yield from insist("stream", after=self._position, **filters)
            yield Emit([self._event(row, row["position"]) for row in rows])
            self._position = last["position"]
            is_there = len(rows) < PAGE
        self._position = position


def insist(name: str, /, **arguments: Any) -> Plan[list[Row]]:
    """The rows of a read, which is repeated for as long as the database cannot be reached."""
    backoff = Backoff(longest=2)
    while True:
        try:
            return (yield from read(name, **arguments))
        except Exception as error:
            if not is_temporary(error):
                raise
        yield Pause(backoff.next())


def _parse_position(after: str | None) -> tuple[int, int | None]:
    """The ``seq`` of the last event before it; and the token, if it is behind the job's end."""
    if not after:
        return 0, None
    found = _POSITION.fullmatch(options.text(after, "after"))
    if found is None:
        raise InvalidOption(f"{options.shown(after)} is not a position in the stream of a job")
    return int(found[1]), None if found[2] is None else int(found[2])
