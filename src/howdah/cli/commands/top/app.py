"""The application: reads the queue again and again, and does what the keys ask for."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final, TypeVar

import psycopg
from rich.text import Text
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.top.board import Board
from howdah.cli.commands.top.details import Details, Known
from howdah.cli.commands.top.dialogs import Confirm, Help, Remarks, StatusLine
from howdah.cli.commands.top.plain import time_of_day
from howdah.cli.commands.top.snapshot import Rates, Snapshot, take
from howdah.cli.render.output import text
from howdah.cli.render.progress import short_id
from howdah.cli.render.terminal_escape import without_password
from howdah.errors import HowdahError, JobNotFound
from howdah.model.job import Job
from howdah.queue import JobQueue

# Actions


def cancel(queue: JobQueue, job: Job) -> str:
    changed = queue.cancel(job)
    now = queue.get(job)
    if now.status == "cancelled":
        return f"{_name(job)} {'is cancelled' if changed else 'was cancelled already'}"
    if now.ended:
        return f"{_name(job)} has ended as {now.status}: nothing was changed"
    return f"{_name(job)} is running, and {'was' if changed else 'was already'} asked to stop"


def retry(queue: JobQueue, job: Job) -> str:
    if queue.retry(job):
        return f"{_name(job)} is pending again, with all its attempts"
    now = queue.get(job)
    if now.ended:
        return f"{_name(job)} stays {now.status}: a live job has its key {now.key!r}"
    return f"{_name(job)} is {now.status}: only a job that has ended can be retried"


def pause(queue: JobQueue, job_type: str) -> str:
    return f"{job_type} is paused" if queue.pause(job_type) else f"{job_type} was paused already"


def resume(queue: JobQueue, job_type: str) -> str:
    return f"{job_type} resumed" if queue.resume(job_type) else f"{job_type} was not paused"


def reprioritise(queue: JobQueue, job: Job, priority: int) -> str:
    if queue.reprioritise(job, priority):
        return f"{_name(job)} has priority {priority}"
    return f"{_name(job)} is not waiting any more: its priority stays {job.priority}"


def _name(job: Job) -> str:
    return f"{job.job_type} {short_id(job.id)}"


# Calls of the database, beside the screen

T = TypeVar("T")


class Answered(Message):
    """A call has returned; ``then`` handles its answer, on the screen's thread."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__()
        self.then = then


def send(
    app: App[Any], work: Callable[[], T], then: Callable[[T], None], otherwise: Callable[[Exception], None]
) -> None:
    """Calls ``work`` in a thread; afterwards the app calls ``then`` or ``otherwise``."""

    def run() -> None:
        try:
            back = functools.partial(then, work())
        except Exception as error:  # noqa: BLE001
            back = functools.partial(otherwise, error)
        # The screen may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            app.post_message(Answered(back))

    # Not a thread of the loop's executor, which is joined at the end: the database may not answer for long.
    threading.Thread(target=run, name="howdah-top", daemon=True).start()


# The application

_SLOW: Final = 3.0
"""Seconds without an answer, before the screen says so."""
_STEP: Final = 10
"""By how much a priority is raised or lowered."""


