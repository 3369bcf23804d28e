"""The reports of a handler, and what a tracker computes from them: percent, stages, counts, events."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import gc
import itertools
import json
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from queue import Queue
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from howdah.checks.context import Context
from howdah.errors import InvalidInput, InvalidOption, InvalidPayload, PayloadTooLarge
from howdah.model.codec import PLAIN
from howdah.worker.calls import NewEvent, ProgressUpdate
from howdah.worker.progress import tracker
from howdah.worker.progress.tracker import MAX_LOGS, MAX_MESSAGE, LeftOut, Tracker, Unwritten
from howdah.worker.run.child import Flushed, Outbox, Reports, _pieces


class Recording:
    """A tracker, and how often it has reported a change."""

    def __init__(self, max_events: int = 10_000, codec: Any = PLAIN, max_bytes: int = 1_000) -> None:
        context = Context(codec=codec, max_payload_bytes=max_bytes, worker_id="w", known={})
        self.times = 0
        self.tracker = Tracker((uuid.uuid4(), 1), context, self._hear, max_events=max_events)

    def _hear(self, _: Tracker) -> None:
        self.times += 1

    @property
    def report(self) -> ProgressUpdate:
        """Where the job stands, whether or not that is news."""
        return self.tracker._update()

    @property
    def percent(self) -> float | None:
        return self.report.percent

    @property
    def counts(self) -> tuple[float | None, float | None]:
        return self.report.done, self.report.total

    def progress(
        self, percent: Any = None, stage: Any = None, *, done: Any = None, total: Any = None
    ) -> None:  # as job.progress
        self.tracker.progress(percent, stage, done, total)

    def advance(self, n: Any = 1, *, total: Any = None, stage: Any = None) -> None:
        self.tracker.advance(n, total, stage)

    def track(self, items: Any, stage: Any = None, *, total: Any = None, done: Any = 0, weight: Any = None) -> Any:
        return self.tracker.track(items, stage, total, done, weight)

    def stage(self, name: str, weight: Any = None) -> Any:
        return self.tracker.stage(name, weight)


@pytest.fixture
def job() -> Recording:
    return Recording()


# Percent and counts


def test_fields_that_were_never_given_are_not_reported(job: Recording) -> None:
    job.progress(stage="waiting")
    assert job.report == ProgressUpdate(None, "waiting", None, None)
    job.progress(40)
    assert job.report == ProgressUpdate(40.0, "waiting", None, None)


def test_percent_is_made_of_counts_where_none_is_given(job: Recording) -> None:
    job.progress(done=3, total=12)
    assert job.report == ProgressUpdate(25.0, None, 3.0, 12.0)
    job.progress(90)
    assert job.report == ProgressUpdate(90.0, None, 3.0, 12.0)
    job.progress(done=6)
    assert job.percent == 50.0
    job.progress(stage="on")
    assert job.percent == 50.0
    job.progress(75, done=6)
    assert job.percent == 75.0


def test_a_count_without_a_total_sets_no_percent(job: Recording) -> None:
    job.progress(30)
    job.advance(5)
    job.progress(done=7)
    assert job.report == ProgressUpdate(30.0, None, 7.0, None)
    job.progress(total=14)
    assert job.percent == 50.0


def test_what_is_counted_adds_up_and_may_go_back(job: Recording) -> None:
    job.advance(3, total=10, stage="counting")
    job.advance()
    assert job.report == ProgressUpdate(40.0, "counting", 4.0, 10.0)
    job.advance(-2)
    job.advance(0.5)
    assert job.counts == (2.5, 10.0)
    job.progress(10)
    assert job.percent == 10.0, "a handler may say that it is less far than it thought"


def test_nothing_to_do_is_all_done(job: Recording) -> None:
    job.progress(done=0, total=0)
    assert job.percent == 100.0


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.fractions(), st.decimals(allow_nan=False)))
def test_any_number_of_percent_is_taken_and_within_bounds(number: Any) -> None:
    job = Recording()
    job.progress(number)
    assert job.percent == (0 if number < 0 else 100 if number > 100 else float(number))


@given(
    st.lists(st.one_of(st.integers(-(10**30), 10**400), st.floats(-1e300, 1e300), st.fractions()), max_size=5),
    st.one_of(st.none(), st.integers(0, 10**400), st.floats(0, 1e300)),
)
def test_counts_of_any_size_are_stored_as_numbers_that_a_database_can_go_on_with(steps: list[Any], total: Any) -> None:
    job = Recording()
    for step in steps:
        job.advance(step, total=total)
    for number in job.report:
        assert number is None or (isinstance(number, float) and 0 <= number <= 1e18)


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_percent_is_the_share_that_is_done(done: int, total: int) -> None:
    job = Recording()
    job.progress(done=done, total=total)
    assert job.percent == pytest.approx(min(100 * done / total, 100))
    assert job.counts == (float(done), float(total))


BAD = [float("nan"), "50", b"5", True, False, [1], object(), 1j, Decimal("NaN"), Decimal("sNaN")]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: type(bad).__name__)
def test_what_is_not_a_number_is_refused_and_changes_nothing(job: Recording, bad: Any) -> None:
    job.progress(20, "here", done=1, total=5)
    before = job.report
    with pytest.raises(InvalidOption, match="percent is a number from 0 to 100"):
        job.progress(bad)
    with pytest.raises(InvalidOption, match="done is a number"):
        job.progress(done=bad)
    with pytest.raises(InvalidOption, match="total is a number"):
        job.progress(total=bad)
    with pytest.raises(InvalidOption, match="n is a number"):
        job.advance(bad)
    with pytest.raises(InvalidOption, match="total is a number"):
        job.advance(total=bad)
    with pytest.raises(InvalidOption, match="weight is a number"):
        job.stage("part", bad)
    with pytest.raises(InvalidOption, match="total is a number"):
        job.track([], total=bad)
    with pytest.raises(InvalidOption):
        job.track([], done=bad)
    assert job.report == before


def test_a_total_is_finite_and_not_negative_and_stages_are_text(job: Recording) -> None:
    wrongs: list[dict[str, Any]] = [{"total": -1}, {"total": float("inf")}, {"done": float("-inf")}, {"stage": 7}]
    for wrong in wrongs:
        with pytest.raises(InvalidOption):
            job.progress(**wrong)
    with pytest.raises(InvalidOption):
        job.advance(stage=b"x")
    with pytest.raises(InvalidOption):
        job.advance(float("inf"))
    with pytest.raises(InvalidOption):
        job.stage(7)  # type: ignore[arg-type]
    with pytest.raises(InvalidOption, match="has none"):
        job.track(7)
    assert job.times == 0


# Stages


def test_stages_are_parts_of_the_job_and_percent_inside_is_of_the_stage(job: Recording) -> None:
    with job.stage("load", 70):
        assert job.report == ProgressUpdate(0.0, "load", None, None)
        job.progress(50)
        assert job.report == ProgressUpdate(35.0, "load", None, None)
        job.progress(done=9, total=10, stage="rows")
        assert job.report == ProgressUpdate(63.0, "load / rows", 9.0, 10.0)
    assert job.percent == 70.0
    with job.stage("store"):
        assert job.report == ProgressUpdate(70.0, "store", None, None)
        with job.stage("index", 50):
            job.progress(50)
            assert job.report == ProgressUpdate(77.5, "store / index", None, None)
        assert job.report == ProgressUpdate(85.0, "store", None, None)
    assert job.report == ProgressUpdate(100.0, "store", None, None), (
        "what it was in last can be seen until something else is"
    )


def test_a_stage_that_is_left_by_an_exception_stays_where_it_was(job: Recording) -> None:
    with contextlib.suppress(ValueError), job.stage("load", 50), job.stage("parse", 50):
        job.progress(50, "line 7")
        raise ValueError
    assert job.report == ProgressUpdate(12.5, "load / parse / line 7", None, None)
    with job.stage("again"):
        assert job.report == ProgressUpdate(12.5, "again", None, None)
    assert job.percent == 100.0


def test_a_stage_begins_where_the_job_is_and_takes_no_more_than_what_is_left(job: Recording) -> None:
    job.progress(60)
    with job.stage("most", 90):
        job.progress(50)
        assert job.percent == 80.0
    assert job.percent == 100.0
    with job.stage("nothing is left", 10):
        job.progress(50)
        assert job.percent == 100.0


def test_a_stage_whose_leaving_was_forgotten_ends_with_the_one_around_it(job: Recording) -> None:
    outer, inner = job.stage("outer", 50), job.stage("inner")
    outer.__enter__()
    inner.__enter__()
    job.progress(50)
    outer.__exit__(None, None, None)
    assert job.percent == 50.0
    inner.__exit__(None, None, None)
    assert job.percent == 50.0


Part = tuple[float | None, float | None, list[Any], bool]
PARTS: st.SearchStrategy[list[Any]] = st.recursive(
    st.just([]),
    lambda inner: st.lists(
        st.tuples(st.none() | st.floats(0, 100), st.none() | st.floats(0, 100), inner, st.booleans()), max_size=4
    ),
    max_leaves=12,
)


def performed(job: Recording, parts: list[Part], seen: list[float]) -> None:
    """Follow the parts: report a percentage, enter stages, and leave them, normally or by an exception."""
    for weight, percent, inner, breaks in parts:
        with contextlib.suppress(ZeroDivisionError), job.stage("part", weight):
            if percent is not None:
                job.progress(percent)
            performed(job, inner, seen)
            seen.append(job.percent or 0.0)
            if breaks:
                raise ZeroDivisionError
        seen.append(job.percent or 0.0)


def expected(parts: list[Part], at: float, begin: float, width: float, seen: list[float]) -> float:
    """The same by another way: the position inside of a part that lies so on the scale of the job."""
    for weight, percent, inner, breaks in parts:
        part = 100 - at if weight is None else min(weight, 100 - at)
        mine = expected(inner, percent or 0.0, begin + width * at / 100, width * part / 100, seen)
        seen.append(begin + width * (at + part * mine / 100) / 100)
        at += part if not breaks else part * mine / 100
        seen.append(begin + width * at / 100)
    return at


@given(PARTS)
def test_nested_stages_add_up_to_where_the_job_is(parts: list[Part]) -> None:
    job = Recording()
    seen: list[float] = []
    wanted: list[float] = []
    performed(job, parts, seen)
    expected(parts, 0.0, 0.0, 100.0, wanted)
    assert seen == pytest.approx(wanted, abs=1e-6)
    assert all(0 <= percent <= 100 for percent in seen)
    assert all(before <= after + 1e-6 for before, after in itertools.pairwise(seen)), "it never goes back"


@given(st.lists(st.text(), max_size=6), st.none() | st.text())
@example(["a" * 60, "b" * 60], "c" * 150)
@example(["x" * 45, "y" * 45, "z" * 45], None)
@example(["a\x00b", "\ud800"], "\x00" * 40)
def test_the_text_of_the_current_stage_is_short_and_can_be_stored(names: list[str], remark: str | None) -> None:
    job = Recording()
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(job.stage(name))
        job.progress(stage=remark)
        path = job.report.stage
    said = [part for part in (*names, remark) if part]
    if not said:
        assert path is None
        return
    assert path is not None
    assert len(path) <= 100
    path.encode()
    assert "\x00" not in path
    if len(said[-1]) <= 20 and said[-1].isalnum():
        assert path.endswith(said[-1]), "the innermost is not what is left out"


def test_outer_stages_are_left_out_first(job: Recording) -> None:
    with job.stage("a" * 60), job.stage("b" * 60):
        job.progress(stage="c" * 30)
        assert job.report.stage == f"… / {'b' * 60} / {'c' * 30}"
        job.progress(stage="d" * 60)
        assert job.report.stage == f"… / {'d' * 60}"
        job.progress(stage="e" * 200)
        assert job.report.stage == f"{'e' * 99}…"


# Items


def test_an_item_is_done_when_the_next_one_is_asked_for(job: Recording) -> None:
    seen = [(item, *job.counts, job.percent) for item in job.track("abcd")]
    assert seen == [("a", 0, 4, 0), ("b", 1, 4, 25), ("c", 2, 4, 50), ("d", 3, 4, 75)]
    assert job.report == ProgressUpdate(100.0, None, 4.0, 4.0)


@given(st.lists(st.integers(), max_size=20), st.integers(0, 25), st.sampled_from(["break", "raise", "source"]))
def test_a_loop_that_is_left_leaves_the_truth(items: list[int], leave_at: int, how: str) -> None:
    job = Recording()

    def source() -> Iterator[int]:
        for n, item in enumerate(items):
            if how == "source" and n == leave_at:
                raise ZeroDivisionError
            yield item

    completed = 0
    with contextlib.suppress(ZeroDivisionError):
        for n, _ in enumerate(job.track(source(), "walk", total=len(items), weight=50)):
            if n == leave_at:
                if how == "break":
                    break
                raise ZeroDivisionError
            completed = n + 1
    everything = leave_at >= len(items)
    share = 100 if everything or not items else 100 * completed / len(items)
    assert job.percent == pytest.approx(share / 2)
    with job.stage("after"):
        assert job.report.stage == "after", "the loop's own stage was left with it"


def test_the_total_comes_from_the_items_or_is_what_they_turn_out_to_be(job: Recording) -> None:
    list(job.track(iter([1, 2, 3])))
    assert job.counts == (3.0, 3.0)
    for _ in job.track(n for n in range(2)):
        assert job.report.total is None
    assert job.report == ProgressUpdate(100.0, None, 2.0, 2.0)
    list(job.track([1, 2], total=8))
    assert job.report == ProgressUpdate(25.0, None, 2.0, 8.0)
    list(job.track([1, 2, 3], total=2))
    assert job.report == ProgressUpdate(100.0, None, 3.0, 2.0)
    list(job.track([]))
    assert job.report == ProgressUpdate(100.0, None, 0.0, 0.0)


class Unsure:
    """Items of unknown number."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))


