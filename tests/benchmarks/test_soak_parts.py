"""The parts of a soak: its accounts find what is wrong, its plan of faults can be had again, its verdict sees drift."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from benchmarks.drift import slope, thirds
from benchmarks.memory import resident_bytes
from benchmarks.soak import __main__ as soak
from benchmarks.soak.accounts import Accounts, Ended, Runs, accounts, recoveries
from benchmarks.soak.director import Soaked, SoakOptions
from benchmarks.soak.faults import BURST, DISCONNECT, KILL, KINDS, STOP, Fault, chosen, schedule
from benchmarks.soak.ledger import END, START, Ledger, Note
from benchmarks.soak.load import ATTEMPTS, FLAKY, JOB_TYPES, KEYED, QUICK, SHARES, fails, piece
from benchmarks.soak.sample import Sample, Window
from benchmarks.soak.verdict import verdict
from benchmarks.soak.workers import Footprint
from hypothesis import given
from hypothesis import strategies as st

from howdah.errors import InvalidInput

LEASE = 15.0

# The accounts


class Story:
    """Jobs, and what the accounts find of them."""

    def __init__(self) -> None:
        self.acknowledged: set[bytes] = set()
        self.ended: list[Ended] = []
        self.unended: set[bytes] = set()
        self.notes: list[Note] = []
        self.faults: list[Fault] = []
        self._numbers = count()
        self._clock = count(1)

    def job(self, status: str | None = "completed", *, runs: int = 1, fails: int = 0) -> bytes:
        """One that was acknowledged, ran so often, and ended so."""
        job = uuid.uuid4().bytes
        self.acknowledged.add(job)
        for token in range(1, runs + 1):
            self.run(job, token, pid=token)
        if status is not None:
            self.ended.append(Ended(job, next(self._numbers), fails, runs, status))
        return job

    def run(self, job: bytes, token: int, *, pid: int) -> None:
        for word in (START, END):
            self.notes.append(Note(job, token, word, pid, float(next(self._clock)), 0.5))

    def accounts(self) -> Accounts:
        runs = Runs(self.notes)
        return accounts(self.acknowledged, 0, self.ended, self.unended, runs, self.faults, LEASE)

    def is_sound(self, *, interrupted: bool = False) -> bool:
        return Soaked(SoakOptions(seed=1), 60.0, interrupted, [], self.faults, self.accounts(), [], []).is_sound


@pytest.fixture
def story() -> Story:
    """With a few jobs to which nothing has happened."""
    made = Story()
    for _ in range(3):
        made.job()
    made.job("failed", fails=ATTEMPTS)
    return made


def wrong(found: Accounts) -> tuple[int, int, int, int]:
    return found.lost, found.doubled, found.unfinished, found.unexplained


def test_where_all_is_well_nothing_is_found(story: Story) -> None:
    found = story.accounts()
    assert wrong(found) == (0, 0, 0, 0)
    assert (found.acknowledged, found.completed, found.failed_as_planned, found.failed_by_faults) == (4, 3, 1, 0)
    assert (found.repeated, found.wrong) == (0, ())


def test_a_job_that_is_nowhere_is_lost(story: Story) -> None:
    job = story.job(None)
    found = story.accounts()
    assert wrong(found) == (1, 0, 0, 0)
    assert found.wrong == (f"acknowledged, but nowhere: {uuid.UUID(bytes=job)}",)


def test_a_job_that_was_completed_and_not_run_is_lost(story: Story) -> None:
    story.job(runs=0)
    assert wrong(story.accounts()) == (1, 0, 0, 0)


def test_a_job_that_was_completed_under_another_token_than_it_ran_is_lost(story: Story) -> None:
    job = story.job(None)
    story.ended.append(Ended(job, 99, 0, 2, "completed"))
    assert wrong(story.accounts()) == (1, 0, 0, 0)


def test_a_job_that_is_still_there_is_unfinished(story: Story) -> None:
    story.unended.add(story.job(None))
    assert wrong(story.accounts()) == (0, 0, 1, 0)


def test_a_job_that_ended_twice_is_doubled(story: Story) -> None:
    story.job()
    story.ended.append(story.ended[-1])
    assert wrong(story.accounts()) == (0, 1, 0, 0)


def test_a_job_that_has_ended_and_is_still_there_is_doubled(story: Story) -> None:
    story.unended.add(story.job())
    found = story.accounts()
    assert (found.lost, found.doubled) == (0, 1)


def test_a_call_that_enqueued_twice_is_doubled(story: Story) -> None:
    story.job()
    twin = uuid.uuid4().bytes
    story.run(twin, 1, pid=1)
    story.ended.append(story.ended[-1]._replace(id=twin))
    assert wrong(story.accounts()) == (0, 1, 0, 0), "though only one of them was acknowledged"


def test_a_claim_with_one_token_twice_is_doubled(story: Story) -> None:
    job = story.job()
    story.run(job, 1, pid=2)
    assert story.accounts().doubled == 1


@pytest.mark.parametrize("whose", [1, 2])
def test_a_job_that_ran_again_is_explained_by_a_fault_of_one_of_its_workers(story: Story, whose: int) -> None:
    story.job(runs=2)
    assert (story.accounts().repeated, wrong(story.accounts())) == (1, (0, 0, 0, 1))
    story.faults.append(Fault(DISCONNECT, 2.0, 2.0, 17, "another's"))
    assert story.accounts().unexplained == 1
    story.faults.append(Fault(KILL, 2.0, 2.0, whose, "theirs"))
    assert wrong(story.accounts()) == (0, 0, 0, 0)


def test_a_fault_that_comes_later_or_was_over_long_before_explains_nothing(story: Story) -> None:
    story.notes.clear()
    job = story.job(None)
    story.notes = [Note(job, token, END, token, 1_000.0 + token, 0.5) for token in (1, 2)]
    story.faults = [Fault(STOP, 5.0, 10.0, 1, "before"), Fault(KILL, 1_003.0, 1_003.0, 1, "after")]
    assert story.accounts().unexplained == 1


@pytest.mark.parametrize("late", [False, True], ids=["it came back in time to be first", "it came back last"])
def test_a_job_that_ran_again_is_explained_by_a_worker_that_had_stalled(story: Story, late: bool) -> None:
    job = story.job(None)
    story.notes = story.notes[:-2]
    came_to_its_end = 41.0 if late else 21.0
    story.notes += [
        Note(job, 1, START, 1, 20.0, 0.5),
        Note(job, 1, END, 1, came_to_its_end, 0.5),
        Note(job, 2, START, 2, 40.0, 0.5),
        Note(job, 2, END, 2, 40.5, 0.5),
    ]
    story.ended.append(Ended(job, 99, 0, 2, "completed"))
    found = story.accounts()
    assert (found.repeated, found.stalled, found.unexplained) == (1, 1, 0)
    assert story.is_sound()
    others = [Note(uuid.uuid4().bytes, 1, START, 1, at, 0.5) for at in (39.0, 38.0, 30.0)]
    story.notes += others[:2]
    assert story.accounts().stalled == 1, "though it was at work again before another began it"
    story.notes += others[2:]
    found = story.accounts()
    assert (found.stalled, found.unexplained) == (0, 1), "it was never silent for long"
    assert not story.is_sound()


def test_a_failure_that_was_not_planned_needs_a_fault_for_each_attempt(story: Story) -> None:
    job = story.job("failed", runs=2, fails=1)
    story.notes = [note for note in story.notes if (note.id, note.kind) != (job, END)]
    assert (story.accounts().failed_as_planned, story.accounts().failed_unexplained) == (1, 1)
    assert story.accounts().wrong == (f"failed, and nothing explains it: {uuid.UUID(bytes=job)}",)
    started = [note.at for note in story.notes if note.id == job and note.kind == START]
    story.faults.append(Fault(KILL, started[0] + 0.5, started[0] + 0.5, 1, "of its first holder"))
    assert (story.accounts().failed_by_faults, story.accounts().failed_unexplained) == (0, 1), "one of the two attempts"
    story.faults.append(Fault(KILL, started[1] + 0.5, started[1] + 0.5, 17, "of another process"))
    assert (story.accounts().failed_by_faults, story.accounts().failed_unexplained) == (0, 1)
    # It may have died before its handler could note anything.
    story.faults.append(Fault(KILL, started[1] + 0.5, started[1] + 0.5, 18, "of its holder", frozenset({job})))
    assert (story.accounts().failed_by_faults, story.accounts().failed_unexplained) == (1, 0)
    assert story.is_sound()


# Whether it was sound


def test_where_all_is_well_it_was_sound(story: Story) -> None:
    assert story.is_sound()


def test_a_soak_in_which_everything_fails_is_not_sound() -> None:
    story = Story()
    for _ in range(1_000):
        story.job("failed")
    assert story.accounts().failed_unexplained == 1_000
    assert not story.is_sound()


def test_a_soak_with_an_unexplained_cancellation_is_not_sound(story: Story) -> None:
    job = story.job("cancelled")
    found = story.accounts()
    assert (found.cancelled, found.wrong) == (1, (f"cancelled, and nothing explains it: {uuid.UUID(bytes=job)}",))
    assert not story.is_sound()


def test_a_soak_in_which_nothing_was_acknowledged_is_not_sound_unless_it_was_interrupted() -> None:
    assert not Story().is_sound()
    assert Story().is_sound(interrupted=True)


def test_a_soak_in_which_every_job_runs_twice_at_once_is_not_sound() -> None:
    story = Story()
    for _ in range(1_000):
        story.job(runs=2)
    assert (story.accounts().unexplained, len(story.accounts().wrong)) == (1_000, 10)
    assert not story.is_sound()


def test_jobs_that_have_not_ended_are_no_fault_of_an_interrupted_soak(story: Story) -> None:
    story.unended.add(story.job(None))
    assert not story.is_sound()
    assert story.is_sound(interrupted=True)
    story.job(None)
    assert not story.is_sound(interrupted=True), "but what is lost is lost"


def test_recovery_lasts_until_the_last_job_has_begun_elsewhere() -> None:
    first, second, never = (uuid.uuid4().bytes for _ in range(3))
    notes = [
        Note(first, 1, START, 1, 9.0, 0.5),
        Note(first, 2, START, 2, 14.0, 0.5),
        Note(second, 2, START, 1, 11.0, 0.5),
        Note(second, 3, START, 3, 16.0, 0.5),
        Note(second, 4, START, 3, 20.0, 0.5),
    ]
    held = frozenset({first, second, never})
    faults = [Fault(KILL, 10.0, 10.0, 1, "", held), Fault(STOP, 10.0, 12.0, 5, ""), Fault(BURST, 1.0, 1.0, None, "")]
    killed, stopped = recoveries(faults, Runs(notes))
    assert (killed.held, killed.again, killed.slowest) == (3, 2, 6.0)
    assert (stopped.kind, stopped.held, stopped.slowest) == (STOP, 0, None)


# The plan of faults


@given(st.integers(), st.floats(min_value=0.1, max_value=2_000), st.sets(st.sampled_from(KINDS)))
def test_a_seed_makes_the_same_plan_again_with_every_kind_in_it(seed: int, seconds: float, kinds: set[str]) -> None:
    ordered = sorted(kinds)
    planned = schedule(seed, seconds, ordered)
    assert planned == schedule(seed, seconds, ordered)
    assert [each.at for each in planned] == sorted(each.at for each in planned)
    assert all(0 < each.at < seconds and 0 <= each.target < 1 and 0 <= each.how_long < 1 for each in planned)
    often = Counter(each.kind for each in planned)
    assert set(often) == kinds
    assert not often or max(often.values()) - min(often.values()) <= 1


def test_another_seed_makes_another_plan() -> None:
    assert schedule(1, 600, KINDS) != schedule(2, 600, KINDS)
    assert len(schedule(1, 600, KINDS)) == 40


def test_faults_are_chosen_by_their_names() -> None:
    assert chosen(None) == KINDS
    assert chosen("none") == ()
    assert chosen("stop, kill") == (KILL, STOP)
    with pytest.raises(InvalidInput, match="there is no fault 'flood': choose from kill, "):
        chosen("kill,flood")


# The load


def test_a_hundred_jobs_have_every_type_in_its_share() -> None:
    assert Counter(piece(number, 1.0).job_type for number in range(100)) == SHARES
    assert set(SHARES) == set(JOB_TYPES)
    assert sum(SHARES.values()) == 100


def test_some_jobs_fail_once_and_some_for_good() -> None:
    flaky = [each for number in range(1_000) if (each := piece(number, 1.0)).job_type == FLAKY]
    assert Counter(each.data["fails"] for each in flaky) == {1: 54, ATTEMPTS: 6}
    assert {each.data["due"] for each in flaky} == {0.0}, "they do not measure latency"
    assert fails(0) == ATTEMPTS


def test_priorities_and_keys_are_among_them() -> None:
    pieces = [piece(number, 1.0) for number in range(1_000)]
    assert {each.options["priority"] for each in pieces if each.job_type == QUICK} == {150, 100, 30}
    assert len({each.options["key"] for each in pieces if each.job_type == KEYED}) == 3


# The ledger


def test_a_ledger_is_read_on_from_where_it_was(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.new() == []
    whole = b"x" * 16 + b"\0" * 32
    with ledger.path.open("ab", buffering=0) as file:
        file.write(whole + whole[:10])
        assert [note.id for note in ledger.new()] == [b"x" * 16]
        assert ledger.new() == [], "half a line is not read"
        file.write(whole[10:])
        assert len(ledger.new()) == 1
    assert len(list(ledger.all())) == 2


# The verdict


def sample(seconds: float, **changed: Any) -> Sample:
    usual: dict[str, Any] = dict.fromkeys(
        (field for field in Sample.__dataclass_fields__ if field not in ("seconds", "workers")), 10
    )
    workers = (Footprint(0, seconds, changed.pop("rss", 50_000_000)), Footprint(1, 3.0, 45_000_000))
    return Sample(seconds=seconds, workers=workers, **(usual | changed))


def series(**grows: float) -> list[Sample]:
    """Ten minutes, in which each of these grows by so much in a second."""
    usual = {"rss": 50_000_000}
    return [
        sample(float(at), **{name: int(usual.get(name, 10) + by * at) for name, by in grows.items()})
        for at in range(0, 605, 5)
    ]


def test_what_stays_as_it_is_has_not_drifted() -> None:
    found = verdict(series(), 600, 200)
    assert found.drifted == []
    assert found.slope == pytest.approx(0)
    assert found.words == "No drift: the last third is within the bounds of the first."


@pytest.mark.parametrize(
    ("grows", "what"),
    [
        ({"dead": 100}, "dead rows"),
        ({"table_bytes": 40_000}, "live table"),
        ({"index_bytes": 40_000}, "its indexes"),
        ({"connections": 0.1}, "connections"),
        ({"waiting": 10}, "jobs waiting"),
        ({"p99": 1}, "enqueue to end, p99"),
        ({"rss": 100_000}, "memory of worker 0"),
    ],
)
def test_what_grows_is_named(grows: dict[str, float], what: str) -> None:
    found = verdict(series(**grows), 600, 200)
    assert [change.name for change in found.drifted] == [what]
    assert found.words.startswith(f"Drift: {what} went from ")


def test_the_memory_of_the_first_worker_has_a_slope() -> None:
    assert verdict(series(rss=1_000), 600, 200).slope == pytest.approx(3_600_000)


def test_a_peak_that_passes_is_no_drift() -> None:
    peaks = [sample(each.seconds, dead=10**6, p99=10**5) if each.seconds % 60 == 0 else each for each in series()]
    assert verdict(peaks, 600, 200).drifted == []


def test_the_summary_of_a_short_or_empty_soak_is_marked() -> None:
    assert "Too short" in verdict(series(dead=1_000)[:20], 100, 200).words
    assert "nothing to compare" in verdict([], 600, 200).words
    assert verdict(series(dead=1_000)[:20], 100, 200).slope is None


def test_a_window_leaves_out_runs_that_do_not_measure_latency() -> None:
    job = uuid.uuid4().bytes
    notes = [Note(job, 1, START, 1, 2.0, 1.0), Note(job, 1, END, 1, 4.0, 1.0), Note(job, 2, END, 1, 9.0, 0.0)]
    window = Window(notes)
    assert window.done == 2
    assert window.latencies() == {"pickup_p50": 1_000, "pickup_p99": 1_000, "p50": 3_000, "p99": 3_000}
    assert set(Window([]).latencies().values()) == {None}


@given(st.lists(st.integers(), min_size=1))
def test_thirds_are_the_beginning_and_the_end(values: list[int]) -> None:
    first, last = thirds(values)
    assert list(first) == values[: max(len(values) // 3, 1)]
    assert list(last) == values[-max(len(values) // 3, 1) :]


def test_a_slope_needs_two_points() -> None:
    assert slope([(0, 1), (1, 3), (2, 5)]) == pytest.approx(2)
    assert slope([(0, 1), (0, 3)]) is None
    assert slope([]) is None


def test_the_memory_of_a_process() -> None:
    assert (resident_bytes(os.getpid()) or 0) > 1_000_000
    assert resident_bytes(2**22 + 1) is None


# The output meanwhile


def test_in_a_pipe_a_line_comes_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    with soak._progress(SoakOptions(seed=1)) as listener:
        for halves in range(1, 61):
            listener.sampled(sample(halves / 2, done=10 if halves > 2 else 0))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" s: ")[0].strip() for line in lines] == ["0.5", "1.0", "1.5", "11.5", "21.5"]
    assert "10 runs of handlers done" in lines[2]


def test_one_minute_is_one() -> None:
    assert [soak._minutes(seconds) for seconds in (6, 60, 90, 600)] == [
        "0.1 minutes",
        "1 minute",
        "1.5 minutes",
        "10 minutes",
    ]
