"""Readers: what the hub reads for all its subscribers together, and which of them gets what.

Each sends a fixed number of statements, however many subscribers it has. A job's row is read before its events, and
its message is put after theirs: so all events of a job are delivered before its end.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar

from howdah.db.adapters import Ids
from howdah.db.plan import Plan, Row, call, read
from howdah.errors import JobNotFound, PositionLost
from howdah.model.job import FINAL_STATUSES
from howdah.model.progress import number_in
from howdah.verbs.workflows import not_found as workflow_not_found
from howdah.watch.mailbox import Mailbox, Message

R = TypeVar("R")

Run: TypeAlias = Callable[[Plan[Any]], Any]
Types: TypeAlias = frozenset[str] | None
"""Names of job types; None: all there are."""

NO_TYPES: Final[frozenset[str]] = frozenset()

_IDS, _ROWS = 5_000, 500
"""How many ids one statement names, and how many whole jobs one answers with."""

PAGE: Final = 500
"""How many events one statement answers with at most for one job, where few are behind."""

_LIVE_PAGE, _LIVE_PAGES = 1_000, 10
"""How many events of the stream one statement answers with, and how many statements one round has for them."""

_OLDEST: Final = timedelta(hours=1)
"""How long before a job was made its first event may seem to have happened; see ``record_events``."""


@dataclasses.dataclass(eq=False, slots=True)
class JobWatch:
    """A watch of one job: ``kinds`` of its events, those after ``seq``.

    types: the job's type.
    """

    mailbox: Mailbox
    job_id: uuid.UUID
    types: frozenset[str]
    kinds: frozenset[str]
    progress: bool
    seq: int
    delivered: Row | None = None
    """The last row whose message was put."""


@dataclasses.dataclass(eq=False, slots=True)
class StreamWatch:
    """A watch of all jobs of some types, from the moment on that it is joined."""

    mailbox: Mailbox
    types: Types
    kinds: frozenset[str]
    progress: bool

    @property
    def event_kinds(self) -> frozenset[str]:
        """What has to be read for it: the end of a job is known by its status event."""
        return self.kinds | {"status"} if self.progress else self.kinds

    def wants(self, row: Row) -> bool:
        return self.types is None or row["job_type"] in self.types


@dataclasses.dataclass(eq=False, slots=True)
class WorkflowStreamWatch(StreamWatch):
    """A watch of the jobs of a workflow.

    types: those of its nodes, and its name: notifications of them are asked for. Jobs that others have spawned may be of further types.
    """

    workflow_id: uuid.UUID

    def wants(self, row: Row) -> bool:
        return bool(row["workflow_id"] == self.workflow_id)


@dataclasses.dataclass(eq=False, slots=True)
class WorkflowWatch:
    """A watch of a workflow as a whole, until it has ended. counts: also for how many of its jobs have ended."""

    mailbox: Mailbox
    workflow_id: uuid.UUID
    types: frozenset[str]
    counts: bool


@dataclasses.dataclass(eq=False, slots=True)
class EndWait:
    """A wait for the ends of jobs; with ``counts``, also for how far those are that have not ended."""

    mailbox: Mailbox
    ids: set[uuid.UUID]
    types: frozenset[str]
    counts: bool
    delivered: dict[str, tuple[int, int]] | None = None
    """The last counts whose message was put."""


Subscription: TypeAlias = JobWatch | StreamWatch | WorkflowWatch | EndWait


def seq_of(row: Row) -> int:
    """How many events a job has had."""
    report = row["progress_report"]
    return int(number_in(report.get("seq")) or 0) if isinstance(report, dict) else 0


def has_ended(row: Row) -> bool:
    return row["status"] in FINAL_STATUSES


def _since(row: Row) -> datetime:
    """When a job's first event may have happened. What plain SQL says of ``created_at`` may lie ahead."""
    made: datetime = min(row["created_at"], row["first_due_at"])
    return made - _OLDEST


def union(types: Iterable[Types]) -> Types:
    every: set[str] = set()
    for each in types:
        if each is None:
            return None
        every |= each
    return frozenset(every)


