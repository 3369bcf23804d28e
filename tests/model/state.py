"""A moment of the whole system: the database, the workers, and what is on its way between them.

Fields that are called ghosts are known to no process: properties look at them, the protocol never does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, TypeVar

from tests.model.table import HELD, Life

T = TypeVar("T")

NO_HOLDER = -1


class Job(NamedTuple):
    life: Life
    holder: int = NO_HOLDER
    """The name of the worker that the row shows."""
    leased: bool = False
    """Its holder is not registered, so that the job has a lease of its own."""
    stray: bool = False
    """Its claim was under way while its worker's registration ended, and is older than the present one."""
    claim: int = 0
    """Ghost: which claim holds it, numbered apart from tokens; 0 for none."""
    starts: int = 0
    """Ghost: how often it was started in this life, snoozes not counted; if it was started ahead, how often it began."""
    begun: bool = False
    """Ghost: the handler of this claim has been called, or is about to be."""
    acknowledged: bool = False
    """Ghost: its producer has the reply that it is stored."""
    waits: bool = False
    """Pending, and not due before its retry. Only in an order, where it matters to other jobs."""

    @property
    def held(self) -> bool:
        return self.life.status in HELD


class Hold(NamedTuple):
    """A claim, as a worker remembers it."""

    job: int
    fence: int
    claim: int
    """Ghost: as in the job."""
    phase: str
    """waiting, ready (started ahead, and waiting), starting, running (the handler runs), or the verb by which its end will
    be written."""
    passed: bool = False
    """Ghost: the lease, deadline or grace of this claim has passed."""


class Item(NamedTuple):
    """A job in a message."""

    job: int
    fence: int
    claim: int


class Visit(NamedTuple):
    """What a claim has done at a flow key in its transaction, unseen by others; but they see its locks."""

    stage: str
    """begun, locked (the key), marked (held_from is moved), counted, or taken: then only the commit is missing."""
    began: int
    """The time at which its transaction began, on the clock that tokens come from."""
    token: int
    """The least token that it will give."""
    saw: int = 0
    """held_from of the key when it was locked."""
    mark: int = 0
    """held_from as the commit will leave it."""
    room: int = 0
    taken: tuple[int, ...] = ()


class Ask(NamedTuple):
    """A claim on its way to the database; checked: the database has checked the worker, and not yet claimed anything."""

    boot: int
    want: int
    start: int
    checked: bool = False
    ahead: bool = False
    visit: Visit | None = None


class Reply(NamedTuple):
    """What a claim brought, on its way back."""

    holds: tuple[Hold, ...]


class Message(NamedTuple):
    """A batch on its way: the verb, or ``started`` for the answer to a start."""

    verb: str
    items: tuple[Item, ...]


class Process(NamedTuple):
    """A worker's process, and its two connections."""

    mode: str = "down"
    """down, up, stopped (SIGSTOP), or dazed: it continues, and has not found out yet what happened meanwhile."""
    boot: int = 0
    cut: bool = False
    """Nothing gets through to the database and back."""
    fenced: bool = False
    ask: Ask | Reply | None = None
    holds: tuple[Hold, ...] = ()
    sent: Message | None = None


class Row(NamedTuple):
    """A worker's row in the database."""

    boot: int
    fresh: bool


class Adrift(NamedTuple):
    """A message whose sender is dead, or no longer waits for the answer. It may still arrive."""

    process: int
    what: Ask | Message | Row
    """A Row stands for a heartbeat."""


class Replica(NamedTuple):
    """What a standby has that receives no more changes."""

    jobs: tuple[Job, ...]
    rows: tuple[Row | None, ...]


class State(NamedTuple):
    jobs: tuple[Job, ...]
    processes: tuple[Process, ...]
    rows: tuple[Row | None, ...]
    adrift: tuple[Adrift, ...] = ()
    surprises: int = 0
    """How many may still happen."""
    replica: Replica | None = None
    held_from: int = 0
    """Of the flow key: no job of it is held by a token below this."""


Numbered: TypeAlias = Hold | Item


def put(values: tuple[T, ...], index: int, value: T) -> tuple[T, ...]:
    return (*values[:index], value, *values[index + 1 :])


