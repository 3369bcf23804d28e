"""Follows jobs in one event loop, however many, until they have ended."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import re
import signal
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import psycopg

from howdah.checks import options
from howdah.cli.process.log_format import outages_remarked
from howdah.cli.render.output import remark
from howdah.db.outage import is_temporary
from howdah.errors import DatabaseUnavailable, InvalidInput, JobNotFound, WorkflowNotFound
from howdah.model.event import EVENT_KINDS
from howdah.model.results import QueuePosition, TypeStats
from howdah.queue import JobQueue
from howdah.verbs.events import is_behind
from howdah.verbs.flows import Flow
from howdah.watch.watch import KINDS, Update, UpdateKind

# What is watched

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs and which kinds of updates.

    types: None if none are watched; empty if all of them are. workflow: the only thing that is watched, if it is given.
    """

    ids: tuple[uuid.UUID, ...]
    types: tuple[str, ...] | None
    kinds: frozenset[UpdateKind] = frozenset(KINDS)
    after: str | None = None
    until_done: bool = False
    workflow: Flow | None = None


def wanted(
    names: Iterable[str], kinds: frozenset[UpdateKind] = frozenset(KINDS), after: str | None = None, *, until_done: bool
) -> Wanted:
    """Ids and types: a name in the form of a UUID is an id. Raises InvalidInput."""
    given = list(dict.fromkeys(names))
    ids = tuple(uuid.UUID(name) for name in given if _ID.fullmatch(name))
    types = tuple(options.job_type(name) for name in given if not _ID.fullmatch(name))
    if after is not None and (len(ids) > 1 or (ids and types)):
        raise InvalidInput("--after is for one job, or for types: each of several jobs has its own position")
    watches_types = bool(types) or not ids
    return Wanted(
        ids=ids,
        types=types if watches_types else None,
        kinds=kinds,
        after=after,
        until_done=until_done and watches_types,
    )


def parse_kinds(text: str) -> frozenset[UpdateKind]:
    """For argparse, which shows the error."""
    named = {part.strip() for part in text.split(",")}
    chosen = frozenset(kind for kind in KINDS if kind in named)
    if len(chosen) < len(named):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of kinds: write some of {','.join(KINDS)}")
    return chosen


# Watching

TERMINATED: Final = 143

_FRAME: Final = 0.1
_LOOK_EVERY: Final = 1.0
_SILENT_LOOKS: Final = 3
"""The number of looks in a row without a live job and without an update, before that counts as the end."""
_PLACES_EVERY: Final = 2.0
_MOST_PLACES: Final = 20
"""The number of jobs whose places are read: each costs a look at the jobs before it."""


class View(contextlib.ExitStack):
    """Shows updates. Entered while it does."""

    shows_places = False
    """Whether it wants the places of waiting jobs regularly."""

    def show(self, update: Update, place: QueuePosition | None) -> None:
        raise NotImplementedError

    def show_place(self, job_id: uuid.UUID, place: QueuePosition) -> None:
        """The new place of a waiting job."""

    def refresh(self) -> None:
        """Called ten times a second."""

    def remark(self, said: str) -> None:
        remark(f"howdah: {said}")


@dataclasses.dataclass(frozen=True, slots=True)
class Beginning:
    """The position of the stream at the start, and how many jobs had failed or were cancelled then."""

    position: str = ""
    unsuccessful: int = 0


async def with_workflow(queue: JobQueue, wanted: Wanted, name: str | None, key: str | None) -> Wanted:
    """With the workflow of this name or id, or the one that has the only id that is given. Raises WorkflowNotFound."""
    if name is not None:
        found = await queue.workflows.aget(name, key)
        return dataclasses.replace(wanted, types=None, workflow=found)
    if len(wanted.ids) == 1 and wanted.types is None:
        try:
            await queue.aget(wanted.ids[0])
        except JobNotFound:
            with contextlib.suppress(WorkflowNotFound):
                return dataclasses.replace(wanted, ids=(), workflow=await queue.workflows.aget(wanted.ids[0]))
    return wanted


async def first_look(queue: JobQueue, wanted: Wanted) -> Beginning:
    """An error at the start is raised; later ones are waited out."""
    if wanted.workflow is not None:
        return Beginning()
    if wanted.types is None:
        await queue.aget(wanted.ids[0])
        return Beginning()
    position = await queue.astream_position()
    stats = await queue.astats()
    for job_type in wanted.types:
        if job_type not in stats:
            remark(f"there are no jobs of type {job_type} yet")
    return Beginning(position, _unsuccessful(_chosen(stats, wanted)))


