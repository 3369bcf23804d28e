"""The checker can fail: on evidence that was made up, and on Howdah without its fences."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.broken import MUTANTS, Mutant, expose
from tests.faults.case import CASES
from tests.faults.checker import judge
from tests.faults.evidence import Death, Ended, Evidence, Farewell, Transition
from tests.faults.stage import Stage
from tests.faults.suite import play
from tests.servers import Server
from tests.worker.ledger import Entry
from tests.worker.processes import LEASE, RECOVERY

ALL = ("I1", "I2", "I3", "I4", "I5", "I6", "I7")
CHEAP = ("zombie-complete", "aba-token", "rescue-vs-complete")
MAX_ATTEMPTS = 3


class Story:
    """A job's life, as the triggers and the handlers would have recorded it: each step takes a second."""

    def __init__(self) -> None:
        self.id = uuid.uuid4()
        self.seconds = self.token = self.attempts = self.lives = 0
        self.status = "pending"
        self.worker: str | None = None
        self.result: Any = None
        self.stage: str | None = None
        self.errors: list[dict[str, Any]] = []
        self.transitions: list[Transition] = []
        self.entries: list[Entry] = []
        self.farewells: list[Farewell] = []
        self.deaths: list[Death] = []
        self._move(None, "pending")

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=self.seconds)

    def let_pass(self, seconds: int) -> None:
        self.seconds += seconds

    def claim(self, worker: str = "worker") -> None:
        before, self.token = self.token, self.token + 1
        self.worker, self.stage = worker, None
        self.attempts += 1
        self._move("pending", "running", before, worker=worker)

    def say(self, word: str, token: int | None = None) -> None:
        """A handler's note: of the claim's own, or of another one."""
        self.seconds += 1
        token = self.token if token is None else token
        self.entries.append(Entry(word, "work", self.id, token, self.attempts, "worker", 1, self.seconds, {}))

    def report(self) -> None:
        self.stage = f"token {self.token}"

    def fail(self) -> None:
        self.errors.append({"token": self.token, "error": f"token {self.token} fails"})
        self._move("running", "pending", self.token)

    def snooze(self) -> None:
        self.attempts -= 1
        self._take_back()

    def sweep(self, silent_for: float = LEASE + 1, **reasons: Any) -> None:
        """Its worker is declared dead, after it was silent for so long."""
        self._take_back(**reasons)
        moment, xact = self.transitions[-1].at, self.transitions[-1].xact
        farewell = Farewell(moment, xact, "worker", timedelta(seconds=silent_for), timedelta(seconds=LEASE), False)
        self.farewells.append(farewell)

    def _take_back(self, **reasons: Any) -> None:
        before, self.token = self.token, self.token + 1
        self._move("running", "pending", before, **reasons)

    def end(self, status: str = "completed") -> None:
        before = "running" if status == "completed" or self.attempts else "pending"
        self.result = {"token": self.token} if status == "completed" else None
        self._move(before, None, self.token)
        self._move(None, status)

    def retry(self) -> None:
        """By an operator: a new life."""
        self._move(self.status, None, self.token)
        self.token += 1
        self.attempts, self.stage, self.result = 0, None, None
        self.lives += 1
        self._move(None, "pending")

    def _move(self, before: str | None, after: str | None, token_before: int | None = None, **others: Any) -> None:
        self.seconds += 1
        parts: dict[str, Any] = {field.name: None for field in dataclasses.fields(Transition)}
        parts |= {"n": len(self.transitions), "xact": len(self.transitions), "at": self.now(), "id": self.id}
        parts |= {"before": before, "after": after, "token_before": token_before, "token": self.token, **others}
        parts["holder"] = self.worker if before == "running" else None
        self.transitions.append(Transition(**parts))
        self.status = after or self.status

    def row(self) -> Ended:
        return Ended(
            self.id,
            "work",
            self.status,
            self.token,
            self.attempts,
            MAX_ATTEMPTS,
            0,
            0,
            self.worker,
            self.stage,
            self.result,
            self.errors or None,
        )

    def evidence(self) -> Evidence:
        return Evidence(frozenset([self.id]), self.entries, self.transitions, self.farewells, [self.row()], self.deaths)


def found(story: Story | Evidence, *invariants: str) -> list[str]:
    """Which invariants are violated, of these or of all."""
    evidence = story.evidence() if isinstance(story, Story) else story
    violations = judge(evidence, invariants or ALL).violations
    return sorted({violation.partition(":")[0] for violation in violations})


def run_once() -> Story:
    """The smallest story in which nothing is wrong."""
    story = Story()
    story.claim()
    story.say("START")
    story.say("END")
    story.end()
    return story


