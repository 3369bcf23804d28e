"""What ``watch`` shows of updates: the bars, and the lines above them and in a pipe. No database is needed to look."""

from __future__ import annotations

import io
import re
import uuid
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from howdah.cli.commands.watch.lines import Board, as_json, line_above, plain_line
from howdah.cli.commands.watch.picture import Picture, picture
from howdah.cli.commands.watch.watcher import Wanted, wanted
from howdah.errors import InvalidInput
from howdah.model.job import Job
from howdah.model.results import QueuePosition
from howdah.model.workflow import Workflow, WorkflowProgress
from howdah.watch.watch import Update
from tests.cli.sample import HOSTILE, event_update, job, moment, record, stands, still
from tests.cli.test_terminal_escape import dangers

__all__ = ["still"]
pytestmark = pytest.mark.usefixtures("still")

PLACE = QueuePosition(ahead=12, exact=True, per_second=1.0, starts_at=moment(400), because=None)


def board_of(*jobs: Job) -> Board:
    board = Board(each.id for each in jobs)
    for each in jobs:
        board.take(stands(each))
    return board


def drawn(board: Board, width: int = 120, height: int = 20) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(picture(board, width, height) or "")
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip("\n").split("\n")


# What is news


def test_unchanged_progress_is_shown_once() -> None:
    board = Board([job().id])
    assert board.take(stands(job(percent=1)))
    assert not board.take(stands(job(percent=1)))
    assert board.take(stands(job(percent=2)))
    assert board.take(stands(job(percent=2, stalled=True)))


def test_an_end_is_shown_once_however_many_updates_have_it() -> None:
    board = board_of(job())
    assert board.take(event_update("status", "completed", {"cause": "completed"}))
    assert not board.bars
    assert not board.take(stands(job(status="completed")))
    # A look from before the end, that comes after it.
    assert not board.take(stands(job(percent=99)))
    assert not board.bars


def whole(status: Any = "running", failed: int = 0, **changes: Any) -> Update:
    """Where a workflow of four jobs stands, of which one has completed."""
    usual: dict[str, Any] = {"key": None, "data": None, "created_at": moment(-60), "deadline_at": None, "meta": None}
    unset = dict.fromkeys(("finished_at", "cancel_requested_at", "cancel_reason", "error"))
    progress = WorkflowProgress(remaining=3 - failed, completed=1, failed=failed, cancelled=0)
    workflow = Workflow(
        id=uuid.UUID(int=9),
        name="import",
        status=status,
        expires_at=moment(60),
        progress=progress,
        **{**usual, **unset, **changes},
    )
    return Update(
        kind="progress", job_id=workflow.id, job_type="import", at=moment(), position="1", attempt=0, workflow=workflow
    )


def test_a_workflow_is_above_its_jobs_until_it_has_ended() -> None:
    board = board_of(job(percent=40))
    assert board.take(whole())
    assert not board.take(whole())
    assert board.take(whole(failed=1))
    first, second = drawn(board)
    assert "import" in first
    assert "running 50%, 2 of 4 jobs have ended, 1 failed" in first
    assert "resize_photo" in second
    assert len(drawn(board, height=3)) == 2
    assert board.take(
        event_update("status", "failed", {"cause": "workflow", "error": "node a failed"}, number=9, job_type="import")
    )
    end = whole("failed", failed=3, finished_at=moment(), error="node a failed")
    assert not board.take(end)
    assert ["import" in line for line in drawn(board)] == [False]
    assert plain_line(end).plain.endswith(
        "import progress failed after 1m, 4 of 4 jobs have ended, 3 failed, node a failed"
    )
    assert line_above(event_update("status", "running", {"cause": "workflow"}, job_type="import")).plain.endswith(
        "import running"
    )


def test_an_end_without_an_event_is_shown_from_the_job() -> None:
    board = board_of(job())
    assert board.take(stands(job(status="failed")))
    assert not board.take(event_update("status", "failed"))


def test_a_job_that_was_given_a_new_life_is_back() -> None:
    board = board_of(job())
    board.take(event_update("status", "failed"))
    assert board.take(event_update("status", "pending", {"cause": "retried"}))
    assert board.take(stands(job(status="pending")))
    assert board.take(event_update("status", "failed"))


def test_a_new_life_without_an_event_is_recognised_by_its_token() -> None:
    board = Board()
    board.take(stands(job(token=1)))
    assert board.take(stands(job(status="failed", token=1)))
    assert not board.take(stands(job(percent=99, token=1)))
    assert board.take(stands(job(percent=1, token=3)))
    assert [bar.job.token for bar in board.bars.values()] == [3]
    assert board.take(stands(job(status="completed", token=3)))
    assert not board.take(stands(job(status="completed", token=3)))
    assert board.take(stands(job(status="failed", token=5)))
    assert not board.bars