def test_items_without_a_usable_length_are_counted_nevertheless(job: Recording) -> None:
    assert list(job.track(Unsure())) == [1, 2]
    assert job.counts == (2.0, 2.0)


def test_stages_inside_of_a_loop_are_parts_of_its_item(job: Recording) -> None:
    seen = []
    for _ in job.track("ab"):
        with job.stage("read", 40):
            job.progress(50)
            seen.append(job.percent)
        with job.stage("write"):
            seen.append(job.percent)
        seen.append(job.percent)
    assert seen == [10.0, 20.0, 50.0, 60.0, 70.0, 100.0]


def test_loops_nest(job: Recording) -> None:
    seen = []
    for _ in job.track("ab", "files"):
        seen += [job.percent for _ in job.track("xyz1", "rows")]
    assert seen == [0.0, 12.5, 25.0, 37.5, 50.0, 62.5, 75.0, 87.5]
    assert job.percent == 100.0
    for _ in job.track("ab"):
        for _ in job.track("xy"):
            pass
    assert job.report == ProgressUpdate(100.0, "files", 2.0, 2.0)


def test_stages_in_a_loop_of_unknown_length_do_not_pretend_to_know(job: Recording) -> None:
    for _ in job.track(n for n in range(3)):
        with job.stage("part"):
            assert job.percent == 0.0
    assert job.percent == 100.0