def test_a_job_that_was_run_once_violates_nothing() -> None:
    story = run_once()
    verdict = judge(story.evidence(), ALL)
    assert (verdict.violations, verdict.jobs, verdict.lost, verdict.doubled) == ((), 1, 0, 0)


def test_i1_and_i7_find_a_job_that_has_not_ended() -> None:
    story = Story()
    story.claim()
    assert found(story) == ["I1", "I7"]
    assert judge(story.evidence(), ALL).lost == 1


def test_i1_finds_a_job_that_has_vanished() -> None:
    evidence = dataclasses.replace(run_once().evidence(), jobs=[])
    assert found(evidence) == ["I1"]
    assert found(dataclasses.replace(evidence, acknowledged=frozenset())) == [], (
        "no producer was told that it was there"
    )


def test_i7_finds_a_job_that_was_never_acknowledged() -> None:
    evidence = dataclasses.replace(Story().evidence(), acknowledged=frozenset())
    assert found(evidence) == ["I7"]


def test_a_job_that_was_to_complete_may_not_end_otherwise() -> None:
    for status in ("failed", "cancelled"):
        story = Story()
        story.claim()
        story.end(status)
        assert found(story) == [], "any end is one"
        assert judge(story.evidence(), ALL, fails=["work"]).violations == ()
        (violation,) = judge(story.evidence(), ALL, fails=["doomed"]).violations
        assert f"{story.id} ended as {status}" in violation
    assert judge(run_once().evidence(), ALL, fails=[]).violations == ()


def test_a_case_in_which_nothing_was_at_stake_does_not_pass(shared_server: Server) -> None:
    def nothing_but_a_refusal(stage: Stage) -> None:
        stage.refused += 1

    idle = dataclasses.replace(CASES["kill9-random"], play=nothing_but_a_refusal)
    outcome = play(idle, shared_server, 18, quick=True)
    assert outcome.outcome == "failed"
    for lack in ("no jobs", "no fault", "no recovery", "1 enqueues were refused"):
        assert lack in outcome.reason
    outage = dataclasses.replace(idle, refuses=True)
    assert "refused" not in play(outage, shared_server, 18, quick=True).reason


def test_i2_finds_a_job_that_ended_twice() -> None:
    story = run_once()
    story.end()
    assert found(story) == ["I2"]
    assert judge(story.evidence(), ALL).doubled == 1


def test_i2_finds_a_job_that_is_there_twice() -> None:
    story = run_once()
    assert found(dataclasses.replace(story.evidence(), jobs=[story.row()] * 2)) == ["I2"]


def test_i2_allows_an_end_for_each_life() -> None:
    story = run_once()
    story.retry()
    story.claim()
    story.end()
    assert found(story) == []
    story.end()
    assert found(story) == ["I2"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"result": {"token": 1}}, id="another one's result"),
        pytest.param({"token": 2}, id="completed with another one's token"),
        pytest.param({"current_stage": "token 1"}, id="another one's progress"),
        pytest.param({"errors": [{"token": 3, "error": "token 1 fails"}]}, id="another one's error"),
    ],
)
def test_i3_finds_what_the_last_holder_did_not_write(change: dict[str, Any]) -> None:
    story = Story()
    story.claim()
    story.sweep()
    story.claim()
    story.report()
    story.end()
    assert found(story) == []
    wrong = dataclasses.replace(story.row(), **change)
    assert found(dataclasses.replace(story.evidence(), jobs=[wrong])) == ["I3"]


def test_i3_finds_repeated_tokens() -> None:
    story = Story()
    story.claim()
    story.snooze()
    story.token = 0
    story.claim()
    story.end()
    assert found(story) == ["I3"]


def overlapping(**taken: Any) -> Story:
    """A run continues after the next one has begun."""
    story = Story()
    story.claim()
    story.say("START")
    story.sweep(**taken)
    story.claim()
    story.say("START")
    story.say("END", token=1)
    story.say("END")
    story.end()
    return story


def test_i4_finds_a_run_beside_one_of_a_live_worker() -> None:
    assert found(overlapping(silent_for=LEASE - 0.1)) == ["I4"]
    assert found(overlapping(silent_for=LEASE)) == []


@pytest.mark.parametrize("reason", ["deadline_at", "lease_until"])
def test_i4_allows_it_when_its_time_was_over(reason: str) -> None:
    taken_at = overlapping().transitions[2].at
    assert found(overlapping(silent_for=0, **{reason: taken_at})) == []
    assert found(overlapping(silent_for=0, **{reason: taken_at + timedelta(milliseconds=1)})) == ["I4"]


def test_i4_allows_a_new_run_after_the_end_of_the_old_one() -> None:
    story = Story()
    story.claim()
    story.say("START")
    story.say("END")
    story.sweep(silent_for=0)
    story.claim()
    story.say("START")
    story.end()
    assert found(story) == []


