"""Flow keys: whatever happens to jobs, no limit or rate is exceeded, each key keeps its order, and nothing waits for ever."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from howdah import JobQueue
from howdah.model.job import Job
from tests.clock import TestClock
from tests.conftest import Db

KEYS = ("a", "b", "c")
LIMIT = 2
BURST, INTERVAL = 3, 5.0
"""Of the rate: one token every five seconds."""
RULES: dict[str, dict[str, Any]] = {
    "ordered": {"p_ordered": True},
    "skipping": {"p_ordered": True, "p_order_skips": True},
    "limited": {"p_limit": LIMIT},
    "rated": {"p_rate": f"(1, {INTERVAL}, {BURST})"},
}
BEHIND_AND_AWAKE = """
SELECT count(*) AS n FROM live AS j LEFT JOIN flow_keys AS k ON k.job_type = j.job_type AND k.flow_key = j.flow_key
WHERE j.line = 'behind' AND k.rests_until IS NULL
"""
HELD = """
SELECT flow_key, count(*) AS n FROM live WHERE status IN ('claimed', 'running') GROUP BY flow_key
"""

keys = st.sampled_from(KEYS)
operations = st.lists(
    st.one_of(
        st.tuples(st.just("add"), keys, st.sampled_from([100, 100, 200]), st.sampled_from([0, 0, 5]), st.sampled_from([None, 2, 4])),
        st.tuples(st.just("claim"), st.integers(1, 5)),
        st.tuples(st.sampled_from(["complete", "fail", "release", "snooze"]), st.integers(0, 9)),
        st.tuples(st.sampled_from(["cancel", "reschedule", "reprioritise", "delete"]), st.integers(0, 20)),
        st.tuples(st.sampled_from(["pause", "resume"]), keys),
        st.tuples(st.just("wait"), st.sampled_from([1, 10, 70])),
        st.tuples(st.just("sweep")),
    ),
    min_size=10,
    max_size=40,
)  # fmt: skip


class Bucket:
    """The tokens of a key, as the rate has them."""

    def __init__(self, clock: TestClock) -> None:
        self._clock, self._at, self._tokens = clock, clock.now, float(BURST)

    def take(self, cost: int | None) -> None:
        self._fill()
        self._tokens -= min(cost or 1, BURST)
        assert self._tokens > -0.001

    def put(self, cost: int | None) -> None:
        self._fill()
        self._tokens = min(self._tokens + min(cost or 1, BURST), BURST)

    def _fill(self) -> None:
        passed, self._at = (self._clock.now - self._at).total_seconds(), self._clock.now
        self._tokens = min(self._tokens + passed / INTERVAL, BURST)


class World:
    """A queue with one type, and the jobs that are held."""

    def __init__(self, rule: str, db: Db, queue: JobQueue, clock: TestClock) -> None:
        self.rule, self.db, self.queue, self.clock = rule, db, queue, clock
        self.held: list[Job] = []
        self.buckets = {key: Bucket(clock) for key in KEYS}
        for table in ("live", "archive", "flow_keys", "flow_types", "types"):
            db.execute(f"DELETE FROM {table}")
        options = {"p_ordered": False, "p_order_skips": False, "p_limit": None, "p_rate": None, **RULES[rule]}
        db.execute(
            "SELECT declare_type('t', p_per => 'key', p_ordered => %(p_ordered)s, p_order_skips => %(p_order_skips)s,"
            " p_limit => %(p_limit)s, p_rate => %(p_rate)s::rate)",
            options,
        )
        queue.recover()

    def do(self, word: str, *arguments: Any) -> None:
        match word, *arguments:
            case "add", key, priority, delay, cost:
                data = {"key": key}
                self.queue.enqueue(
                    "t",
                    data,
                    priority=priority,
                    delay=delay,
                    retry_policy={"kind": "fixed", "delay": 20},
                    max_attempts=50,
                    cost=cost,
                )
            case "claim", count:
                self.claim(count)
            case (("complete" | "fail" | "release" | "snooze"), place) if self.held:
                job = self.held.pop(place % len(self.held))
                if word == "release":
                    self.queue.release(job)
                    self.buckets[str(job.flow_key)].put(job.cost)
                else:
                    self.queue.start(job)
                    {"complete": self.queue.complete, "fail": self.fail, "snooze": self.snooze}[word](job)
            case (("cancel" | "reschedule" | "reprioritise" | "delete"), place) if waiting := self.queue.list(
                status="pending"
            ).jobs:
                job = waiting[place % len(waiting)]
                change: dict[str, Any] = {"reprioritise": {"priority": 150}, "reschedule": {"delay": place}}
                getattr(self.queue, word)(job, **change.get(word, {}))
            case "pause", key:
                self.queue.pause("t", per=key)
            case "resume", key:
                self.queue.resume("t", per=key)
            case "wait", seconds:
                self.clock.advance(seconds)
            case ("sweep",):
                self.queue.recover()
        self.check()

    def fail(self, job: Job) -> None:
        self.queue.fail(job, "by chance")

    def snooze(self, job: Job) -> None:
        self.queue.snooze(job, delay=3)

    def claim(self, count: int) -> int:
        now = self.clock.now
        due = [
            job
            for job in self.queue.list(limit=1000).jobs
            if job.status == "pending" and (job.first_due_at or now) <= now
        ]
        jobs = self.queue.claim(["t"], count)
        self.held += jobs
        if self.rule == "rated":
            for job in jobs:
                self.buckets[str(job.flow_key)].take(job.cost)
        if self.rule == "ordered":
            for job in jobs:
                rivals = [other for other in due if other.flow_key == job.flow_key]
                assert min(rivals, key=lambda each: (-each.priority, each.first_due_at, each.id)).id == job.id
        return len(jobs)

    def check(self) -> None:
        assert self.db.execute(BEHIND_AND_AWAKE).fetchone() == {"n": 0}
        most = {"limited": LIMIT, "rated": 1000}.get(self.rule, 1)
        held = {row["flow_key"]: row["n"] for row in self.db.execute(HELD)}
        assert max(held.values(), default=0) <= most
        assert held == Counter(job.flow_key for job in self.held)

    def end(self) -> None:
        for key in KEYS:
            self.queue.resume("t", per=key)
        for _ in range(200):
            self.clock.advance(71)
            self.claim(10)
            for job in self.held:
                self.queue.complete(job)
            self.held.clear()
            if not self.queue.list(status="pending"):
                return
        raise AssertionError(f"jobs wait for ever: {self.queue.list(status='pending').jobs}")


@settings(max_examples=40)
@given(rule=st.sampled_from(sorted(RULES)), steps=operations)
def test_no_limit_is_exceeded_and_nothing_waits_for_ever(
    db: Db, queue: JobQueue, clock: TestClock, rule: str, steps: list[tuple[Any, ...]]
) -> None:
    world = World(rule, db, queue, clock)
    for step in steps:
        world.do(*step)
    world.end()