async def letters(text: str) -> AsyncIterator[str]:
    for letter in text:
        await asyncio.sleep(0)
        yield letter


def test_async_items_are_counted_in_the_same_way(job: Recording) -> None:
    async def main() -> None:
        items = job.track(letters("abcd"), "walk", total=4, weight=50)
        seen = [(letter, *job.counts, job.percent) async for letter in items]
        assert seen == [("a", 0, 4, 0), ("b", 1, 4, 12.5), ("c", 2, 4, 25), ("d", 3, 4, 37.5)]
        assert job.percent == 50.0
        async for letter in job.track(letters("abcd"), "again", total=4):
            if letter == "c":
                break
        assert job.percent == 75.0
        with job.stage("after"):
            assert job.report.stage == "after"

    asyncio.run(main())


def test_the_wrong_kind_of_loop_is_an_error_that_names_the_right_one(job: Recording) -> None:
    with pytest.raises(TypeError, match="async for"):
        list(job.track(letters("ab")))
    with pytest.raises(TypeError, match="are not async"):
        aiter(job.track("ab"))


# Events and logs


def test_events_are_kept_in_order_with_their_data_as_it_was(job: Recording) -> None:
    data = {"rows": [1]}
    job.tracker.event("began", {})
    job.tracker.event("loaded", data)
    data["rows"].append(2)
    words = job.tracker.take()
    assert [(told.kind, told.name, json.loads(told.data)) for told in words.events] == [
        ("event", "began", {}),
        ("event", "loaded", {"rows": [1]}),
    ]
    assert words.update is None
    assert words.events[0].at <= words.events[1].at
    assert job.tracker.take() == Unwritten(None, [])


