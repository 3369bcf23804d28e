"""Watching jobs: what happens to them, as it happens, and from any place again.

A position of one job's stream is the ``seq`` of the last event told, and behind its end also the token, by which a
new life of the same job is known. Of all jobs' stream it is what ``read_events`` says, opaque here.
"""

from __future__ import annotations

import dataclasses
import re
import uuid
from collections.abc import AsyncGenerator, Generator, Sequence
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias, get_args

from howdah.checks import options
from howdah.checks.context import Context
from howdah.checks.options import JobOrId
from howdah.db.plan import Plan, Row, read
from howdah.errors import InvalidOption
from howdah.model.event import EVENT_KINDS, event_of
from howdah.model.job import Job, from_row
from howdah.verbs.events import some_of
from howdah.verbs.operate import row_of
from howdah.watch.hub import Hub
from howdah.watch.mailbox import Bell, LoopBell, Mailbox, ThreadBell
from howdah.watch.readers import JobWatch, StreamWatch, has_ended, seq_of
from howdah.watch.subscriber import Say, Script, Wait, alisten, insist, listen

UpdateKind: TypeAlias = Literal["progress", "event", "log", "status"]
KINDS: Final[tuple[UpdateKind, ...]] = get_args(UpdateKind)

_PAGE: Final = 1_000
_LONGEST_POSITION: Final = 16_384
"""It names the transactions that were under way."""
_POSITION: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,18}))?")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Something new about a job.

    kind: "progress": where the job stands now, in ``job``; the newest, so that some in between may be skipped.
        "event", "log" and "status" are what happened, each exactly once and in order: see ``Event``.
    at: when it happened, by the database's clock.
    position: what to pass as ``after`` to go on behind it.
    attempt: whose it is.
    name, data: as in ``Event``. job: the job as it is, with ``"progress"`` only.
    """

    kind: UpdateKind
    job_id: uuid.UUID
    job_type: str
    at: datetime
    position: str
    attempt: int
    name: str | None = None
    data: Any = dataclasses.field(default=None, repr=False)
    job: Job | None = None


def watch(
    hub: Hub, context: Context, job: JobOrId, after: str | None, kinds: Sequence[UpdateKind] | None
) -> Generator[Update, None, None]:
    """What happens to one job, until it has ended."""
    return listen(hub.database, _OneJob(hub, context, job, after, kinds).script(ThreadBell))


def awatch(
    hub: Hub, context: Context, job: JobOrId, after: str | None, kinds: Sequence[UpdateKind] | None
) -> AsyncGenerator[Update, None]:
    """``watch``, awaiting."""
    return alisten(hub.database, _OneJob(hub, context, job, after, kinds).script(LoopBell))


def watch_all(
    hub: Hub, context: Context, types: Sequence[str] | None, kinds: Sequence[UpdateKind] | None, after: str | None
) -> Generator[Update, None, None]:
    """What happens to all jobs, without end."""
    return listen(hub.database, _AllJobs(hub, context, types, kinds, after).script(ThreadBell))


def awatch_all(
    hub: Hub, context: Context, types: Sequence[str] | None, kinds: Sequence[UpdateKind] | None, after: str | None
) -> AsyncGenerator[Update, None]:
    """``watch_all``, awaiting."""
    return alisten(hub.database, _AllJobs(hub, context, types, kinds, after).script(LoopBell))


class _Watching:
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

    def _standing(self, row: Row, position: str) -> Update:
        job = from_row(dict(row), self._context.codec, self._context.home)
        return Update(
            kind="progress",
            job_id=job.id,
            job_type=job.job_type,
            at=_last_changed_at(job),
            position=position,
            attempt=job.attempts,
            job=job,
        )


class _OneJob(_Watching):
    """The story of one job."""

    def __init__(
        self, hub: Hub, context: Context, job: JobOrId, after: str | None, kinds: Sequence[UpdateKind] | None
    ) -> None:
        super().__init__(hub, context, kinds)
        self._id = options.job_id(job)
        self._seq, self._told_end = _place_in(after)
        self._told: Job | None = None

    def script(self, bell: type[Bell]) -> Script[None]:
        row: Row = yield row_of(self._id)
        if has_ended(row):
            if row["token"] != self._told_end:
                yield from self._all_at_once(row)
            return
        yield from self._progress(row)
        watch = JobWatch(
            Mailbox(bell(), self._hub.poke), self._id, row["job_type"], self._kinds, self._wants_progress, self._seq
        )
        self._hub.join(watch)
        try:
            yield from self._live(watch.mailbox)
        finally:
            self._hub.leave(watch)

    def _all_at_once(self, row: Row) -> Script[None]:
        """It has ended already. What a new life of it may add meanwhile comes after its end."""
        if self._kinds and self._seq < seq_of(row):
            yield from self._progress(row)
            while page := _until((yield from insist(self._next_page)), seq_of(row)):
                yield from self._events(page)
        yield from self._end(row)

    def _next_page(self) -> Plan[list[Row]]:
        return read("events", id=self._id, after=self._seq, kinds=sorted(self._kinds), limit=_PAGE)

    def _live(self, box: Mailbox) -> Script[None]:
        while True:
            for note in (yield Wait(box)):
                match note.kind:
                    case "event":
                        yield from self._events([note.row])
                    case "state":
                        yield from self._progress(note.row)
                    case "end":
                        yield from self._end(note.row)
                        return

    def _events(self, rows: Sequence[Row]) -> Script[None]:
        for row in rows:
            self._seq = row["seq"]
            yield Say(self._event(row, str(self._seq)))

    def _progress(self, row: Row) -> Script[None]:
        if self._wants_progress:
            update = self._standing(row, str(self._seq))
            if update.job != self._told:
                self._told = update.job
                yield Say(update)

    def _end(self, row: Row) -> Script[None]:
        if self._wants_progress:
            yield Say(self._standing(row, f"{seq_of(row)}-{row['token']}"))


class _AllJobs(_Watching):
    """The stream of all jobs, or of those of some types."""

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
        # Without a single character it is the beginning of all.
        self._position = after if after in (None, "") else options.name(after, "after", _LONGEST_POSITION)

    def script(self, bell: type[Bell]) -> Script[None]:
        while True:
            box = Mailbox(bell(), self._hub.poke, loses=True)
            watch = StreamWatch(box, self._types, self._kinds, self._wants_progress)
            self._hub.join(watch)
            try:
                yield from self._live(box)
            finally:
                self._hub.leave(watch)

    def _live(self, box: Mailbox) -> Script[None]:
        """Tells everything, until there was too much of it. Then one begins anew, from where one is."""
        while True:
            for note in (yield Wait(box)):
                match note.kind:
                    case "joined":
                        yield from self._until(note.position)
                    case "event":
                        yield from self._events([note.row])
                    case "state":
                        self._position = note.position
                        yield Say(self._standing(note.row, note.position))
                    case "lost":
                        return

    def _until(self, position: str) -> Script[None]:
        """Tells what happened before the hub began to read for it, if it wants to know."""
        is_there = self._position is None or not self._kinds
        while not is_there:
            *rows, last = yield from insist(lambda: self._next_page(position))
            yield from self._events(rows)
            self._position = last["position"]
            is_there = len(rows) < _PAGE
        self._position = position

    def _next_page(self, position: str) -> Plan[list[Row]]:
        return read(
            "stream",
            after=self._position,
            until=position,
            job_types=None if self._types is None else sorted(self._types),
            kinds=sorted(self._kinds),
            limit=_PAGE,
        )

    def _events(self, rows: Sequence[Row]) -> Script[None]:
        for row in rows:
            self._position = row["position"]
            yield Say(self._event(row, row["position"]))


def _place_in(after: str | None) -> tuple[int, int | None]:
    """The last event that was told, and the token if the end was."""
    if not after:
        return 0, None
    found = _POSITION.fullmatch(options.text(after, "after"))
    if found is None:
        raise InvalidOption(f"{options.shown(after)} is not a position in the stream of a job")
    return int(found[1]), None if found[2] is None else int(found[2])


def _until(rows: Sequence[Row], seq: int) -> list[Row]:
    return [row for row in rows if row["seq"] <= seq]


def _last_changed_at(job: Job) -> datetime:
    reported = None if job.record is None else job.record.last_report_at
    known = (job.created_at, job.claimed_at, job.started_at, reported, job.finished_at)
    return max(moment for moment in known if moment is not None)