def items_in(state: State) -> Iterator[Numbered]:
    """Everything that names a claim outside the database."""
    for process in state.processes:
        yield from process.holds
        if isinstance(process.ask, Reply):
            yield from process.ask.holds
        if process.sent:
            yield from process.sent.items
    for _, what in state.adrift:
        if isinstance(what, Message):
            yield from what.items


def visits_in(state: State) -> Iterator[Visit]:
    """The claims that are at the flow key."""
    for what in (*(process.ask for process in state.processes), *(late.what for late in state.adrift)):
        if isinstance(what, Ask) and what.visit:
            yield what.visit


def next_claim(state: State, job: int) -> int:
    held = (item.claim for item in items_in(state) if item.job == job)
    return max([*held, *(jobs[job].claim for jobs in _all_jobs(state))]) + 1


def latest_token(state: State, job: int) -> int:
    """The clock of the tokens: the largest that was ever given, as far as anything still names it."""
    held = (item.fence for item in items_in(state) if item.job == job)
    return max([*held, *(jobs[job].life.token for jobs in _all_jobs(state))])


TICK = 10
"""Between two times of the clock there is room for tokens that come right after another."""


def latest_of_all(state: State) -> int:
    """The same clock, where the tokens of different jobs are compared."""
    return max(_tokens_of_all(state))


def _tokens_of_all(state: State) -> set[int]:
    tokens = {state.held_from, *(job.life.token for job in state.jobs), *(item.fence for item in items_in(state))}
    return tokens.union(*((visit.began, visit.token, visit.saw, visit.mark) for visit in visits_in(state)))


def _all_jobs(state: State) -> Iterator[tuple[Job, ...]]:
    yield state.jobs
    if state.replica:
        yield state.replica.jobs