def test_a_pending_job_stays_on_the_board_only_if_asked_for() -> None:
    asked, found = Board([job().id]), Board()
    for board in (asked, found):
        board.take(stands(job()))
        assert board.take(event_update("status", "pending", {"cause": "failed"}))
    assert [bar.job.status for bar in asked.bars.values()] == ["pending"]
    assert not found.bars
    found.take(stands(job()))
    assert found.take(stands(job(status="pending")))
    assert not found.take(stands(job(status="pending")))


def test_only_so_many_ends_are_remembered() -> None:
    board = Board()
    for number in range(20_000):
        assert board.take(event_update("status", "completed", number=number))
    assert len(board._ended) == 10_000


# The bars


def test_a_bar_shows_what_is_known_of_its_job() -> None:
    known = record(63, done=630, total=1000, rate=12.0, finishes_at=moment(40), attempt=2)
    (line,) = drawn(board_of(job(0xABCDEF01, record=known, percent=63, current_stage="decoding", attempts=2)))
    assert re.search(r"resize_photo …abcdef01 ━+ +63% 630/1,000 +12/s +40s decoding, attempt 2/3", line)
    bar = re.search("━+", line)
    assert bar
    assert len(bar[0]) > 10


@pytest.mark.parametrize("width", [20, 40, 60, 80, 99, 100, 200])
def test_a_bar_fits_into_any_terminal(width: int) -> None:
    known = record(63, done=630, total=1e9, rate=1e6, finishes_at=moment(1e5), last_report_at=moment(-1e5))
    long = job(1, record=known, percent=63, job_type="日" * 50, current_stage="stage " * 20, attempts=1, stalled=True)
    lines = drawn(board_of(long, job(2, status="pending"), job(3)), width)
    assert len(lines) == 3
    assert all(cell_len(line) <= width for line in lines)
    if width >= 80:
        assert "63%" in lines[0]
        assert "stalled, silent for" in lines[0]


def test_a_job_that_waits_shows_its_place() -> None:
    board = Board([job().id])
    board.take(stands(job(status="pending", attempts=0)), PLACE)
    (line,) = drawn(board)
    assert "12 before it, starts in about 6m" in line
    assert "%" not in line


def test_in_a_low_terminal_the_newest_that_run_are_shown_and_the_others_counted() -> None:
    jobs = [job(n, job_type=f"type_{n}", status="pending" if n > 15 else "running") for n in range(1, 21)]
    lines = drawn(board_of(*jobs), height=10)
    assert [line.split()[0] for line in lines[:-1]] == [f"type_{n}" for n in range(8, 16)]
    assert lines[-1] == "and 12 more"
    assert len(drawn(board_of(*jobs), height=22)) == 20
    assert drawn(board_of(*jobs), height=1) == ["and 20 more"]
    assert drawn(Board()) == [""]


# The lines


@pytest.mark.parametrize(
    ("update", "said"),
    [
        (event_update("event", "opened", {"rows": 3, "to": "Jürgen"}), 'event opened {"rows":3,"to":"Jürgen"}'),
        (event_update("log", "WARNING", {"logger": "app", "message": "slow"}), "log WARNING app: slow"),
        (event_update("log", "ERROR", {"logger": "app", "message": "a\nb"}), r"log ERROR app: a\nb"),
        (event_update("status", "failed", {"cause": "timed out", "error": "e"}), "status failed, timed out: e"),
        (stands(job(percent=40, current_stage="x")), "progress running 40%, x"),
        (
            stands(job(record=record(40, done=4, total=10, rate=2, finishes_at=moment(3)), percent=40)),
            "progress running 40%, 4/10, 2/s, done in 3.0s",
        ),
        (stands(job(status="cancelled", last_error="no", started_at=None)), "progress cancelled: no"),
    ],
)
def test_a_line_in_a_pipe_has_the_time_the_job_and_the_update(update: Update, said: str) -> None:
    line = plain_line(update).plain
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC 00000000-0000-0000-0000-000000000001 resize_photo ", line
    )
    assert said in line
    assert "\n" not in line


def test_a_waiting_jobs_line_has_its_place() -> None:
    line = plain_line(stands(job(status="pending", attempts=0)), PLACE).plain
    assert "progress pending, 12 before it, starts in about 6m" in line


def test_a_line_above_the_bars_is_short() -> None:
    line = line_above(event_update("log", "ERROR", {"logger": "app", "message": "first\nsecond\nthird"}))
    assert re.fullmatch(r"\d\d:\d\d:\d\d …00000001 resize_photo ERROR app: first \(\+2 lines\)", line.plain)
    assert len(line_above(event_update("event", "x", "y" * 60_000)).plain) < 400
    end = line_above(event_update("status", "failed", {"cause": "failed", "error": "e"}, attempt=3))
    assert end.plain.endswith("resize_photo attempt 3 failed: e")