class Watcher:
    """One call of the command."""

    def __init__(self, queue: JobQueue, wanted: Wanted, view: View, before: Beginning) -> None:
        self._queue = queue
        self._wanted = wanted
        self._view = view
        self._ids = frozenset(wanted.ids)
        self._with_place = frozenset(wanted.ids[:_MOST_PLACES])
        self._waiting: set[uuid.UUID] = set()
        self._unsuccessful_before = before.unsuccessful
        self._seen_unsuccessful = False
        self._position = before.position if wanted.after is None else wanted.after
        self._received = 0

    async def run(self) -> int:
        """Returns the exit code: 1 if one of the jobs has failed or was cancelled."""
        loop = asyncio.get_running_loop()
        stopping = asyncio.Event()
        with contextlib.suppress(ValueError, RuntimeError):
            # Ending at once would leave the terminal without its cursor.
            loop.add_signal_handler(signal.SIGTERM, stopping.set)
        with outages_remarked(lambda said: _soon(loop, self._view.remark, said)):
            return await self._follow(stopping)

    async def _follow(self, stopping: asyncio.Event) -> int:
        stop = asyncio.create_task(stopping.wait())
        beside = {asyncio.create_task(each) for each in (self._refresh(), self._renew_places())}
        needed = {asyncio.create_task(self._watch_job(id)) for id in self._wanted.ids}
        if self._wanted.workflow is not None:
            needed.add(asyncio.create_task(self._watch_workflow(self._wanted.workflow)))
        if self._wanted.types is not None:
            stream = asyncio.create_task(self._watch_types(self._wanted.types))
            (beside if self._wanted.until_done else needed).add(stream)
        if self._wanted.until_done:
            needed.add(asyncio.create_task(self._until_done()))
        every = (stop, *beside, *needed)
        try:
            while needed:
                ended, _ = await asyncio.wait((stop, *beside, *needed), return_when=asyncio.FIRST_COMPLETED)
                for task in ended:
                    task.result()
                if stop in ended:
                    return TERMINATED
                needed -= ended
            return 1 if self._seen_unsuccessful else 0
        finally:
            await _cancel(every)

    async def _watch_job(self, job_id: uuid.UUID) -> None:
        # Progress has the final status, whether it is shown or not.
        kinds = self._kinds("progress")
        end: Update | None = None
        async with aclosing(self._queue.awatch(job_id, kinds=kinds, after=self._wanted.after)) as updates:
            async for update in updates:
                # For a job that had ended already, the end comes first; it is shown last.
                if update.job is not None and update.job.ended:
                    end = update
                else:
                    await self._show(update)
        if end is not None and end.job is not None:
            await self._show(end)
            self._seen_unsuccessful |= end.job.status != "completed"

    async def _watch_workflow(self, flow: Flow) -> None:
        async with aclosing(flow.awatch(kinds=self._kinds("progress"), after=self._wanted.after)) as updates:
            async for update in updates:
                await self._show(update)
                if update.workflow is not None and update.workflow.ended:
                    self._seen_unsuccessful |= update.workflow.status != "completed"

    async def _watch_types(self, types: Sequence[str]) -> None:
        stream = self._queue.awatch_all(types=list(types) or None, kinds=self._kinds(), after=self._position)
        async with aclosing(stream) as updates:
            async for update in updates:
                if update.job_id not in self._ids:
                    await self._show(update)
                self._position = update.position
                self._received += 1

    def _kinds(self, *besides: UpdateKind) -> list[UpdateKind]:
        return [kind for kind in KINDS if kind in self._wanted.kinds or kind in besides]

    async def _show(self, update: Update) -> None:
        is_waiting = update.job is not None and update.job.status == "pending" and update.job_id in self._with_place
        if update.job is not None:
            (self._waiting.add if is_waiting else self._waiting.discard)(update.job_id)
        self._view.show(update, await self._place(update.job_id) if is_waiting else None)
        # Lets the other tasks run, however fast updates come: drawing, and the interruption.
        await asyncio.sleep(0)

    # Beside the streams

    async def _refresh(self) -> None:
        while True:
            self._view.refresh()
            await asyncio.sleep(_FRAME)

    async def _renew_places(self) -> None:
        while True:
            await asyncio.sleep(_PLACES_EVERY)
            for job_id in list(self._waiting) if self._view.shows_places else ():
                if (place := await self._place(job_id)) is not None:
                    self._view.show_place(job_id, place)

    async def _place(self, job_id: uuid.UUID) -> QueuePosition | None:
        with contextlib.suppress(JobNotFound), _without_outages():
            return await self._queue.aqueue_position(job_id)
        return None

    async def _until_done(self) -> None:
        """Returns when the types have no live jobs, and all updates were shown."""
        silent = received = 0
        while True:
            with _without_outages():
                stats = _chosen(await self._queue.astats(), self._wanted)
                is_live = any(each.pending + each.claimed + each.running for each in stats.values())
                silent = 0 if is_live or self._received > received else silent + 1
                received = self._received
                if silent >= _SILENT_LOOKS and not await self._is_behind():
                    self._seen_unsuccessful |= _unsuccessful(stats) > self._unsuccessful_before
                    return
            await asyncio.sleep(_LOOK_EVERY)

    async def _is_behind(self) -> bool:
        """Whether there are events that were not shown yet. Progress is not stored, so for that the silent looks must do."""
        kinds = [kind for kind in EVENT_KINDS if kind in self._wanted.kinds]
        plan = is_behind(self._position, self._wanted.types or None, kinds)
        return bool(kinds) and await self._queue._database.arun(plan)


def _chosen(stats: Mapping[str, TypeStats], wanted: Wanted) -> dict[str, TypeStats]:
    return {name: each for name, each in stats.items() if not wanted.types or name in wanted.types}


def _unsuccessful(stats: Mapping[str, TypeStats]) -> int:
    return sum(each.failed + each.cancelled for each in stats.values())


@contextlib.contextmanager
def _without_outages() -> Iterator[None]:
    """Ignores outages: the streams report them, and the next look reads again."""
    try:
        yield
    except (DatabaseUnavailable, psycopg.Error) as error:
        if not is_temporary(error):
            raise


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks repeatedly: on Python 3.11, psycopg may lose a cancellation that comes with an answer."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=_FRAME)
    # One failure is raised; retrieving the others keeps asyncio from logging them.
    await asyncio.gather(*tasks, return_exceptions=True)


def _soon(loop: asyncio.AbstractEventLoop, call: Any, said: str) -> None:
    # The loop may have ended before the thread that calls this.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call, said)