@pytest.mark.parametrize("name", ["", "x" * 101, 7, None, "a\nb", "\ud800"], ids=repr)
def test_a_name_that_can_not_be_stored_is_refused_at_once(job: Recording, name: Any) -> None:
    with pytest.raises(InvalidOption, match="name of an event"):
        job.tracker.event(name, {})
    assert job.tracker.take().events == []


def test_data_that_can_not_be_stored_is_refused_at_once(job: Recording) -> None:
    with pytest.raises(InvalidPayload, match=r"event data\.when"):
        job.tracker.event("x", {"when": object()})
    with pytest.raises(InvalidPayload):
        job.tracker.event("x", {"share": float("nan")})
    with pytest.raises(PayloadTooLarge, match="event data"):
        job.tracker.event("x", {"text": "x" * 2_000})
    assert job.tracker.take().events == []
    assert not issubclass(InvalidOption, InvalidPayload)
    assert issubclass(InvalidPayload, InvalidInput)


def test_what_is_beyond_the_limits_is_counted_and_recorded_once() -> None:
    job = Recording(max_events=3)
    for n in range(5):
        job.tracker.event("step", {"n": n})
    for n in range(MAX_LOGS + 7):
        job.tracker.log("INFO", "app", f"line {n}")
    job.tracker.record_left_out()
    job.tracker.record_left_out()
    told = job.tracker.take().events
    assert [json.loads(each.data)["n"] for each in told if each.name == "step"] == [0, 1, 2]
    assert sum(each.kind == "log" for each in told) == MAX_LOGS
    assert (told[-1].kind, told[-1].name, json.loads(told[-1].data)) == (
        "event",
        "howdah.left_out",
        {"events": 2, "logs": 7},
    )
    assert sum(each.name == "howdah.left_out" for each in told) == 1