def boots_in(state: State, names: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Every boot that is named somewhere, each with a process that has that name."""
    for number, process in enumerate(state.processes):
        yield number, process.boot
        if isinstance(process.ask, Ask):
            yield number, process.ask.boot
        for rows in (state.rows, state.replica.rows) if state.replica else (state.rows,):
            row = rows[names[number]]
            if row:
                yield number, row.boot
    for number, what in state.adrift:
        if isinstance(what, Ask | Row):
            yield number, what.boot


def next_boot(state: State, names: tuple[int, ...], name: int) -> int:
    return max(boot for number, boot in boots_in(state, names) if names[number] == name) + 1


# Only whether two numbers are equal, and which came first, can matter: not how large they are. So that runs of any
# length come back to the same states, numbers are made small again. Nor does it matter which of two workers is which.


def canonical(state: State, names: tuple[int, ...], *, alike: bool, one_clock: bool = False) -> State:
    """The same moment in small numbers, and with workers that are alike in one order.

    ``one_clock``: the tokens of different jobs are compared with each other.
    """
    tokens: list[set[int]] = [{job.life.token for job in same} for same in zip(*_all_jobs(state), strict=True)]
    claims: list[set[int]] = [{0, *(job.claim for job in same)} for same in zip(*_all_jobs(state), strict=True)]
    for item in items_in(state):
        tokens[item.job].add(item.fence)
        claims[item.job].add(item.claim)
    boots: list[set[int]] = [{0} for _ in state.rows]
    for number, boot in boots_in(state, names):
        boots[names[number]].add(boot)
    if one_clock:
        tokens = [_tokens_of_all(state)] * len(state.jobs)
    apart = TICK if one_clock else 1
    if not (all(map(_dense, boots)) and all(_dense(each, apart) for each in tokens) and all(map(_dense, claims))):
        state = _Renumbering(names, boots, tokens, claims, apart).of(state)
    return _in_order(state) if alike else state


def _in_order(state: State) -> State:
    (a, b), (row_a, row_b) = state.processes, state.rows
    if (a, row_a) == (b, row_b):
        # Then they differ by what they hold, or have sent.
        return min(
            state,
            _swapped(state),
            key=lambda each: ([job.holder for job in each.jobs], repr(each.adrift), repr(each.replica)),
        )
    return state if hash((a, row_a)) < hash((b, row_b)) else _swapped(state)


def _swapped(state: State) -> State:
    adrift = tuple(sorted((Adrift(1 - late.process, late.what) for late in state.adrift), key=repr))
    replica = state.replica and Replica(_held_by_the_other(state.replica.jobs), state.replica.rows[::-1])
    return state._replace(
        jobs=_held_by_the_other(state.jobs),
        processes=state.processes[::-1],
        rows=state.rows[::-1],
        adrift=adrift,
        replica=replica,
    )


def _held_by_the_other(jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    return tuple(job if job.holder == NO_HOLDER else job._replace(holder=1 - job.holder) for job in jobs)


def _dense(numbers: set[int], apart: int = 1) -> bool:
    return max(numbers) == (len(numbers) - 1) * apart and (apart == 1 or not any(number % apart for number in numbers))


def _ranks(numbers: set[int], apart: int = 1) -> dict[int, int]:
    return {number: rank * apart for rank, number in enumerate(sorted(numbers))}


class _Renumbering:
    def __init__(
        self,
        names: tuple[int, ...],
        boots: list[set[int]],
        tokens: list[set[int]],
        claims: list[set[int]],
        apart: int,
    ) -> None:
        self._names = names
        self._boots = [_ranks(each) for each in boots]
        self._tokens = [_ranks(each, apart) for each in tokens]
        self._claims = [_ranks(each) for each in claims]

    def of(self, state: State) -> State:
        return State(
            self._jobs(state.jobs),
            tuple(self._process(self._names[number], process) for number, process in enumerate(state.processes)),
            self._rows(state.rows),
            tuple(sorted((self._adrift(self._names[late.process], late) for late in state.adrift), key=repr)),
            state.surprises,
            state.replica and Replica(self._jobs(state.replica.jobs), self._rows(state.replica.rows)),
            self._tokens[0].get(state.held_from, 0),
        )

    def _jobs(self, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
        return tuple(self._job(number, job) for number, job in enumerate(jobs))

    def _rows(self, rows: tuple[Row | None, ...]) -> tuple[Row | None, ...]:
        return tuple(row and self._row(name, row) for name, row in enumerate(rows))

    def _job(self, number: int, job: Job) -> Job:
        life = job.life._replace(token=self._tokens[number][job.life.token])
        return job._replace(life=life, claim=self._claims[number][job.claim])

    def _numbered(self, old: Numbered) -> tuple[int, int]:
        return self._tokens[old.job][old.fence], self._claims[old.job][old.claim]

    def _hold(self, hold: Hold) -> Hold:
        return Hold(hold.job, *self._numbered(hold), hold.phase, hold.passed)

    def _message(self, message: Message) -> Message:
        return Message(message.verb, tuple(Item(item.job, *self._numbered(item)) for item in message.items))

    def _ask(self, name: int, ask: Ask) -> Ask:
        return ask._replace(boot=self._boots[name][ask.boot], visit=ask.visit and self._visit(ask.visit))

    def _visit(self, visit: Visit) -> Visit:
        clock = self._tokens[0]
        return visit._replace(
            began=clock[visit.began], token=clock[visit.token], saw=clock[visit.saw], mark=clock[visit.mark]
        )

    def _row(self, name: int, row: Row) -> Row:
        return Row(self._boots[name][row.boot], row.fresh)

    def _process(self, name: int, process: Process) -> Process:
        ask = process.ask
        if isinstance(ask, Ask):
            ask = self._ask(name, ask)
        elif ask:
            ask = Reply(tuple(map(self._hold, ask.holds)))
        sent, boot = process.sent and self._message(process.sent), self._boots[name][process.boot]
        return process._replace(boot=boot, ask=ask, holds=tuple(map(self._hold, process.holds)), sent=sent)

    def _adrift(self, name: int, late: Adrift) -> Adrift:
        match late.what:
            case Ask() as ask:
                return Adrift(late.process, self._ask(name, ask))
            case Row() as beat:
                return Adrift(late.process, self._row(name, beat))
            case Message() as message:
                return Adrift(late.process, self._message(message))
