"""A claim of jobs of a flow key, step by step as in ``claim_keys.sql``: what others commit in between is seen, or is not.

Where jobs have no key, a claim is one step: nothing that it decides depends on other jobs. All jobs of a world have the
same key.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.model.rules import Flow, Rules
from tests.model.state import TICK, Ask, State, Visit, latest_of_all, visits_in

Further = tuple[tuple[str, *tuple[int, ...]], Ask | None]
"""What a claim does next, in the form of an action, and the claim after it; None if it ends and has changed nothing."""

LOCKED = ("locked", "marked", "counted", "taken")


class Keys:
    def __init__(self, flow: Flow, rules: Rules) -> None:
        self._flow = flow
        self._rules = rules
        self._locked = LOCKED if rules.keeps_lock_to_commit else LOCKED[:-1]

    def further(self, state: State, ask: Ask) -> Iterator[Further]:
        """The steps of a claim before it commits."""
        visit = ask.visit
        if visit is None:
            began = latest_of_all(state) + TICK
            seen = 0 if self._rules.counts_under_lock else self._room(state, state.held_from)
            yield ("begin claim",), ask._replace(checked=True, visit=Visit("begun", began, began, room=seen))
        elif visit.stage == "begun":
            yield self._lock(state, ask, visit)
        elif visit.stage == "counted":
            yield self._take(state, ask, visit)
        elif visit.stage in ("locked", "marked"):
            if visit.stage == "locked":
                yield ("move mark",), ask._replace(visit=self._marked(state, visit))
            yield self._count(state, ask, visit)

    def _lock(self, state: State, ask: Ask, visit: Visit) -> Further:
        if self._rules.locks_keys and any(other.stage in self._locked for other in visits_in(state)):
            return ("pass by",), None
        mark = state.held_from
        token = mark + 1 if self._rules.lifts_tokens and mark >= visit.token else visit.token
        action = "lock key" if self._rules.locks_keys else "read key"
        return (action,), ask._replace(visit=visit._replace(stage="locked", token=token, saw=mark, mark=mark))

    def _marked(self, state: State, visit: Visit) -> Visit:
        """It counts from the first job that is held now. Its own jobs come above the time at which it began."""
        tokens = self._held(state, visit.saw) if self._rules.marks_below_held else []
        mark = max(visit.saw, min([*tokens, visit.began]))
        token = max(visit.saw, visit.began) + 1 if self._rules.lifts_tokens else visit.token
        return visit._replace(stage="marked", token=token, mark=mark)

    def _count(self, state: State, ask: Ask, visit: Visit) -> Further:
        room = self._room(state, visit.saw) if self._rules.counts_under_lock else visit.room
        action = "count" if self._rules.counts_under_lock else "use count"
        if room == 0:
            return (action, room), _to_commit(state, ask, visit)
        # What it has seen does not matter any more.
        return (action, room), ask._replace(
            visit=visit._replace(stage="counted", began=visit.token, saw=visit.mark, room=room)
        )

    def _take(self, state: State, ask: Ask, visit: Visit) -> Further:
        taken = tuple(self._next(state))[: min(visit.room, ask.want)]
        return ("take", *taken), _to_commit(state, ask, visit._replace(taken=taken))

    def _room(self, state: State, mark: int) -> int:
        return max(self._flow.limit - len(self._held(state, mark)), 0)

    def _held(self, state: State, mark: int) -> list[int]:
        """The tokens of the held jobs that are seen from a mark."""
        return [job.life.token for job in state.jobs if job.held and job.life.token >= mark]

    def _next(self, state: State) -> Iterator[int]:
        locked = locked_jobs(state)
        for number, job in enumerate(state.jobs):
            if job.life.status == "pending":
                if not job.waits and number not in locked:
                    yield number
                if self._flow.ordered and self._rules.minds_heads:
                    return


def locked_jobs(state: State) -> set[int]:
    """The rows that claims have changed, and not committed yet."""
    return {number for visit in visits_in(state) for number in visit.taken}


def _to_commit(state: State, ask: Ask, visit: Visit) -> Ask | None:
    if not visit.taken and visit.mark <= state.held_from:
        return None
    token = visit.token
    return ask._replace(visit=Visit("taken", token, token, visit.mark, visit.mark, taken=visit.taken))