def test_i4_finds_a_claim_that_was_started_twice() -> None:
    story = Story()
    story.claim()
    story.say("START")
    story.say("START")
    story.end()
    assert found(story) == ["I4"]


@pytest.mark.parametrize("claimed", [False, True])
def test_i4_finds_a_run_of_a_job_that_was_never_recovered(claimed: bool) -> None:
    story = Story()
    story.claim()
    story.say("START")
    if claimed:
        story.claim()
    story.say("START", token=2)
    story.say("END", token=1)
    story.end()
    assert found(story) == ["I4"]


def test_i5_counts_the_starts() -> None:
    story = Story()
    for _ in range(MAX_ATTEMPTS):
        story.claim()
        story.say("START")
        story.fail()
    story.end("failed")
    assert found(story) == []
    story.say("START", token=9)
    assert found(story) == ["I5"]
    one_interruption = dataclasses.replace(story.row(), interruptions=1)
    assert found(dataclasses.replace(story.evidence(), jobs=[one_interruption])) == []


def test_i6_measures_how_long_a_dead_workers_job_was_held() -> None:
    def recovered_after(seconds: float) -> tuple[list[str], timedelta]:
        story = Story()
        story.claim()
        story.deaths.append(Death("worker", story.now() + timedelta(seconds=11 - seconds)))
        story.let_pass(10)
        story.sweep()
        story.claim("another")
        story.end()
        return found(story), timedelta(seconds=judge(story.evidence(), ALL).slowest or 0)

    assert recovered_after(RECOVERY) == ([], timedelta(seconds=RECOVERY))
    assert recovered_after(RECOVERY + 0.5) == (["I6"], timedelta(seconds=RECOVERY + 0.5))


def test_i6_finds_a_job_that_was_never_recovered() -> None:
    story = Story()
    story.claim()
    story.deaths.append(Death("worker", story.now()))
    assert found(story, "I6") == ["I6"]


def test_i6_is_about_what_a_worker_held_when_it_died() -> None:
    story = run_once()
    story.deaths += [Death("worker", story.now() + timedelta(seconds=1)), Death("another", story.transitions[1].at)]
    assert (found(story), judge(story.evidence(), ALL).slowest) == ([], None)


def test_of_many_violations_some_are_listed_and_all_are_counted() -> None:
    ids = [uuid.uuid4() for _ in range(20)]
    verdict = judge(Evidence(frozenset(ids), [], [], [], [], []), ["I1"])
    assert (verdict.lost, len(verdict.violations)) == (20, 6)
    assert verdict.violations[-1] == "I1: and 15 more like these"


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Any life that Howdah may give a job."""
    story = Story()
    for life in range(draw(st.integers(1, 2))):
        if life:
            story.retry()
        for turn in draw(st.lists(st.sampled_from(["fail", "snooze", "sweep"]), max_size=MAX_ATTEMPTS - 1)):
            run(story)
            getattr(story, turn)()
        run(story)
        story.end(draw(st.sampled_from(["completed", "failed", "cancelled"])))
    return story


def run(story: Story) -> None:
    story.claim()
    story.say("START")
    story.report()
    story.say("END")


@given(stories())
def test_what_howdah_may_do_is_no_violation(story: Story) -> None:
    assert found(story) == []


def lose(story: Story) -> None:
    story.status = "pending"


def end_again(story: Story) -> None:
    story.end(story.status)


def report_late(story: Story) -> None:
    story.stage = f"token {story.token - 1}"


def start_again(story: Story) -> None:
    story.say("START")


def start_too_often(story: Story) -> None:
    for token in range(100, 100 + (1 + story.lives) * MAX_ATTEMPTS):
        story.say("START", token=token)


@given(
    stories(),
    st.sampled_from(
        [
            (lose, ["I1", "I7"]),
            (end_again, ["I2"]),
            (report_late, ["I3"]),
            (start_again, ["I4"]),
            (start_too_often, ["I5"]),
        ]
    ),
)
def test_a_fault_in_any_life_of_a_job_is_found(story: Story, fault: tuple[Callable[[Story], None], list[str]]) -> None:
    inject, violated = fault
    inject(story)
    assert found(story, *violated) == violated


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_what_is_broken_on_purpose_is_still_there_to_be_broken(mutant: Mutant) -> None:
    assert mutant.text not in mutant.source() or mutant.text in mutant.becomes


@pytest.mark.parametrize(
    "mutant", [each for each in MUTANTS if each.case in CHEAP or each.function == "enqueue_many"], ids=str
)
def test_a_missing_fence_is_found(mutant: Mutant, shared_server: Server) -> None:
    exposed = expose(mutant, shared_server)
    assert exposed.is_caught, f"no check has found {mutant}"
    assert "in vain" not in exposed.asserted, f"found by name, and not only by an absence: {exposed.asserted}"