def test_only_the_beginning_of_a_line_is_faint() -> None:
    line = line_above(event_update("event", "opened"))
    assert not line.style
    assert [line.plain[span.start : span.end] for span in line.spans if span.style == "dim"] == [line.plain[:19]]


def test_nothing_of_others_is_obeyed() -> None:
    hostile = {"job_type": HOSTILE[:50], "current_stage": HOSTILE, "last_error": HOSTILE}
    jobs = [
        job(1, record=record(), **hostile),
        job(2, status="pending", **hostile),
        job(3, stalled=True, record=record(), **hostile),
    ]
    data = {HOSTILE: [HOSTILE], "logger": HOSTILE, "message": HOSTILE, "cause": HOSTILE, "error": HOSTILE}
    updates = [
        *map(stands, jobs),
        stands(job(4, status="failed", **hostile)),
        event_update("event", HOSTILE, data, job_type=HOSTILE[:50]),
        event_update("log", HOSTILE, data),
        event_update("status", "failed", data),
        event_update("status", "pending", data),
    ]
    for update in updates:
        assert not dangers(plain_line(update).plain)
        assert not dangers(line_above(update).plain)
        assert "\n" not in plain_line(update).plain + line_above(update).plain
    lines = drawn(board_of(*jobs), width=80)
    assert len(lines) == 3
    assert not dangers("\n".join(lines))
    markup = line_above(event_update("event", "[bold]x[/]", "[red]y[/red] :smile:"))
    assert '[bold]x[/] "[red]y[/red] :smile:"' in markup.plain


def test_markup_is_text_in_the_picture_too() -> None:
    (line,) = drawn(board_of(job(job_type="[red]a[/red]", current_stage="[bold]b[/bold] :smile:")))
    assert "[red]a[/red]" in line
    assert "[bold]b[/bold] :smile:" in line


def test_json_has_every_field_and_the_place() -> None:
    fields = as_json(stands(job(status="pending")), PLACE)
    assert fields["job"]["status"] == "pending"
    assert fields["place"] is PLACE
    assert set(as_json(event_update("event", "x", 1), None)) == {
        "kind", "job_id", "job_type", "at", "position", "attempt", "name", "data", "job",
    }  # fmt: skip


# All of it


class _Screen:
    """A picture on a terminal that only records what was written to it."""

    def __init__(self, what: Wanted) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, width=100, height=10, force_terminal=True, color_system=None)
        self.picture = Picture(self.console, what)

    @property
    def written(self) -> str:
        return self.file.getvalue()


def test_lines_come_above_in_order_and_the_bar_goes_with_its_job() -> None:
    screen = _Screen(wanted([str(job().id)], until_done=False))
    with screen.picture as view:
        view.show(stands(job(percent=40)), None)
        view.refresh()
        assert "40%" in screen.written
        for update in (
            event_update("event", "first"),
            event_update("event", "second"),
            event_update("status", "completed"),
        ):
            view.show(update, None)
        view.remark("the database\x1b went away")
        before = len(screen.written)
        view.refresh()
        after = screen.written[before:]
    order = [after.index(word) for word in ("first", "second", "completed", r"howdah: the database\x1b went away")]
    assert order == sorted(order)
    assert "40%" not in screen.written[before:].split("completed")[1]


def test_kinds_that_were_not_asked_for_are_not_shown_but_ends_are() -> None:
    screen = _Screen(wanted([], frozenset({"progress"}), until_done=False))
    with screen.picture as view:
        view.refresh()
        assert "no running job reports its progress" in screen.written
        view.show(event_update("event", "secret"), None)
        view.show(stands(job()), None)
        view.show(stands(job(status="completed")), None)
        view.refresh()
    assert "secret" not in screen.written
    assert "completed" in screen.written


# What is asked for


def test_ids_and_types_are_distinguished() -> None:
    one, other = str(job(1).id), str(job(2).id).upper()
    what = wanted([one, "send_invoice", other, one], until_done=True)
    assert (what.ids, what.types, what.until_done) == ((job(1).id, job(2).id), ("send_invoice",), True)
    assert wanted([one], until_done=True).until_done is False
    assert wanted([one], until_done=False).types is None
    assert wanted([], until_done=False).types == ()


def test_a_position_belongs_to_one_stream() -> None:
    one, other = str(job(1).id), str(job(2).id)
    assert wanted([one], after="7", until_done=False).after == "7"
    assert wanted(["a", "b"], after="7", until_done=False).after == "7"
    for names in ([one, other], [one, "a"]):
        with pytest.raises(InvalidInput, match="has its own position"):
            wanted(names, after="7", until_done=False)