def test_what_waits_to_be_written_is_bounded_by_its_size_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "MAX_CHARACTERS", 1_000)
    job = Recording()
    for _ in range(5):
        job.tracker.event("large", {"text": "x" * 400})
    job.tracker.log("INFO", "app", "x" * 400)
    assert [told.number for told in job.tracker.read().events] == [1, 2]
    job.tracker.events_are_written(1)
    job.tracker.event("room again", {"text": "x" * 400})
    job.tracker.record_left_out()
    *_, again, left_out = job.tracker.take().events
    assert (again.name, again.number) == ("room again", 3)
    assert (left_out.name, json.loads(left_out.data)) == ("howdah.left_out", {"events": 3, "logs": 1})


def test_the_limit_holds_for_threads_that_reach_it_at_once() -> None:
    together = threading.Barrier(8)

    class Slow(type(PLAIN)):  # type: ignore[misc]
        def encode(self, value: Any) -> Any:
            together.wait()
            return value

    job = Recording(max_events=3, codec=Slow())
    threads = [threading.Thread(target=job.tracker.event, args=("x", {})) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(job.tracker.take().events), job.tracker.take_left_out()) == (3, LeftOut(events=5))


@given(st.text(max_size=50), st.integers(0, 200))
def test_a_log_message_is_clean_and_bounded_with_a_note_if_it_was_longer(text: str, times: int) -> None:
    job = Recording(max_bytes=1)
    job.tracker.log("INFO", text, text * times)
    (told,) = job.tracker.take().events
    record = json.loads(told.data)
    assert len(record["message"]) <= MAX_MESSAGE
    assert len(record["logger"]) <= 200
    if len(text) * times > 4 * MAX_MESSAGE:
        assert record["message"].endswith("characters)")


