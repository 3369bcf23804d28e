"""What must hold, of every state and of every step. Each property returns what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from tests.model.database import Write
from tests.model.protocol import Protocol, Step
from tests.model.state import Hold, Process, Reply, Row, State
from tests.model.table import ENDED, LIVE, after

HOLDERS_VERBS = ("start", "report", "complete", "fail", "snooze", "interrupt", "release", "abandon", "crash")
OWN_ENDS = ("complete", "fail", "abandon")
CLAIMS = ("claim", "claim unheard", "late claim", "commit", "commit unheard", "late commit")

Look: TypeAlias = Callable[[Protocol, State, Step, bool], str | None]
"""From a protocol, a state and a step from there, to what is wrong with it. The last says whether its end is new."""


class Property(NamedTuple):
    name: str
    sentence: str
    look: Look


def _of_writes(look: Callable[[Protocol, Write], str | None]) -> Look:
    def look_at_all(protocol: Protocol, before: State, step: Step, is_new: bool) -> str | None:
        for write in step.writes:
            if wrong := look(protocol, write):
                return f"job {write.job + 1} {wrong}"
        return None

    return look_at_all


def _of_states(look: Callable[[Protocol, State], str | None]) -> Look:
    return lambda protocol, before, step, is_new: look(protocol, step.state) if is_new else None


# Of what is written


def _one_end(protocol: Protocol, write: Write) -> str | None:
    was, is_now = write.before.life.status, write.after.life.status
    return f"had ended as {was}, and ends as {is_now}" if was in ENDED and is_now in ENDED and was != is_now else None


def _stays_ended(protocol: Protocol, write: Write) -> str | None:
    was, is_now = write.before.life.status, write.after.life.status
    revived = was in ENDED and is_now in LIVE and write.verb != "retry"
    return f"had ended as {was}, and is {is_now} again without an operator's retry" if revived else None


def _last_claim_ends(protocol: Protocol, write: Write) -> str | None:
    ends = write.verb in OWN_ENDS and write.accepted and write.after.life.status in ENDED
    return "is ended by a claim that is not its last one" if ends and write.claim != write.before.claim else None


def _is_stale(write: Write) -> bool:
    return write.verb in HOLDERS_VERBS and write.claim != write.before.claim


def _stale_changes_nothing(protocol: Protocol, before: State, step: Step, is_new: bool) -> str | None:
    for write in step.writes:
        if _is_stale(write) and write.accepted:
            return f"job {write.job + 1} takes a {write.verb} from a holder that no longer holds it"
    if step.action[0] == "late beat":
        return _stale_beat(protocol, before, step)
    return None


def _stale_beat(protocol: Protocol, before: State, step: Step) -> str | None:
    name = protocol.scene.names[step.action[1]]
    gone = [late.what for late in before.adrift if late not in step.state.adrift]
    was, is_now = before.rows[name], step.state.rows[name]
    changed = was != is_now and was is not None
    stale = all(isinstance(beat, Row) and was is not None and beat.boot != was.boot for beat in gone)
    return "a heartbeat of a process that is gone keeps another's lease alive" if changed and stale else None


def _token_grows(protocol: Protocol, write: Write) -> str | None:
    was, is_now = write.before.life.token, write.after.life.token
    if is_now < was:
        return f"has token {is_now} after {was}"
    taken = write.before.held and not write.after.held and write.verb not in OWN_ENDS
    claimed = write.verb in ("claim", "claim_and_start", "claim_ahead") and write.accepted
    if (taken or claimed) and is_now == was:
        return f"changes its holder by {write.verb} and keeps token {was}"
    return None


def _prefetched_keeps_attempt(protocol: Protocol, write: Write) -> str | None:
    was, is_now = write.before.life, write.after.life
    if write.before.begun or write.verb not in ("worker_died", "interrupt", "release") or not write.accepted:
        return None
    goes_back = is_now.status == ("cancelled" if was.cancel_asked else "pending")
    kept = is_now.attempts == was.attempts - 1 or was.cancel_asked
    return (
        None
        if goes_back and kept and is_now.crashes == was.crashes
        else "had not begun, and its claim costs it an attempt"
    )


def _starts_bounded(protocol: Protocol, write: Write) -> str | None:
    limits = protocol.scene.limits
    most = limits.max_attempts + limits.max_interruptions
    starts = write.after.starts
    return f"is started {starts} times, and {most} are allowed" if starts > most else None


def _members_independent(protocol: Protocol, write: Write) -> str | None:
    valid = write.verb in HOLDERS_VERBS and not _is_stale(write)
    if valid and not write.accepted and after(write.verb, write.before.life, protocol.scene.limits):
        return f"is its holder's, and its {write.verb} is refused"
    return None


def _claimed_as_asked(protocol: Protocol, before: State, step: Step, is_new: bool) -> str | None:
    if step.action[0] not in CLAIMS:
        return None
    want, taken = step.action[2], len(step.writes)
    return f"{want} asked for, {taken} returned" if taken > want else None


def _lease_respected(protocol: Protocol, before: State, step: Step, is_new: bool) -> str | None:
    if step.action[0] == "begin":
        return None  # Another process has its name by now.
    for write in step.writes:
        still = write.after.held and write.after.claim == write.before.claim
        excused = write.verb in ("timed_out", "cancel", "cancel_overdue", "lease_passed")
        if not write.before.held or still or excused:
            continue
        for number, process in enumerate(before.processes):
            if number != write.by and _holds_validly(protocol, before, number, process, write):
                return f"job {write.job + 1} is taken from a worker whose lease holds"
    return None


def _holds_validly(protocol: Protocol, state: State, number: int, process: Process, write: Write) -> bool:
    row = state.rows[protocol.scene.names[number]]
    beats = process.mode == "up" and row is not None and row.boot == process.boot and row.fresh
    return beats and any(
        (hold.job, hold.claim, hold.passed) == (write.job, write.before.claim, False)
        for hold in _in_hand(process)
        if hold.phase in ("waiting", "ready", "starting", "running")
    )


def _in_hand(process: Process) -> tuple[Hold, ...]:
    return process.holds + (process.ask.holds if isinstance(process.ask, Reply) else ())


# Of states


def _no_overlap(protocol: Protocol, state: State) -> str | None:
    for job in range(len(state.jobs)):
        if len(_valid_runs(state, job)) > 1:
            return f"job {job + 1} runs twice, and neither lease has passed"
    return None


def _valid_runs(state: State, job: int) -> list[Hold]:
    return [
        hold
        for process in state.processes
        for hold in process.holds
        if hold.job == job and hold.phase == "running" and not hold.passed
    ]


def _ended_runs_nowhere(protocol: Protocol, state: State) -> str | None:
    for number, job in enumerate(state.jobs):
        if job.life.status in ENDED and _valid_runs(state, number):
            return f"job {number + 1} is {job.life.status}, and its handler still runs, by a lease that holds"
    return None


def _leases_of_key(state: State) -> set[tuple[int, int]]:
    """The jobs that are held, and those that still run by a lease that has not passed; each with its claim."""
    held = {(number, job.claim) for number, job in enumerate(state.jobs) if job.held}
    return held | {(hold.job, hold.claim) for number in range(len(state.jobs)) for hold in _valid_runs(state, number)}


def _within_limit(protocol: Protocol, state: State) -> str | None:
    flow = protocol.scene.flow
    leases = len(_leases_of_key(state)) if flow else 0
    return f"{leases} jobs of the key are held, and {flow.limit} may be" if flow and leases > flow.limit else None


def _in_order(protocol: Protocol, state: State) -> str | None:
    if not (protocol.scene.flow and protocol.scene.flow.ordered):
        return None
    for number, _ in _leases_of_key(state):
        for earlier, job in enumerate(state.jobs[:number]):
            if job.life.status in LIVE:
                return f"job {number + 1} is held, and job {earlier + 1}, which comes before it, is {job.life.status}"
    return None


def _cancel_or_completion(protocol: Protocol, before: State, step: Step, is_new: bool) -> str | None:
    for write in step.writes:
        if write.accepted and write.before.life.status == "cancelled" and write.verb in HOLDERS_VERBS:
            return f"job {write.job + 1} was cancelled, and takes a {write.verb}"
    return _ended_runs_nowhere(protocol, step.state) if is_new else None


def _cut_off_lets_go(protocol: Protocol, state: State) -> str | None:
    for number, process in enumerate(state.processes):
        name = protocol.scene.names[number]
        row = state.rows[name]
        leased = name in protocol.scene.plain or (row is not None and row.fresh and row.boot == process.boot)
        if process.mode == "up" and not leased and any(hold.phase == "running" for hold in process.holds):
            return f"worker {'ABCD'[number]} is awake, and runs a job that others may take"
    return None


def _is_somewhere(protocol: Protocol, state: State) -> str | None:
    for number, job in enumerate(state.jobs):
        if job.acknowledged and job.life.status not in (*LIVE, *ENDED):
            return f"job {number + 1} is stored nowhere: were the server to crash now, it would be lost"
    return None


NO_ORPHAN = Property(
    "no-orphan",
    "From every state, without more surprises and with one worker that works, every job can still end.",
    lambda protocol, before, step, is_new: None,
)

PROPERTIES = (
    Property("one-final-transition", "A job that has ended does not end again as something else.", _of_writes(_one_end)),
    Property("final-token-is-last-claim", "Only the last claim of a job ends it.", _of_writes(_last_claim_ends)),
    Property("stale-write-changes-nothing", "What a holder writes after it has lost its claim is refused.", _stale_changes_nothing),
    Property("no-overlap-while-lease-valid", "Two handlers run one job only if a lease or a deadline has passed.", _of_states(_no_overlap)),
    Property("lease-respected", "No job is taken from a worker whose heartbeat is fresh.", _lease_respected),
    Property("cut-off-worker-lets-go", "A worker that is awake runs nothing that others may take.", _of_states(_cut_off_lets_go)),
    Property("starts-bounded", "A job is started at most max_attempts + max_interruptions times, snoozes apart.", _of_writes(_starts_bounded)),
    NO_ORPHAN,
    Property("no-acknowledged-job-lost", "A job whose producer was answered is stored, at every moment.", _of_states(_is_somewhere)),
    Property("tokens-only-grow", "The token never falls, and grows whenever the job changes its holder.", _of_writes(_token_grows)),
    Property("prefetched-lose-no-attempt", "A job that had not begun loses no attempt with its worker.", _of_writes(_prefetched_keeps_attempt)),
    Property("cancel-or-completion-wins-once", "What is cancelled takes no other end, and no handler with a lease runs it.", _cancel_or_completion),
    Property("claimed-at-most-asked", "A claim returns no more than was asked for.", _claimed_as_asked),
    Property("batch-members-independent", "A stale member of a batch does not keep the others from ending.", _of_writes(_members_independent)),
    Property("ended-stay-ended", "Only an operator's retry gives an ended job a new life.", _of_writes(_stays_ended)),
    Property("limit-of-key-kept", "Never are more jobs of a flow key held, or run by a lease that holds, than its limit.", _of_states(_within_limit)),
    Property("order-of-key-kept", "No job of an ordered key is held while an earlier one is held, or waits, also for its retry.", _of_states(_in_order)),
)  # fmt: skip
BY_NAME = {each.name: each for each in PROPERTIES}