class Reader:
    """What the readers have in common.

    to_wake: where to add the mailboxes that got messages.
    """

    def __init__(self, to_wake: set[Mailbox]) -> None:
        self.subscriptions: set[Any] = set()
        self.more = False
        """Whether there is more to read at once."""
        self._to_wake = to_wake

    def add(self, subscription: Any) -> None:
        raise NotImplementedError

    def remove(self, subscription: Any) -> None:
        """Removes it, if it is there."""
        raise NotImplementedError

    def read(self, run: Run) -> bool:
        """One round. True if there was anything new."""
        raise NotImplementedError

    def _put(self, subscription: Subscription, message: Message, key: Any = None) -> None:
        subscription.mailbox.put(message, key)
        self._to_wake.add(subscription.mailbox)

    def _fail(self, subscription: Subscription, error: Exception) -> None:
        subscription.mailbox.fail(error)
        self._to_wake.add(subscription.mailbox)


class JobReader(Reader):
    """Reads for watches of single jobs."""

    def __init__(self, to_wake: set[Mailbox]) -> None:
        super().__init__(to_wake)
        self._watches: dict[uuid.UUID, list[JobWatch]] = {}
        self._marks: dict[uuid.UUID, str | None] = {}
        self._rows: dict[uuid.UUID, Row] = {}

    def add(self, watch: JobWatch) -> None:
        self.subscriptions.add(watch)
        self._watches.setdefault(watch.job_id, []).append(watch)

    def remove(self, watch: JobWatch) -> None:
        self.subscriptions.discard(watch)
        watches = self._watches.get(watch.job_id, [])
        if watch in watches:
            watches.remove(watch)
        if not watches:
            for known in (self._watches, self._marks, self._rows):
                known.pop(watch.job_id, None)

    def read(self, run: Run) -> bool:
        self.more = False
        changed = self._look(run)
        has_events = self._deliver_events(run)
        self._deliver_states()
        return bool(changed or has_events)

    def _look(self, run: Run) -> list[uuid.UUID]:
        marks: dict[uuid.UUID, str] = {}
        for ids in chunks(self._watches, _IDS):
            marks.update((row["id"], row["mark"]) for row in run(read("watched", ids=Ids(ids))))
        changed = [id for id in self._watches if id not in self._rows or self._marks[id] != marks.get(id)]
        found = _jobs(run, changed, marks.keys())
        for id in changed:
            if id not in found:
                self._give_up(id)
                continue
            self._marks[id] = marks.get(id)
            # It may have been read a moment before its mark was.
            if self._rows.get(id) != found[id]:
                self._rows[id] = found[id]
        return changed

    def _give_up(self, id: uuid.UUID) -> None:
        for watch in list(self._watches[id]):
            self._fail(watch, _not_found(id))
            self.remove(watch)

    def _deliver_events(self, run: Run) -> bool:
        behind = [
            watch
            for watches in self._watches.values()
            for watch in watches
            if watch.kinds and watch.seq < seq_of(self._rows[watch.job_id]) and watch.mailbox.has_room()
        ]
        pairs = sorted({(watch.job_id, watch.seq) for watch in behind})
        if not pairs:
            return False
        limit = min(PAGE, max(10 * PAGE // len(pairs), 20))
        pages: dict[tuple[uuid.UUID, int], list[Row]] = {pair: [] for pair in pairs}
        kinds = sorted(frozenset[str]().union(*(watch.kinds for watch in behind)))
        for some in chunks(pairs, _IDS):
            sinces = [_since(self._rows[id]) for id, _ in some]
            places = {"ids": [id for id, _ in some], "afters": [after for _, after in some], "sinces": sinces}
            for row in run(read("events_of", **places, since=min(sinces), kinds=kinds, limit=limit)):
                pages[row["job_id"], row["after"]].append(row)
        messages = {pair: [Message("event", row) for row in page] for pair, page in pages.items()}
        for watch in behind:
            self._deliver_page(watch, messages[watch.job_id, watch.seq], limit)
        return True

    def _deliver_page(self, watch: JobWatch, page: list[Message], limit: int) -> None:
        rows = [message.row for message in page if message.row is not None]
        for message, row in zip(page, rows, strict=True):
            if row["kind"] in watch.kinds:
                self._put(watch, message)
        last = rows[-1]["seq"] if rows else 0
        # All events that the row counts were there to be read, because the row was read before.
        watch.seq = last if len(page) == limit else max(last, seq_of(self._rows[watch.job_id]))
        self.more = self.more or len(page) == limit

    def _deliver_states(self) -> None:
        for id, watches in list(self._watches.items()):
            row = self._rows[id]
            waiting = [each for each in watches if each.delivered is not row]
            if not waiting:
                continue
            message = Message("end" if has_ended(row) else "state", row)
            for watch in waiting:
                if not has_ended(row):
                    watch.delivered = row
                    if watch.progress:
                        self._put(watch, message, key="state")
                elif not watch.kinds or watch.seq >= seq_of(row):
                    self._put(watch, message, key="state")
                    self.remove(watch)


class StreamReader(Reader):
    """Reads for watches of all jobs."""

    def __init__(self, to_wake: set[Mailbox]) -> None:
        super().__init__(to_wake)
        self._watches: list[StreamWatch] = []
        self._joining: list[StreamWatch] = []
        self._position: str | None = None
        self._marks: dict[uuid.UUID, str] = {}
        self._rows: dict[uuid.UUID, Row] = {}
        self._fresh: set[uuid.UUID] = set()
        self._ended: set[uuid.UUID] = set()

    def add(self, watch: StreamWatch) -> None:
        self.subscriptions.add(watch)
        self._joining.append(watch)

    def remove(self, watch: StreamWatch) -> None:
        self.subscriptions.discard(watch)
        for watches in (self._watches, self._joining):
            if watch in watches:
                watches.remove(watch)

    def read(self, run: Run) -> bool:
        """One round. Watches that have come meanwhile begin where it ends."""
        if not self._watches and not self._joining:
            self._position = None
            return False
        self._look(run)
        try:
            has_events = self._deliver_events(run)
        except PositionLost as error:
            self._give_up(error)
            return False
        self._watches = [watch for watch in self._watches if not watch.mailbox.is_lost]
        if self.more:
            # The jobs' rows, and watches that have just come, are served after all of the events.
            return has_events
        self._take_in(_jobs(run, self._ended))
        self._ended.clear()
        found = bool(self._fresh) or has_events
        self._deliver_states(self._watches, self._fresh)
        self._fresh.clear()
        self._join()
        return found

    def _look(self, run: Run) -> None:
        """Finds the jobs that have changed since their last message."""
        wanting = [watch for watch in (*self._watches, *self._joining) if watch.progress]
        marks: dict[uuid.UUID, str] = {}
        if wanting:
            rows = run(read("reporting", **self._jobs_of(wanting)))
            marks = {row["id"]: row["mark"] for row in rows}
        changed = [id for id in marks.keys() | self._marks.keys() if marks.get(id) != self._marks.get(id)]
        self._take_in(_jobs(run, changed if wanting else (), marks.keys()))
        self._marks = marks

    def _take_in(self, found: dict[uuid.UUID, Row]) -> None:
        self._fresh.update(id for id, row in found.items() if row != self._rows.get(id))
        self._rows.update(found)

    def _deliver_events(self, run: Run) -> bool:
        self.more = False
        if self._position is None or not self._watches:
            if self._joining or self._position is None:
                self._position = run(call("stream_position"))[0]["stream_position"]
            return False
        filters = {
            "kinds": sorted(frozenset[str]().union(*(watch.event_kinds for watch in self._watches))),
            "limit": _LIVE_PAGE,
        }
        self.more = True
        pages = 0
        while self.more and pages < _LIVE_PAGES:
            *events, last = run(self._page(after=self._position, until=None, **filters))
            for row in events:
                self._deliver_event(row)
            self._ended |= self._ended_in(events)
            self._position = last["position"]
            self.more = last.get("seen", len(events)) == _LIVE_PAGE
            pages += 1
        return bool(events) or pages > 1

    def _jobs_of(self, watches: Iterable[StreamWatch]) -> dict[str, Any]:
        """Which jobs these are watches of, for ``reporting``."""
        types = union(watch.types for watch in watches)
        return {"job_types": None if types is None else sorted(types), "workflows": None}

    def _page(self, **filters: Any) -> Plan[list[Row]]:
        types = union(watch.types for watch in self._watches)
        return read("stream", job_types=None if types is None else sorted(types), **filters)

    def _deliver_event(self, row: Row) -> None:
        message = Message("event", row, row["position"])
        for watch in self._watches:
            if row["kind"] in watch.kinds and watch.wants(row):
                self._put(watch, message)

    def _ended_in(self, events: Iterable[Row]) -> set[uuid.UUID]:
        """Jobs that have ended: one may have been made and have ended between two looks."""
        wanting = [watch for watch in self._watches if watch.progress]
        return {
            row["job_id"]
            for row in events
            if row["kind"] == "status" and row["name"] in FINAL_STATUSES and any(watch.wants(row) for watch in wanting)
        }

    def _deliver_states(self, watches: Iterable[StreamWatch], ids: Collection[uuid.UUID]) -> None:
        wanting = [each for each in watches if each.progress]
        for id in ids if wanting else ():
            message = Message("state", self._rows[id], self._position or "")
            for watch in wanting:
                if watch.wants(self._rows[id]):
                    self._put(watch, message, key=id)
        for id in self._rows.keys() - self._marks.keys():
            del self._rows[id]

    def _join(self) -> None:
        for watch in self._joining:
            self._put(watch, Message("joined", position=self._position or ""))
        self._deliver_states(self._joining, self._marks.keys() & self._rows.keys())
        self._watches += self._joining
        self._joining = []

    def _give_up(self, error: PositionLost) -> None:
        for watch in (*self._watches, *self._joining):
            self._fail(watch, error)
        self._watches, self._joining, self._position = [], [], None


class WorkflowStreamReader(StreamReader):
    """Reads for watches of the jobs of workflows."""

    def _jobs_of(self, watches: Iterable[StreamWatch]) -> dict[str, Any]:
        return {"job_types": None, "workflows": _workflows_of(watches)}

    def _page(self, **filters: Any) -> Plan[list[Row]]:
        return read("stream_of", workflows=_workflows_of(self._watches), **filters)


def _workflows_of(watches: Iterable[StreamWatch]) -> list[uuid.UUID]:
    return list({watch.workflow_id for watch in watches if isinstance(watch, WorkflowStreamWatch)})


class WorkflowReader(Reader):
    """Reads for watches of workflows as a whole."""

    def __init__(self, to_wake: set[Mailbox]) -> None:
        super().__init__(to_wake)
        self._marks: dict[uuid.UUID, str] = {}

    def add(self, watch: WorkflowWatch) -> None:
        self.subscriptions.add(watch)
        # It gets the state of now.
        self._marks.pop(watch.workflow_id, None)

    def remove(self, watch: WorkflowWatch) -> None:
        self.subscriptions.discard(watch)

    def read(self, run: Run) -> bool:
        ids = {watch.workflow_id for watch in self.subscriptions}
        there = {row["id"]: row for some in chunks(ids, _ROWS) for row in run(read("watched_workflows", ids=Ids(some)))}
        counted = {watch.workflow_id for watch in self.subscriptions if watch.counts}
        changed = [
            id
            for id, row in there.items()
            if self._marks.get(id) != row["mark"] and (id in counted or row["status"] != "running")
        ]
        rows = {
            row["id"]: row for some in chunks(changed, _ROWS) for row in run(read("workflows_by_id", ids=Ids(some)))
        }
        self._marks = {id: row["mark"] for id, row in there.items()}
        for watch in list(self.subscriptions):
            self._deliver(watch, there, rows.get(watch.workflow_id))
        return bool(changed)

    def _deliver(self, watch: WorkflowWatch, there: Collection[uuid.UUID], row: Row | None) -> None:
        if watch.workflow_id not in there:
            self._fail(watch, workflow_not_found(watch.workflow_id))
            self.remove(watch)
        elif row is not None and row["status"] != "running":
            self._put(watch, Message("end", row))
            self.remove(watch)
        elif row is not None and watch.counts:
            self._put(watch, Message("whole", row), key="whole")


class EndReader(Reader):
    """Reads for waits for the ends of jobs."""

    def __init__(self, to_wake: set[Mailbox]) -> None:
        super().__init__(to_wake)
        self._waits: dict[uuid.UUID, list[EndWait]] = {}
        self._counting: list[EndWait] = []

    def add(self, wait: EndWait) -> None:
        self.subscriptions.add(wait)
        for id in wait.ids:
            self._waits.setdefault(id, []).append(wait)
        if wait.counts:
            self._counting.append(wait)

    def remove(self, wait: EndWait) -> None:
        self.subscriptions.discard(wait)
        for id in wait.ids:
            self._forget(id, wait)
        if wait in self._counting:
            self._counting.remove(wait)

    def _forget(self, id: uuid.UUID, wait: EndWait) -> None:
        waits = self._waits.get(id, [])
        if wait in waits:
            waits.remove(wait)
        if not waits:
            self._waits.pop(id, None)

    def read(self, run: Run) -> bool:
        """One round. True if a job has ended."""
        if not self._waits:
            return False
        gone = [row["id"] for ids in chunks(self._waits, _IDS) for row in run(read("gone", ids=Ids(ids)))]
        for ids in chunks(gone, _ROWS):
            self._deliver_ends(ids, _jobs(run, ids))
        # After the ends, so that no job is both.
        for wait, counted in self._counted(run).items():
            if counted != wait.delivered:
                wait.delivered = counted
                self._put(wait, Message("counts", dict(counted)), key="counts")
        return bool(gone)

    def _deliver_ends(self, ids: Iterable[uuid.UUID], found: dict[uuid.UUID, Row]) -> None:
        for id in ids:
            row = found.get(id)
            if row is not None and not has_ended(row):
                continue  # it was retried, and is waited for again
            for wait in list(self._waits[id]):
                if row is None:
                    self._fail(wait, _not_found(id))
                else:
                    self._put(wait, Message("end", row))
                    # Counts without the job may have been delivered before its end.
                    wait.delivered = None
                wait.ids.discard(id)
                self._forget(id, wait)

    def _counted(self, run: Run) -> dict[EndWait, dict[str, tuple[int, int]]]:
        """How many of each one's jobs are in each status, and the sum of how far they are."""
        counts: dict[EndWait, dict[str, tuple[int, int]]] = {wait: {} for wait in self._counting}
        members = ((id, party) for party, wait in enumerate(self._counting) for id in wait.ids)
        for some in chunks(members, _IDS):
            ids, parties = [id for id, _ in some], [party for _, party in some]
            for row in run(read("group", ids=ids, parties=parties)):
                counted = counts[self._counting[row["party"]]]
                jobs, percents = counted.get(row["status"], (0, 0))
                counted[row["status"]] = (jobs + row["jobs"], percents + row["percents"])
        return counts


def _jobs(run: Run, ids: Iterable[uuid.UUID], live: Collection[uuid.UUID] = ()) -> dict[uuid.UUID, Row]:
    """The whole rows of jobs, live or archived. live: those that were a moment ago, so that no archive is searched."""
    found: dict[uuid.UUID, Row] = {}
    missing = set(ids)
    for name, some in (("live_jobs", missing.intersection(live)), ("get_many", missing)):
        for chunk in chunks(some - found.keys(), _ROWS):
            found.update((row["id"], row) for row in run(read(name, ids=Ids(chunk))))
    return found


def chunks(items: Iterable[R], size: int) -> Iterator[list[R]]:
    source = iter(items)
    while chunk := list(islice(source, size)):
        yield chunk


def _not_found(id: uuid.UUID) -> JobNotFound:
    return JobNotFound(f"job {id} is gone: it was deleted or pruned")
