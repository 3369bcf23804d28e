"""The application: looks at the queue again and again, and does what the keys ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import ClassVar, Final

import psycopg
from rich.text import Text
from textual import on
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from howdah.cli.arguments.datetimes import now
from howdah.cli.commands.top import action, errand
from howdah.cli.commands.top.banner import time_of_day
from howdah.cli.commands.top.board import Board
from howdah.cli.commands.top.confirm import Confirm
from howdah.cli.commands.top.description import Known
from howdah.cli.commands.top.details import Details
from howdah.cli.commands.top.help import Help
from howdah.cli.commands.top.lines import Remarks, StatusLine
from howdah.cli.commands.top.rates import Rates
from howdah.cli.commands.top.snapshot import Snapshot, take
from howdah.cli.render.output import text
from howdah.cli.render.progress_text import short_id
from howdah.cli.render.terminal_escape import without_password
from howdah.errors import HowdahError, JobNotFound
from howdah.model.job import Job
from howdah.queue import JobQueue

_SLOW: Final = 3.0
"""Seconds without an answer before that is said."""
_STEP: Final = 10
"""By how much a priority is raised or lowered."""


class Top(App[int]):
    """``howdah top``. What it returns is the exit code."""

    INTERRUPTED: Final = 130
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "top.tcss"
    # Where not all tables have room, the one with the cursor gets it.
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
        """What the application ended by, if that was a fault of its own."""
        return self._exception

    def get_default_screen(self) -> Screen[None]:
        return self.board

    def on_mount(self) -> None:
        self._show(self._first)
        self.set_interval(self._every, self._tick)

    @on(errand.Answered)
    def _answered(self, message: errand.Answered) -> None:
        message.then()

    def _fatal_error(self) -> None:
        # Textual's own report shows the variables of every frame, and with them what jobs and DSNs hold.
        self._close_messages_no_wait()

    # Looking

    def _tick(self) -> None:
        if not self._frozen:
            self._look()
        self._show_remarks()

    def _look(self) -> None:
        """Asks for news, unless an answer is still awaited."""
        if self._asked_at is not None:
            return
        self._asked_at, self._ask_again = time.monotonic(), False
        if isinstance(self.screen, Details):
            details = self.screen
            errand.send(
                self,
                lambda: details.read(self._queue),
                lambda known: self._know(details, known),
                lambda error: self._lose(details, error),
            )
        else:
            view = self.board.view
            errand.send(self, lambda: take(self._queue, view, self._limit), self._show, self._miss)

    def _look_anew(self) -> None:
        """Asks for what is so after this moment: once more, if an answer is still awaited."""
        self._ask_again = self._asked_at is not None
        self._look()

    def _show(self, snapshot: Snapshot) -> None:
        self._rates.add(snapshot)
        self.board.show(snapshot, self._rates)
        self._heard()

    def _know(self, details: Details, known: Known) -> None:
        if details in self.screen_stack:
            details.show(known)
        self._heard()

    def _miss(self, error: Exception) -> None:
        """An outage is told; a fault of ours ends the application."""
        self._trouble = _message(error)
        self._asked_at = None
        self._show_remarks()

    def _lose(self, details: Details, error: Exception) -> None:
        """``_miss``, of a job that may be gone for ever."""
        if not isinstance(error, JobNotFound):
            self._miss(error)
        elif details is self.screen:
            self._asked_at = None
            self._say(str(error), "bold red")
            details.dismiss()
        else:
            # Closed already; or below another screen, and then asked again once it is back.
            self._heard()

    def _heard(self) -> None:
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
            yield Text("frozen: space goes on", "bold cyan")
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

    # Keys that do

    def action_cancel(self) -> None:
        if job := self._chosen_job():
            self._ask(f"Cancel {_name(job)}?", lambda: action.cancel(self._queue, job))

    def action_retry(self) -> None:
        if job := self._chosen_job():
            self._ask(f"Give {_name(job)} a new life?", lambda: action.retry(self._queue, job))

    def action_pause(self) -> None:
        job_type = self.screen.job.job_type if isinstance(self.screen, Details) else self.board.job_type
        if job_type is None:
            self._say("no type is selected: choose a lane or a job")
        elif self.board.is_paused(job_type):
            self._ask(f"Resume {job_type}?", lambda: action.resume(self._queue, job_type))
        else:
            self._ask(f"Pause {job_type}?", lambda: action.pause(self._queue, job_type))

    def action_priority(self, direction: int) -> None:
        job = self._chosen_job()
        if job is not None and job.status != "pending":
            self._say(f"{_name(job)} does not wait: its priority has no meaning any more")
        elif job is not None:
            priority = job.priority + direction * _STEP
            self._ask(
                f"Change the priority of {_name(job)} from {job.priority} to {priority}?",
                lambda: action.reprioritise(self._queue, job, priority),
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
        errand.send(self, work, self._done, self._failed)

    def _done(self, outcome: str) -> None:
        self._say(outcome)
        self._look_anew()

    def _failed(self, error: Exception) -> None:
        self._say(f"not done: {_message(error)}", "bold red")

    def _say(self, message: str, style: str = "") -> None:
        for screen in self.screen_stack:
            for line in screen.query(StatusLine):
                line.say(message, style)


def _name(job: Job) -> str:
    return f"{job.job_type} {short_id(job.id)}"


def _message(error: Exception) -> str:
    """What an outage or a refusal says of itself, without a password. Anything else is a fault of ours."""
    if not isinstance(error, HowdahError | psycopg.Error):
        raise error
    return without_password(" ".join(str(error).split()))