class Top(App[int]):
    """``howdah top``. What it returns is the exit code."""

    INTERRUPTED: Final = 130
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    # On a low screen, only the table with the cursor is shown.
    VERTICAL_BREAKPOINTS = [(0, "-short"), (18, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "help", key_display="?"),
        Binding("c", "cancel", "cancel"),
        Binding("r", "retry", "retry"),
        Binding("p", "pause", "pause"),
        Binding("plus", "priority(1)", "raise", key_display="+", show=False),
        Binding("minus", "priority(-1)", "lower", key_display="-", show=False),
        Binding("space", "freeze", "freeze"),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "interrupt", "interrupt", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "suspend", show=False, priority=True),
    ]

    def __init__(
        self, queue: JobQueue, first: Snapshot, where: str, *, every: timedelta, limit: int, readonly: bool
    ) -> None:
        super().__init__()
        self._queue = queue
        self._first = first
        self._rates = Rates()
        self._every = every.total_seconds()
        self._limit = limit
        self._readonly = readonly
        self._frozen = False
        self._asked_at: float | None = None
        self._answered_at = now()
        self._ask_again = False
        self._trouble: str | None = None
        self.board = Board(where, queue.schema)

    @property
    def failure(self) -> Exception | None:
        """The exception that ended the application, if one did."""
        return self._exception

    def get_default_screen(self) -> Screen[None]:
        return self.board

    def on_mount(self) -> None:
        self._show(self._first)
        self.set_interval(self._every, self._tick)

    @on(Answered)
    def _answered(self, message: Answered) -> None:
        if self.is_running:
            message.then()

    def _fatal_error(self) -> None:
        # Textual's report would show the variables of every frame, with the data of jobs and DSNs.
        self._close_messages_no_wait()

    # Looking

    def _tick(self) -> None:
        if not self.is_running:
            # The application ends, and its screens are gone already.
            return
        if not self._frozen:
            self._look()
        self._show_remarks()

    def _look(self) -> None:
        """Reads the state, unless an answer is still awaited."""
        if self._asked_at is not None:
            return
        self._asked_at, self._ask_again = time.monotonic(), False
        if isinstance(self.screen, Details):
            details = self.screen
            send(
                self,
                lambda: details.read(self._queue),
                lambda known: self._know(details, known),
                lambda error: self._lose(details, error),
            )
        else:
            view = self.board.view
            send(self, lambda: take(self._queue, view, self._limit), self._show, self._miss)

    def _look_anew(self) -> None:
        """Reads the state after now: once more, if an answer is still awaited."""
        self._ask_again = self._asked_at is not None
        self._look()

    def _show(self, snapshot: Snapshot) -> None:
        self._rates.add(snapshot)
        self.board.show(snapshot, self._rates)
        self._answered_now()

    def _know(self, details: Details, known: Known) -> None:
        if details in self.screen_stack:
            details.show(known)
        self._answered_now()

    def _miss(self, error: Exception) -> None:
        """Reports an outage; a bug of ours ends the application."""
        self._trouble = _message(error)
        self._asked_at = None
        self._show_remarks()

    def _lose(self, details: Details, error: Exception) -> None:
        """``_miss``, for a job that may have been removed."""
        if not isinstance(error, JobNotFound):
            self._miss(error)
        elif details is self.screen:
            self._asked_at = None
            self._say(str(error), "bold red")
            details.dismiss()
        else:
            # Closed already; or below another screen, and then read again later.
            self._answered_now()

    def _answered_now(self) -> None:
        self._asked_at, self._trouble, self._answered_at = None, None, now()
        self._show_remarks()
        if self._ask_again:
            self._look()

    def _show_remarks(self) -> None:
        remarks = Text("  ").join(self._remarks())
        for screen in self.screen_stack:
            for line in screen.query(Remarks):
                line.show(remarks)

    def _remarks(self) -> Iterator[Text]:
        if self._readonly:
            yield Text("read-only", "magenta")
        if self._frozen:
            yield Text("frozen: press space to continue", "bold cyan")
        elif self._trouble is not None or (self._asked_at is not None and time.monotonic() - self._asked_at > _SLOW):
            yield Text(f"no answer since {time_of_day(self._answered_at)}, trying again", "bold red")
            if self._trouble is not None:
                yield text(self._trouble, "red")

    # Keys that change nothing

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_freeze(self) -> None:
        self._frozen = not self._frozen
        self._tick()

    async def action_quit(self) -> None:
        self.exit(0)

    def action_interrupt(self) -> None:
        self.exit(self.INTERRUPTED)

    @on(Board.ViewChosen)
    def _view(self) -> None:
        self._look_anew()

    @on(Board.JobChosen)
    def _details(self, message: Board.JobChosen) -> None:
        self.push_screen(Details(message.job), lambda _: self._look_anew())
        self._look_anew()

    # Keys that change something

    def action_cancel(self) -> None:
        if job := self._chosen_job():
            self._ask(f"Cancel {_name(job)}?", lambda: cancel(self._queue, job))

    def action_retry(self) -> None:
        if job := self._chosen_job():
            self._ask(f"Retry {_name(job)}?", lambda: retry(self._queue, job))

    def action_pause(self) -> None:
        job_type = self.screen.job.job_type if isinstance(self.screen, Details) else self.board.job_type
        if job_type is None:
            self._say("no type is selected: choose a type or a job")
        elif self.board.is_paused(job_type):
            self._ask(f"Resume {job_type}?", lambda: resume(self._queue, job_type))
        else:
            self._ask(f"Pause {job_type}?", lambda: pause(self._queue, job_type))

    def action_priority(self, direction: int) -> None:
        job = self._chosen_job()
        if job is not None and job.status != "pending":
            self._say(f"{_name(job)} is not waiting: its priority has no effect any more")
        elif job is not None:
            priority = job.priority + direction * _STEP
            self._ask(
                f"Change the priority of {_name(job)} from {job.priority} to {priority}?",
                lambda: reprioritise(self._queue, job, priority),
            )

    def _chosen_job(self) -> Job | None:
        job = self.screen.job if isinstance(self.screen, Details) else self.board.job
        if job is None:
            self._say("no job is selected: go to the jobs with tab")
        return job

    def _ask(self, question: str, work: Callable[[], str]) -> None:
        if self._readonly:
            self._say("nothing is changed: this is --readonly")
        else:
            self.push_screen(Confirm(text(question)), lambda yes: self._do(work) if yes else self._say("not done"))

    def _do(self, work: Callable[[], str]) -> None:
        self._say("…")
        send(self, work, self._done, self._failed)

    def _done(self, outcome: str) -> None:
        self._say(outcome)
        self._look_anew()

    def _failed(self, error: Exception) -> None:
        self._say(f"not done: {_message(error)}", "bold red")

    def _say(self, message: str, style: str = "") -> None:
        for screen in self.screen_stack:
            for line in screen.query(StatusLine):
                line.say(message, style)


def _message(error: Exception) -> str:
    """The message of an outage or a refusal, without a password. Raises any other exception: it is a bug of ours."""
    if not isinstance(error, HowdahError | psycopg.Error):
        raise error
    return without_password(" ".join(str(error).split()))
