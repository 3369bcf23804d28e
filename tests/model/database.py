"""The database of the model: it moves jobs by the table, behind a fence. Each call is one transaction."""

from __future__ import annotations

from typing import NamedTuple

from tests.model.rules import Rules, Scene
from tests.model.state import Ask, Hold, Job, Message, State, latest_token, next_claim, put
from tests.model.table import HELD, after


class Write(NamedTuple):
    """A verb that reached a job, for the properties to judge."""

    verb: str
    job: int
    before: Job
    after: Job
    accepted: bool
    by: int | None = None
    """The process that wrote it."""
    claim: int | None = None
    """The claim in whose name it was written, if in any."""


class Database:
    def __init__(self, scene: Scene, rules: Rules) -> None:
        self._scene = scene
        self._rules = rules

    def _moved(self, job: Job, verb: str) -> Job | None:
        life = after(verb, job.life, self._scene.limits, self._rules.table)
        if life is None:
            return None
        starts = job.starts + (life.status == "running" and job.life.status != "running" and not life.ahead)
        if verb == "snooze":
            starts -= 1
        elif verb == "retry":
            starts = 0
        if life.status in HELD:
            return job._replace(
                life=life, starts=starts, begun=job.begun or (life.status == "running" and not life.ahead)
            )
        in_order = self._scene.flow is not None and self._scene.flow.ordered
        waits = in_order and verb in ("fail", "snooze") and life.status == "pending"
        return Job(life, starts=starts, acknowledged=job.acknowledged, waits=waits)

    def write(
        self, jobs: tuple[Job, ...], number: int, verb: str, *, by: int | None = None, claim: int | None = None
    ) -> tuple[tuple[Job, ...], Write]:
        before = jobs[number]
        moved = self._moved(before, verb)
        write = Write(verb, number, before, moved or before, moved is not None, by, claim)
        return (put(jobs, number, moved) if moved else jobs), write

    def write_batch(self, jobs: tuple[Job, ...], message: Message, by: int) -> tuple[tuple[Job, ...], list[Write]]:
        """A holder's write: behind the fence, each member for itself."""
        writes = []
        changed = jobs
        for item in message.items:
            job = changed[item.job]
            if message.verb in self._rules.unfenced or self._rules.fence_of(job.life) == item.fence:
                changed, write = self.write(changed, item.job, message.verb, by=by, claim=item.claim)
            else:
                write = Write(message.verb, item.job, job, job, False, by, item.claim)
            writes.append(write)
        if self._rules.all_or_nothing and not all(write.accepted for write in writes):
            refused = [write._replace(after=write.before, accepted=False) for write in writes]
            return jobs, refused
        return changed, writes

    def take_back(self, jobs: tuple[Job, ...], name: int) -> tuple[tuple[Job, ...], tuple[Write, ...]]:
        writes = []
        for number, job in enumerate(jobs):
            if job.held and job.holder == name and not job.leased:
                jobs, write = self.write(jobs, number, "worker_died")
                writes.append(write)
        return jobs, tuple(writes)

    def begin(self, jobs: tuple[Job, ...], hold: Hold) -> tuple[Job, ...]:
        """The handler of a job that was started ahead is called. No message goes to the database: only ghosts change."""
        job = jobs[hold.job]
        return put(jobs, hold.job, job._replace(begun=True, starts=job.starts + 1)) if job.claim == hold.claim else jobs

    # Claims

    def is_registered(self, state: State, name: int, boot: int) -> bool:
        row = state.rows[name]
        return name in self._scene.plain or (row is not None and row.boot == boot)

    def take(self, state: State, number: int, ask: Ask) -> tuple[State, tuple[Hold, ...], tuple[Write, ...]]:
        """Gives the claim the first jobs that wait; or, of a flow key, those that it has locked, and commits."""
        name = self._scene.names[number]
        row = state.rows[name]
        stray = ask.checked and not self.is_registered(state, name, ask.boot)
        # A worker that was silent for too long may still claim, until it is swept; by a lease that has passed already.
        passed = stray or (row is not None and not row.fresh)
        jobs, holds, writes = state.jobs, list[Hold](), list[Write]()
        for place in ask.visit.taken if ask.visit else range(len(state.jobs)):
            if len(holds) >= ask.want and self._rules.claims_at_most_asked:
                break
            verb = "claim_and_start" if len(holds) < ask.start else "claim_ahead" if ask.ahead else "claim"
            claim = next_claim(state, place)
            changed, write = self.write(jobs, place, verb, by=number, claim=claim)
            if write.accepted:
                taken = write.after._replace(holder=name, leased=name in self._scene.plain, stray=stray, claim=claim)
                if ask.visit:
                    token = max(ask.visit.token, taken.life.token)
                    taken = taken._replace(life=taken.life._replace(token=token))
                elif self._rules.tokens_by_clock:
                    taken = taken._replace(life=taken.life._replace(token=latest_token(state, place) + 1))
                jobs = put(changed, place, taken)
                phase = "ready" if taken.life.ahead else "running" if taken.life.status == "running" else "waiting"
                holds.append(Hold(place, self._rules.fence_of(taken.life), claim, phase, passed))
                writes.append(write._replace(after=taken))
        held_from = max(state.held_from, ask.visit.mark) if ask.visit else state.held_from
        return state._replace(jobs=jobs, held_from=held_from), tuple(holds), tuple(writes)
