"""A counterexample as English text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.model.explorer import Counterexample
from tests.model.properties import CLAIMS
from tests.model.protocol import Action, Protocol
from tests.model.state import Job

_WORDS = {
    "enqueue": "A producer adds job {0}.",
    "enqueue unheard": "A producer adds job {0}; the answer is lost.",
    "enqueue again": "The producer adds job {0} again, with the same id.",
    "cancel": "An operator cancels job {0}.",
    "retry": "An operator retries job {0}.",
    "expire": "Job {0} expires.",
    "timed_out": "The deadline of job {0} has passed: the sweep recovers it.",
    "cancel_overdue": "Job {0} was asked to stop, and its grace has lapsed: the sweep ends it.",
    "fall behind": "The standby receives no more changes.",
    "promote": "The standby is promoted: what it has not received is lost.",
    "archive": "Job {0} comes into the archive.",
    "sweep stray": "The sweep recovers job {0}, whose holder is not registered.",
    "lease_passed": "The lease of job {0} has passed: the sweep recovers it.",
    "begin": "Worker {0} starts.",
    "crash": "Worker {0} is killed.",
    "crash late": "Worker {0} is killed; what it had sent is still on its way.",
    "stop": "Worker {0} is frozen (SIGSTOP).",
    "resume": "Worker {0} continues (SIGCONT), and does not know for how long it was frozen.",
    "cut": "Worker {0} is cut off from the database.",
    "heal": "Worker {0} reaches the database again.",
    "fence": "Worker {0} fences itself: it releases what it holds, before its lease passes.",
    "leave": "Worker {0} leaves.",
    "receive": "Worker {0} gets the answer to its claim.",
    "launch": "Worker {0} gets the answer to its start.",
    "refuse claim": "The claim of worker {0} is refused: it is not registered any more.",
    "claim slowly": "The database sees that worker {0} may claim, and has not claimed anything yet.",
    "give up asking": "Worker {0} loses the connection of its claim, which goes on in the database.",
    "late claim refused": "A late claim of worker {0} arrives, and is refused.",
    "due": "The retry of job {0} is due.",
    "begin claim": "The claim of worker {0} begins in the database.",
    "lock key": "The claim of worker {0} locks the key.",
    "read key": "The claim of worker {0} reads the key, and does not lock it.",
    "pass by": "The claim of worker {0} finds the key locked, and ends with nothing.",
    "move mark": "The claim of worker {0} moves held_from.",
    "count": "The claim of worker {0} counts the held jobs of the key, and has room for {1}.",
    "use count": "The claim of worker {0} counted the held jobs of the key when it began, and has room for {1}.",
    "take": "The claim of worker {0} takes {1}, and has not committed yet.",
    "late claim slowly": "A late claim of worker {0} arrives, and has not taken anything yet.",
    "beat late": "Worker {0} sends a heartbeat, which is late.",
    "late beat": "A late heartbeat of worker {0} arrives.",
    "beat": "A heartbeat of worker {0} gets through.",
    "rejoin": "A heartbeat of worker {0} is refused: it forgets what it held, and registers anew.",
    "replaced": "A heartbeat of worker {0} is refused, because another has its name: it ends.",
    "lease passes": "The lease of {0} passes.",
    "sweep": "The sweep declares {0} dead, and recovers what it holds.",
    "ask": "Worker {0} asks for {1} job(s), {2} of them to start at once.",
    "finish": "Worker {0}: the handler of job {1} ends, with {2}.",
    "hand back": "Worker {0} releases job {1}, which has not begun.",
    "send start": "Worker {0} asks to start job {1}.",
    "begin ready": "Worker {0} calls the handler of job {1}, which its claim has started ahead.",
    "note": "Worker {0} notes that job {1}, which its claim has started ahead, has begun.",
    "report": "Worker {0} reports the progress of job {1}.",
    "flush": "Worker {0} sends a batch: {1} of {2} job(s).",
    "apply": "The database gets {1} from worker {0}, for {2}, and answers.",
    "apply unheard": "The database gets {1} from worker {0}, for {2}; the answer does not arrive.",
    "late write": "A late {1} of worker {0} arrives, for {2}.",
    "attend": "Worker {0} checks its jobs in the database{1}.",
    "claim": "The database gets the claim of worker {0} for {1}, and returns {2}.",
    "claim unheard": "The database gets the claim of worker {0} for {1}, and returns {2}; the answer is lost.",
    "late claim": "A late claim of worker {0} for {1} arrives, and gets {2}.",
    "commit": "The claim of worker {0} for {1} commits, and returns {2}.",
    "commit unheard": "The claim of worker {0} for {1} commits, and returns {2}; the answer is lost.",
    "late commit": "A late claim of worker {0} for {1} commits, and gets {2}.",
}
_OF_JOBS = frozenset(
    {"enqueue", "enqueue unheard", "enqueue again", "cancel", "retry", "expire", "timed_out", "cancel_overdue"}
    | {"archive", "sweep stray", "lease_passed", "due"}
)


def trace(protocol: Protocol, found: Counterexample) -> Iterator[str]:
    """The steps, each with what it makes of the jobs."""
    before = found.beginning
    for number, step in enumerate(found.steps, start=1):
        yield f"{number:3}. {sentence(protocol, step.action)}"
        for place, (old, new) in enumerate(zip(before.jobs, step.state.jobs, strict=True)):
            if _shown(protocol, old) != _shown(protocol, new):
                yield f"     job {place + 1}: {_shown(protocol, new)}"
        if before.held_from != step.state.held_from:
            yield f"     the key: held_from {step.state.held_from}"
        before = step.state
    yield f"     So {found.wrong}."


def sentence(protocol: Protocol, action: Action) -> str:
    verb, first, *rest = action
    if verb in _OF_JOBS:
        return _WORDS[verb].format(first + 1)
    if verb in ("lease passes", "sweep"):
        return _WORDS[verb].format(_name(protocol, first))
    return _WORDS[verb].format("ABCD"[first], *(_rest(verb, rest)))


def _rest(verb: str, rest: Sequence[Any]) -> Iterator[Any]:
    if verb in ("finish", "hand back", "send start", "begin ready", "note", "report"):
        yield rest[0] + 1
        yield from rest[1:]
    elif verb in ("apply", "apply unheard", "late write"):
        yield rest[0]
        yield _jobs(rest[1])
    elif verb == "take":
        yield _jobs(rest) or "nothing"
    elif verb == "attend":
        yield f", and releases {_jobs(rest[0])}, which it does not hold" if rest[0] else ""
    elif verb in CLAIMS:
        yield rest[0]
        yield ", ".join(f"job {job + 1} ({phase})" for job, phase in rest[1]) or "nothing"
    else:
        yield from rest


def _jobs(numbers: Sequence[int]) -> str:
    return " and ".join(f"job {number + 1}" for number in numbers)


def _name(protocol: Protocol, name: int) -> str:
    letters = ["ABCD"[number] for number, its in enumerate(protocol.scene.names) if its == name]
    return "worker " + " and ".join(letters)


def _shown(protocol: Protocol, job: Job) -> str:
    life = job.life
    held = f" by {_name(protocol, job.holder)}" if job.held else ""
    asked = ", asked to stop" if life.cancel_asked else ""
    ahead = " (started ahead)" if life.ahead else ""
    waits = ", waits for its retry" if job.waits else ""
    return f"{life.status}{ahead}{held}, attempts {life.attempts}, token {life.token}{asked}{waits}"
