"""The protocol: everything that may happen next.

The database's part of it moves jobs by the table, behind a fence. The workers' part is what ``src/howdah/worker`` does:
claims by demand, prefetched jobs that wait, ends that gather for a batch, a heartbeat, and checks of what the database
has of the jobs that are held here. Between them, messages arrive late, twice, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from tests.model.database import Database, Write
from tests.model.keys import Further, Keys, locked_jobs
from tests.model.rules import Rules, Scene
from tests.model.state import (
    Adrift,
    Ask,
    Hold,
    Item,
    Job,
    Message,
    Process,
    Replica,
    Reply,
    Row,
    State,
    canonical,
    next_boot,
    put,
)
from tests.model.table import ENDED, Life

Action: TypeAlias = tuple[Any, ...]

WITHOUT_END = ("waiting", "ready", "running")
"""The phases of a hold of which nothing is on its way to the database."""


class Step(NamedTuple):
    action: Action
    state: State
    writes: tuple[Write, ...] = ()
    is_surprise: bool = False
    is_repair: bool = False
    """A repair from outside the protocol: a process is started, continued, or connected again."""


class Protocol:
    """All steps from a state."""

    def __init__(self, scene: Scene, rules: Rules | None = None) -> None:
        self.scene = scene
        self.rules = rules or Rules()
        self._database = Database(scene, self.rules)
        self._keys = scene.flow and Keys(scene.flow, self.rules)
        # Not where something is broken: the counterexample is to be the same each time.
        self._alike = rules is None and scene.names == (0, 1) and not scene.plain
        self.names = range(max(scene.names) + 1)

    def initial(self) -> State:
        scene = self.scene
        return State(
            (Job(Life(status="absent")),) * scene.jobs,
            (Process(),) * len(scene.names),
            (None,) * len(self.names),
            surprises=scene.budget,
        )

    def canonical(self, state: State) -> State:
        if not self.rules.renumbers:
            return state
        return canonical(state, self.scene.names, alike=self._alike, one_clock=self._keys is not None)

    def steps(self, state: State) -> Iterator[Step]:
        for step in self._possible(state):
            if not step.is_surprise or self.scene.surprises is None:
                yield step
            elif state.surprises:
                yield step._replace(state=step.state._replace(surprises=state.surprises - 1))

    def _possible(self, state: State) -> Iterator[Step]:
        yield from self._producer(state)
        for number, process in enumerate(state.processes):
            yield from self._process(state, number, process)
        yield from self._latecomers(state)
        yield from self._sweep(state)
        yield from self._operator(state)
        yield from self._leases_pass(state)
        yield from self._retries_due(state)
        yield from self._failover(state)

    def _may(self, kind: str) -> bool:
        return kind in self.scene.kinds

    # Producers and operators

    def _producer(self, state: State) -> Iterator[Step]:
        for number, job in enumerate(state.jobs):
            if job.life.status == "absent":
                # The next one only when this one is there: which is first makes no difference.
                added = Job(Life(), acknowledged=True)
                yield self._enqueued(state, ("enqueue", number), number, added)
                if self._may("lost reply"):
                    unheard = added._replace(acknowledged=False)
                    yield self._enqueued(state, ("enqueue unheard", number), number, unheard)._replace(is_surprise=True)
                return
            if not job.acknowledged:
                again = job if self.rules.enqueues_once else Job(Life())
                yield self._enqueued(state, ("enqueue again", number), number, again._replace(acknowledged=True))

    def _enqueued(self, state: State, action: Action, number: int, job: Job) -> Step:
        write = Write("enqueue", number, state.jobs[number], job, True)
        return Step(action, state._replace(jobs=put(state.jobs, number, job)), (write,))

    def _operator(self, state: State) -> Iterator[Step]:
        locked = locked_jobs(state)
        for number, job in enumerate(state.jobs):
            if number in locked:
                continue  # It comes when the claim has committed.
            for verb in ("cancel", "retry", "expire", "timed_out", "cancel_overdue"):
                if not self._may(verb):
                    continue
                jobs, write = self._database.write(state.jobs, number, verb)
                if write.accepted:
                    passed = verb in ("timed_out", "cancel_overdue")
                    changed = self._past_claim(state, number) if passed else state
                    yield Step((verb, number), changed._replace(jobs=jobs), (write,), is_surprise=True)
            if job.life.status == "archiving":
                jobs = put(state.jobs, number, job._replace(life=job.life._replace(status="completed")))
                yield Step(("archive", number), state._replace(jobs=jobs))

    # Two timelines

    def _failover(self, state: State) -> Iterator[Step]:
        """A standby falls behind, and is promoted: what happened between is lost in the database, and not in the processes."""
        replica = state.replica
        if replica is not None:

            def is_lost(hold: Hold) -> bool:
                job = replica.jobs[hold.job]
                return hold.claim != job.claim or (hold.phase != "waiting" and job.life.status == "claimed")

            processes = tuple(_unaware(_past_in(process, is_lost)) for process in state.processes)
            promoted = state._replace(jobs=replica.jobs, rows=replica.rows, processes=processes, replica=None)
            yield Step(("promote", 0), promoted)
        elif self._may("failover") and all(job.acknowledged for job in state.jobs):
            behind = state._replace(replica=Replica(state.jobs, state.rows))
            yield Step(("fall behind", 0), behind, is_surprise=True)

    # The sweep, and time

    def _sweep(self, state: State) -> Iterator[Step]:
        for name, row in enumerate(state.rows):
            if row and not (row.fresh and self.rules.sweeps_only_passed_leases):
                jobs, writes = self._database.take_back(state.jobs, name)
                yield Step(("sweep", name), state._replace(jobs=jobs, rows=put(state.rows, name, None)), writes)
        for number, job in enumerate(state.jobs):
            if not job.held:
                continue
            if job.leased:
                jobs, write = self._database.write(state.jobs, number, "lease_passed")
                if write.accepted:
                    past = self._past_claim(state, number)
                    yield Step(("lease_passed", number), past._replace(jobs=jobs), (write,))
            elif self.rules.sweeps_strays and (job.stray or state.rows[job.holder] is None):
                jobs, write = self._database.write(state.jobs, number, "worker_died")
                if write.accepted:
                    yield Step(("sweep stray", number), state._replace(jobs=jobs), (write,))

    def _leases_pass(self, state: State) -> Iterator[Step]:
        """A lease passes if its worker is dead or stopped, or is cut off: but a running worker releases its jobs before."""
        for name, row in enumerate(state.rows):
            if (
                row
                and row.fresh
                and all(self._is_silent(process) for process in self._processes_of(state, name, row.boot))
            ):
                # Also in a process that has another boot by now: a promoted standby may know it by the one before.
                past = self._past_of(state, [n for n, its in enumerate(self.scene.names) if its == name])
                yield Step(("lease passes", name), past._replace(rows=put(past.rows, name, Row(row.boot, False))))

    def _retries_due(self, state: State) -> Iterator[Step]:
        for number, job in enumerate(state.jobs):
            if job.waits:
                yield Step(("due", number), state._replace(jobs=put(state.jobs, number, job._replace(waits=False))))

    def _is_silent(self, process: Process) -> bool:
        let_go = process.fenced or not self.rules.fences_itself
        return process.mode == "stopped" or (process.cut and let_go)

    def _processes_of(self, state: State, name: int, boot: int) -> Iterator[Process]:
        for number, process in enumerate(state.processes):
            if self.scene.names[number] == name and process.boot == boot and process.mode != "down":
                yield process

    def _past_of(self, state: State, numbers: Sequence[int]) -> State:
        """The leases of these processes have passed."""
        return state._replace(
            processes=tuple(
                _past_in(process, lambda hold: True) if number in numbers else process
                for number, process in enumerate(state.processes)
            )
        )

    def _past_claim(self, state: State, number: int) -> State:
        """The time of the claim that holds a job is over."""
        claim = number, state.jobs[number].claim

        def is_it(hold: Hold) -> bool:
            return (hold.job, hold.claim) == claim

        return state._replace(processes=tuple(_past_in(process, is_it) for process in state.processes))

    # A worker

    def _process(self, state: State, number: int, process: Process) -> Iterator[Step]:
        if process.mode == "down":
            yield self._begin(state, number)
            return
        if self._may("crash"):
            yield from self._crash(state, number, process)
        yield from self._arrivals(state, number, process)
        if process.mode == "stopped":
            yield self._with(state, ("resume", number), number, process._replace(mode="dazed"), is_repair=True)
            return
        if self._may("stop"):
            yield self._with(state, ("stop", number), number, process._replace(mode="stopped"), is_surprise=True)
        yield from self._connection(state, number, process)
        yield from self._handlers(state, number, process)
        if not process.cut:
            yield from self._requests(state, number, process)
            if self.scene.names[number] not in self.scene.plain:
                yield from self._liveness(state, number, process)

    def _with(
        self,
        state: State,
        action: Action,
        number: int,
        process: Process,
        writes: Iterable[Write] = (),
        *,
        is_surprise: bool = False,
        is_repair: bool = False,
    ) -> Step:
        changed = state._replace(processes=put(state.processes, number, process))
        return Step(action, changed, tuple(writes), is_surprise, is_repair)

    def _begin(self, state: State, number: int) -> Step:
        name = self.scene.names[number]
        if name in self.scene.plain:
            return self._with(state, ("begin", number), number, Process("up"), is_repair=True)
        return self._register(
            state, ("begin", number), number, Process("up", next_boot(state, self.scene.names, name))
        )._replace(is_repair=True)

    def _register(self, state: State, action: Action, number: int, process: Process) -> Step:
        """A worker that registers holds nothing: jobs of an earlier life of its name are recovered."""
        name = self.scene.names[number]
        others = [n for n, other in enumerate(self.scene.names) if other == name and n != number]
        state = self._past_of(state, others)
        for other in others:
            state = state._replace(processes=put(state.processes, other, _unaware(state.processes[other])))
        jobs, writes = self._database.take_back(state.jobs, name)
        state = state._replace(jobs=jobs, rows=put(state.rows, name, Row(process.boot, True)))
        return self._with(state, action, number, process, writes)

    def _crash(self, state: State, number: int, process: Process) -> Iterator[Step]:
        dead = Process()
        yield self._with(state, ("crash", number), number, dead, is_surprise=True)
        on_their_way = [
            Adrift(number, sent)
            for sent in (process.ask, process.sent)
            if isinstance(sent, Ask) or (isinstance(sent, Message) and sent.verb != "started")
        ]
        if on_their_way and self._may("late message"):
            late = self._adrift(state, on_their_way)
            if late:
                yield self._with(late, ("crash late", number), number, dead, is_surprise=True)

    def _adrift(self, state: State, messages: Sequence[Adrift]) -> State | None:
        adrift = tuple(sorted({*state.adrift, *messages}, key=repr))
        return state._replace(adrift=adrift) if len(adrift) <= self.scene.adrift else None

    def _connection(self, state: State, number: int, process: Process) -> Iterator[Step]:
        if process.cut:
            yield self._with(state, ("heal", number), number, process._replace(cut=False), is_repair=True)
            if self.rules.fences_itself and not process.fenced:
                holds = tuple(
                    hold._replace(phase=_handed_back(hold.phase)) if hold.phase in WITHOUT_END else hold
                    for hold in process.holds
                )
                yield self._with(state, ("fence", number), number, process._replace(fenced=True, holds=holds))
        elif self._may("cut") and self.scene.names[number] not in self.scene.plain:
            yield self._with(state, ("cut", number), number, process._replace(cut=True), is_surprise=True)

    # What is decided in the worker alone

    def _handlers(self, state: State, number: int, process: Process) -> Iterator[Step]:
        for place, hold in enumerate(process.holds):
            if hold.phase == "running":
                for verb in self.scene.endings:
                    yield self._ends(state, ("finish", number, hold.job, verb), number, process, place, verb)
                if self._may("interrupt"):
                    yield self._ends(
                        state, ("finish", number, hold.job, "interrupt"), number, process, place, "interrupt"
                    )._replace(is_surprise=True)
            elif hold.phase in ("waiting", "ready") and self._may("interrupt"):
                verb = _handed_back(hold.phase)
                yield self._ends(state, ("hand back", number, hold.job), number, process, place, verb)._replace(
                    is_surprise=True
                )

    def _ends(self, state: State, action: Action, number: int, process: Process, place: int, verb: str) -> Step:
        ended = put(process.holds, place, process.holds[place]._replace(phase=verb))
        return self._with(state, action, number, process._replace(holds=ended))

    # What it sends to the database, and what the database does with it

    def _requests(self, state: State, number: int, process: Process) -> Iterator[Step]:
        busy = sum(hold.phase in ("starting", "running") for hold in process.holds)
        room = self.scene.room - len(process.holds)
        # A claim sent when no job waits, that arrives when one does, equals a claim sent a moment later.
        waits = any(job.life.status == "pending" and not job.waits for job in state.jobs)
        if process.ask is None and room > 0 and not process.fenced and waits:
            free = 0 if busy else 1
            # Where a worker holds one job only, none would ever wait in it if every claim started its jobs at once.
            # But jobs of a flow key never wait in a worker.
            for start in {0, free} if self.scene.room == 1 and not self._keys else {free}:
                ask = Ask(process.boot, room, start, ahead=self.scene.ahead)
                yield self._with(state, ("ask", number, room, start), number, process._replace(ask=ask))
        if isinstance(process.ask, Reply):
            yield self._with(state, ("receive", number), number, self._received(process, process.ask.holds))
        if process.sent is None:
            if not busy and not process.fenced:
                yield from self._send_start(state, number, process)
                yield from self._begin_ready(state, number, process)
            yield from self._send_ends(state, number, process)
        elif process.sent.verb == "started":
            yield self._with(state, ("launch", number), number, self._launched(process, process.sent.items))
        for hold in process.holds:
            if hold.phase == "running" and hold.claim != state.jobs[hold.job].claim:
                item = Message("report", (_item(hold),))
                _, writes = self._database.write_batch(state.jobs, item, number)
                yield Step(("report", number, hold.job), state, tuple(writes))
            if hold.phase == "running" and (self.scene.ahead and state.jobs[hold.job].life.ahead):
                jobs, writes = self._database.write_batch(state.jobs, Message("start", (_item(hold),)), number)
                yield Step(("note", number, hold.job), state._replace(jobs=jobs), tuple(writes))

    def _received(self, process: Process, came: tuple[Hold, ...]) -> Process:
        if process.fenced:
            came = tuple(hold._replace(phase=_handed_back(hold.phase)) for hold in came)
        return process._replace(ask=None, holds=tuple(sorted((*process.holds, *came))))

    def _send_start(self, state: State, number: int, process: Process) -> Iterator[Step]:
        for place, hold in enumerate(process.holds):
            if hold.phase == "waiting":
                starting = put(process.holds, place, hold._replace(phase="starting"))
                sent = Message("start", (_item(hold),))
                yield self._with(
                    state, ("send start", number, hold.job), number, process._replace(holds=starting, sent=sent)
                )

    def _begin_ready(self, state: State, number: int, process: Process) -> Iterator[Step]:
        for place, hold in enumerate(process.holds):
            if hold.phase == "ready":
                begun = state._replace(jobs=self._database.begin(state.jobs, hold))
                running = process._replace(holds=put(process.holds, place, hold._replace(phase="running")))
                yield self._with(begun, ("begin ready", number, hold.job), number, running)

    def _send_ends(self, state: State, number: int, process: Process) -> Iterator[Step]:
        for verb in sorted({hold.phase for hold in process.holds} - {*WITHOUT_END, "starting"}):
            items = tuple(_item(hold) for hold in process.holds if hold.phase == verb)
            yield self._with(
                state, ("flush", number, verb, len(items)), number, process._replace(sent=Message(verb, items))
            )

    def _launched(self, process: Process, begun: Sequence[Item]) -> Process:
        """Runs what was started, and drops what was not."""
        holds = tuple(
            hold._replace(phase="interrupt" if process.fenced else "running") if hold.phase == "starting" else hold
            for hold in process.holds
            if hold.phase != "starting" or _item(hold) in begun
        )
        return process._replace(holds=holds, sent=None)

    def _arrivals(self, state: State, number: int, process: Process) -> Iterator[Step]:
        """The database gets what was sent."""
        receives = _receives(process)
        if isinstance(process.ask, Ask):
            yield from self._claim_arrives(state, number, process, process.ask)
        if process.sent and process.sent.verb != "started":
            message = process.sent
            jobs, writes = self._database.write_batch(state.jobs, message, number)
            state = state._replace(jobs=jobs)
            action = ("apply", number, message.verb, tuple(item.job for item in message.items))
            if message.verb == "start":
                begun = tuple(item for item, write in zip(message.items, writes, strict=True) if write.accepted)
                after = self._launched(process, begun) if receives else process._replace(sent=Message("started", begun))
                yield self._with(state, action, number, after, writes)
            elif receives:
                ended = set(message.items)
                holds = tuple(hold for hold in process.holds if _item(hold) not in ended)
                yield self._with(state, action, number, process._replace(holds=holds, sent=None), writes)
            else:
                # A message without a reply is sent again, and then changes nothing.
                yield Step(("apply unheard", *action[1:]), state, tuple(writes))
            if receives and self._may("lost reply"):
                yield Step(("apply unheard", *action[1:]), state, tuple(writes), is_surprise=True)

    def _claim_arrives(self, state: State, number: int, process: Process, ask: Ask) -> Iterator[Step]:
        name = self.scene.names[number]
        if not ask.checked and not self._database.is_registered(state, name, ask.boot):
            yield self._with(state, ("refuse claim", number), number, process._replace(ask=None))
            return
        before_commit = self._before_commit(state, ask)
        for (verb, *rest), further in before_commit:
            yield self._with(state, (verb, number, *rest), number, process._replace(ask=further))
        if not before_commit:
            yield from self._claim_takes(state, number, process, ask)
        if not ask.checked and self._may("late message"):
            if not before_commit:
                slow = process._replace(ask=ask._replace(checked=True))
                yield self._with(state, ("claim slowly", number), number, slow, is_surprise=True)
            late = self._adrift(state, [Adrift(number, ask)])
            if late:
                yield self._with(late, ("give up asking", number), number, process._replace(ask=None), is_surprise=True)

    def _before_commit(self, state: State, ask: Ask) -> list[Further]:
        return list(self._keys.further(state, ask)) if self._keys else []

    def _claim_takes(self, state: State, number: int, process: Process, ask: Ask) -> Iterator[Step]:
        taken, holds, writes = self._database.take(state, number, ask)
        does = _does(ask)
        replied = process._replace(ask=Reply(holds) if holds else None)
        if holds and _receives(process):
            replied = self._received(process, holds)
        yield self._with(taken, (does, number, ask.want, _handed_out(holds)), number, replied, writes)
        if holds and self._may("lost reply"):
            yield self._with(
                taken,
                (f"{does} unheard", number, ask.want, _handed_out(holds)),
                number,
                process._replace(ask=None),
                writes,
                is_surprise=True,
            )

    def _latecomers(self, state: State) -> Iterator[Step]:
        for place, (number, what) in enumerate(state.adrift):
            rest = state._replace(adrift=(*state.adrift[:place], *state.adrift[place + 1 :]))
            name = self.scene.names[number]
            match what:
                case Message():
                    jobs, writes = self._database.write_batch(state.jobs, what, number)
                    action = ("late write", number, what.verb, tuple(item.job for item in what.items))
                    yield Step(action, rest._replace(jobs=jobs), tuple(writes))
                case Ask():
                    if not what.checked and not self._database.is_registered(state, name, what.boot):
                        yield Step(("late claim refused", number), rest)
                    elif before_commit := self._before_commit(state, what):
                        for (verb, *details), further in before_commit:
                            later = _with_adrift(rest, Adrift(number, further)) if further else rest
                            yield Step((verb, number, *details), later)
                    else:
                        taken, holds, claims = self._database.take(rest, number, what)
                        yield Step((f"late {_does(what)}", number, what.want, _handed_out(holds)), taken, claims)
                        if not what.checked:
                            slow = _with_adrift(rest, Adrift(number, what._replace(checked=True)))
                            yield Step(("late claim slowly", number), slow)
                case Row():
                    row = state.rows[name]
                    known = row is not None and (row.boot == what.boot or not self.rules.beats_by_boot)
                    rows = put(state.rows, name, Row(row.boot, True)) if row and known else state.rows
                    yield Step(("late beat", number), rest._replace(rows=rows))

    # Heartbeats, and what the database has of the jobs that are held here

    def _liveness(self, state: State, number: int, process: Process) -> Iterator[Step]:
        name = self.scene.names[number]
        row = state.rows[name]
        if row and row.boot == process.boot:
            if not row.fresh or process.mode == "dazed" or process.fenced:
                heard = state._replace(rows=put(state.rows, name, Row(row.boot, True)))
                yield self._with(heard, ("beat", number), number, process._replace(mode="up", fenced=False))
        elif row and row.fresh:
            yield self._with(state, ("replaced", number), number, Process())
        else:
            kept = tuple(hold for hold in process.holds if hold.phase not in WITHOUT_END)
            anew = process._replace(mode="up", boot=next_boot(state, self.scene.names, name), fenced=False, holds=kept)
            yield self._register(state, ("rejoin", number), number, anew)
        if self._may("late beat"):
            late = self._adrift(state, [Adrift(number, Row(process.boot, True))])
            if late:
                yield Step(("beat late", number), late, is_surprise=True)
        if self.rules.attends:
            yield from self._attend(state, number, process, name)
        if (
            self._may("leave")
            and not (process.holds or process.ask or process.sent)
            and row
            and row.boot == process.boot
        ):
            jobs, writes = self._database.take_back(state.jobs, name)
            gone = state._replace(jobs=jobs, rows=put(state.rows, name, None))
            yield self._with(gone, ("leave", number), number, Process(), writes, is_surprise=True)

    def _attend(self, state: State, number: int, process: Process, name: int) -> Iterator[Step]:
        told = [self._after_answer(state, name, hold) for hold in process.holds]
        holds = tuple(hold for hold in told if hold)
        jobs, writes = state.jobs, list[Write]()
        row = state.rows[name]
        if process.ask is None and (not self.rules.attends_by_boot or (row and row.boot == process.boot)):
            known = {(hold.job, hold.fence) for hold in process.holds}
            for place, job in enumerate(state.jobs):
                fence = self.rules.fence_of(job.life)
                if job.held and job.holder == name and (place, fence) not in known:
                    disowned = Message("interrupt", (Item(place, fence, job.claim),))
                    jobs, written = self._database.write_batch(jobs, disowned, number)
                    writes += written
        if writes or holds != process.holds:
            action = ("attend", number, tuple(write.job for write in writes))
            yield self._with(state._replace(jobs=jobs), action, number, process._replace(holds=holds), writes)

    def _after_answer(self, state: State, name: int, hold: Hold) -> Hold | None:
        """What a hold becomes by the answer of the database."""
        if hold.phase not in WITHOUT_END:
            return hold
        job = state.jobs[hold.job]
        if not (job.held and job.holder == name and self.rules.fence_of(job.life) == hold.fence):
            return None
        if job.life.cancel_asked and hold.phase in ("running", "ready"):
            return hold._replace(phase="abandon" if hold.phase == "running" else "release")
        return hold


def _handed_back(phase: str) -> str:
    """The verb by which a worker releases a job that it holds."""
    return "release" if phase == "ready" else "interrupt"


def is_drained(state: State) -> bool:
    """Every acknowledged job has ended."""
    return all(job.life.status in ENDED or not job.acknowledged for job in state.jobs)


def some_process_receives(state: State) -> bool:
    return any(map(_receives, state.processes))


def _receives(process: Process) -> bool:
    return process.mode in ("up", "dazed") and not process.cut


def _item(hold: Hold) -> Item:
    return Item(hold.job, hold.fence, hold.claim)


def _does(ask: Ask) -> str:
    return "commit" if ask.visit else "claim"


def _with_adrift(state: State, late: Adrift) -> State:
    return state._replace(adrift=tuple(sorted((*state.adrift, late), key=repr)))


def _handed_out(holds: Sequence[Hold]) -> tuple[tuple[int, str], ...]:
    return tuple((hold.job, hold.phase) for hold in holds)


def _unaware(process: Process) -> Process:
    """Something happened to it that it has not found out yet."""
    return process._replace(mode="dazed") if process.mode == "up" else process


def _past_in(process: Process, chosen: Callable[[Hold], bool]) -> Process:
    def past(hold: Hold) -> Hold:
        return hold._replace(passed=True) if chosen(hold) else hold

    ask = Reply(tuple(map(past, process.ask.holds))) if isinstance(process.ask, Reply) else process.ask
    return process._replace(holds=tuple(map(past, process.holds)), ask=ask)