def test_a_codec_that_cannot_encode_the_count_of_left_out_updates_fails_no_job(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken:
        def encode(self, value: Any) -> Any:
            raise TypeError("no")

        decode = encode

    job = Recording(max_events=0, codec=Broken())
    job.tracker.event("x", {})
    job.tracker.record_left_out()
    assert "LeftOut(events=1, logs=0)" in caplog.text


# Taking it


def test_a_tight_loop_notifies_once_until_its_updates_are_taken(job: Recording) -> None:
    for n in range(100_000):
        job.progress(n / 1_000)
        job.advance()
    assert job.times == 1
    assert job.tracker.take().update == ProgressUpdate(99.999, None, 100_000.0, None)
    assert job.tracker.take() == Unwritten(None, [])
    job.progress(5)
    job.tracker.event("x", {})
    assert job.times == 2


def test_what_could_not_be_written_is_taken_again_before_what_came_after_it(job: Recording) -> None:
    job.tracker.event("first", {})
    job.progress(10)
    job.tracker.read()
    job.tracker.event("second", {})
    job.tracker.is_incomplete()
    again = job.tracker.take()
    assert [told.name for told in again.events] == ["first", "second"]
    assert again.update == ProgressUpdate(10.0, None, None, None)


def test_updates_after_the_end_are_dropped(job: Recording) -> None:
    job.progress(50)
    job.tracker.close()
    job.tracker.event("late", {})
    assert job.tracker.take() == Unwritten(ProgressUpdate(50.0, None, None, None), [])
    job.progress(60)
    job.tracker.event("later", {})
    job.tracker.log("INFO", "app", "later")
    assert (job.times, job.tracker.take()) == (1, Unwritten(None, []))


def test_what_is_not_known_to_be_written_is_there_until_it_is(job: Recording) -> None:
    job.tracker.event("first", {})
    job.progress(10)
    job.tracker.read()
    job.tracker.event("second", {})
    report, told = job.tracker.unwritten()
    assert (report, [each.name for each in told]) == (ProgressUpdate(10.0, None, None, None), ["first", "second"])
    job.tracker.update_is_written()
    job.tracker.events_are_written(told[0].number)
    assert job.tracker.unwritten() == Unwritten(None, [told[1]])


def test_progress_from_a_child_is_the_progress_of_the_job() -> None:
    child, worker = Recording(max_events=1), Recording()
    with child.stage("load", 50):
        child.progress(done=1, total=4)
        child.tracker.event("a", {})
        child.tracker.event("b", {})
        worker.tracker.feed(child.tracker.take(), child.tracker.take_left_out())
        assert worker.report == ProgressUpdate(12.5, "load", 1.0, 4.0)
    worker.tracker.feed(child.tracker.take(), child.tracker.take_left_out())
    worker.tracker.feed(Unwritten(None, []), LeftOut())
    assert worker.report == ProgressUpdate(50.0, "load", None, None)
    worker.tracker.record_left_out()
    assert [told.name for told in worker.tracker.take().events] == ["a", "howdah.left_out"]


def test_many_threads_count_exactly_and_nothing_is_lost(job: Recording) -> None:
    told: list[str] = []
    stop = threading.Event()

    def count() -> None:
        for n in range(2_000):
            job.advance()
            if n % 100 == 0:
                job.tracker.event("hundred", {})

    def take() -> None:
        while not stop.is_set():
            told.extend(each.name for each in job.tracker.take().events)

    taker = threading.Thread(target=take)
    counters = [threading.Thread(target=count) for _ in range(8)]
    for thread in (taker, *counters):
        thread.start()
    for thread in counters:
        thread.join()
    stop.set()
    taker.join()
    told.extend(each.name for each in job.tracker.take().events)
    assert (job.counts, len(told)) == ((16_000.0, None), 160)


class ReportsWhenCollected:
    """Reports from where it is collected, wherever that is."""

    def __init__(self, job: Recording) -> None:
        self.job = job
        self.itself = self

    def __del__(self) -> None:
        self.job.advance()


def test_the_garbage_collector_may_report_at_any_moment(job: Recording) -> None:
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            ReportsWhenCollected(job)
            job.tracker.event("x", {"a": [{}, {}]})
            job.tracker.take()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert job.counts == (200.0, None)


# From a child to its worker


def test_messages_of_a_child_are_small_and_keep_the_order() -> None:
    told = [NewEvent("event", "x" * 50, "y" * (n % 7_000), 0.0, n) for n in range(0, 70_000, 999)]
    told.insert(3, NewEvent("event", "huge", "y" * 100_000, 0.0))
    pieces = list(_pieces(told))
    assert [each for piece in pieces for each in piece] == told
    assert all(len(piece) == 1 or sum(len(each.data) for each in piece) <= 32_000 for piece in pieces)
    assert list(_pieces([])) == [[]]


def test_a_late_answer_to_one_job_does_not_answer_the_next(job: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("howdah.worker.run.child.FLUSHED_WITHIN", 0.01)
    sent: Queue[Reports] = Queue()
    outbox = Outbox(sent.put)
    outbox.begin(job.tracker.ref)
    assert not outbox.flush(job.tracker, ends=True), "the worker has not answered"
    late = sent.get()
    outbox.end()
    following = Recording()
    outbox.begin(following.tracker.ref)
    monkeypatch.setattr("howdah.worker.run.child.FLUSHED_WITHIN", 60)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(outbox.flush, following.tracker, ends=True)
        asked = sent.get()
        outbox.answered(Flushed(late.flush, written=True))
        outbox.answered(Flushed(asked.flush, written=False))
        assert flushed.result() is False


def test_a_resumed_loop_continues_the_count_of_the_attempt_before(job: Recording) -> None:
    seen = [job.counts for _ in job.track(range(60, 64), done=60)]
    assert seen == [(60, 64), (61, 64), (62, 64), (63, 64)]
    assert [job.percent for _ in job.track(iter("ab"), total=4, done=2)] == [50, 75]
