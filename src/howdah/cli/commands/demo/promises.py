"""What the demo promises to show, each with the proof that it was seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise

from howdah.cli.arguments.duration import format_span
from howdah.cli.commands.demo.handlers import FAILURES
from howdah.cli.commands.demo.show import Facts
from howdah.cli.commands.demo.workload import (
    BACKOFF,
    DELAYED,
    FLAKY,
    PERIODIC,
    REMINDER_DELAY,
    TO_CANCEL,
    TO_SURVIVE,
    Kind,
)
from howdah.model.job import Job


@dataclasses.dataclass(frozen=True, slots=True)
class Promise:
    """One thing that was to be seen. ``story`` is how it went, or what is missing."""

    name: str
    kept: bool
    story: str


class Evidence:
    """All that is known when the show is over."""

    def __init__(self, kinds: Sequence[Kind], jobs: Sequence[Job], facts: Facts) -> None:
        self.kinds = kinds
        self.jobs = jobs
        self.facts = facts

    def of(self, job_type: str) -> list[Job]:
        return [job for job in self.jobs if job.job_type == job_type]

    def completed(self, job_type: str) -> list[Job]:
        return [job for job in self.of(job_type) if job.status == "completed"]

    def only(self, job_type: str) -> Job:
        jobs = self.of(job_type)
        _expect(len(jobs) == 1, f"there is no {job_type}")
        return jobs[0]

    def are_all_completed(self, job_type: str) -> bool:
        jobs = self.of(job_type)
        return bool(jobs) and all(job.status == "completed" for job in jobs)


def judged(evidence: Evidence) -> list[Promise]:
    """Every promise, kept or not."""
    return [_judge(name, prove, evidence) for name, prove in _PROMISES.items()]


def _judge(name: str, prove: Callable[[Evidence], str], evidence: Evidence) -> Promise:
    try:
        return Promise(name, True, prove(evidence))
    except _NotSeen as missing:
        return Promise(name, False, str(missing))


class _NotSeen(Exception):
    """What is missing."""


def _expect(seen: object, missing: str) -> None:
    if not seen:
        raise _NotSeen(missing)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


# The proofs: each returns what happened, or raises what is missing


def _priorities(evidence: Evidence) -> str:
    # A job that was begun twice says only when it was claimed last.
    urgent, patient = (
        [job.claimed_at for job in evidence.of(job_type) if job.claimed_at is not None and job.attempts == 1]
        for job_type in ("send_invoice", "reindex_page")
    )
    _expect(urgent and patient, "too few jobs were run to see their order")
    _expect(max(urgent) <= min(patient), "a reindex_page (30) was taken before the last send_invoice (150)")
    return f"The {len(urgent)} invoices were enqueued last, and all of them were taken before the first page."


def _flaky(evidence: Evidence) -> str:
    _expect(evidence.are_all_completed(FLAKY), f"{FLAKY} did not succeed in the end")
    job = evidence.only(FLAKY)
    failures = [error.at for error in job.errors if error.kind == "failed"]
    _expect(len(failures) == FAILURES, f"{FLAKY} failed {_times(len(failures))}, not {_times(FAILURES)}")
    assert job.started_at is not None
    pauses = [later - earlier for earlier, later in pairwise([*failures, job.started_at])]
    delays = [timedelta(seconds=BACKOFF.delay * BACKOFF.factor**number) for number in range(FAILURES)]
    patient = all(pause >= delay for pause, delay in zip(pauses, delays, strict=True))
    _expect(patient, f"{FLAKY} was tried again too soon")
    waited = " and ".join(map(format_span, pauses))
    return (
        f"{FLAKY} failed {_times(FAILURES)}, was tried again after {waited}, and succeeded at attempt {job.attempts}."
    )


def _delayed(evidence: Evidence) -> str:
    _expect(evidence.are_all_completed(DELAYED), f"{DELAYED} did not run")
    job = evidence.only(DELAYED)
    assert job.started_at is not None
    _expect(job.started_at >= job.run_at, f"{DELAYED} ran before it was due")
    late = format_span(job.started_at - job.run_at)
    return f"{DELAYED} was put off for {REMINDER_DELAY:g}s, and started {late} after it was due."


def _periodic(evidence: Evidence) -> str:
    fires = sorted(job.run_at for job in evidence.completed(PERIODIC))
    _expect(len(fires) >= 3, f"{PERIODIC} ran {_times(len(fires))}, not at least 3 times")
    _expect(evidence.are_all_completed(PERIODIC), f"a {PERIODIC} did not succeed")
    gaps = [(later - earlier) / timedelta(seconds=1) for earlier, later in pairwise(fires)]
    _expect(all(gap >= 1 for gap in gaps), f"{PERIODIC} was added twice for one second")
    return f"{PERIODIC} came {len(fires)} times, once a second: both workers could add it, and one did."


def _cancelled(evidence: Evidence) -> str:
    job = evidence.only(TO_CANCEL)
    _expect(job.status == "cancelled", f"{TO_CANCEL} was not cancelled")
    _expect(job.started_at and job.cancel_requested_at and job.finished_at, f"{TO_CANCEL} was not cancelled as it ran")
    assert job.cancel_requested_at is not None
    assert job.finished_at is not None
    took = format_span(job.finished_at - job.cancel_requested_at)
    return f"{TO_CANCEL} was cancelled while it ran, and its handler had stopped {took} later."


def _batches(evidence: Evidence) -> str:
    _expect(evidence.are_all_completed("send_newsletter"), "a send_newsletter did not succeed")
    sizes = [job.result["together"] for job in evidence.of("send_newsletter")]
    _expect(max(sizes) > 1, "every send_newsletter had a call of its own")
    return f"{len(sizes)} newsletters were sent in {round(sum(1 / size for size in sizes))} calls of a batch handler."


def _threads(evidence: Evidence) -> str:
    _expect(evidence.are_all_completed("write_report"), "a write_report did not succeed")
    reports = evidence.of("write_report")
    _expect(not any(job.result["main_thread"] for job in reports), "a write_report ran in no thread of its own")
    return f"{len(reports)} reports were written by a plain function, in threads."


def _children(evidence: Evidence) -> str:
    _expect(evidence.are_all_completed("count_primes"), "a count_primes did not succeed")
    jobs = evidence.of("count_primes")
    pids = {job.result["pid"] for job in jobs}
    _expect(pids.isdisjoint(evidence.facts.pids), "a count_primes ran in no process of its own")
    most = max(jobs, key=lambda job: job.data["below"])
    found = f"the {most.result['primes']:,} primes below {most.data['below']:,}"
    return f"count_primes ran in {len(pids)} child processes; it found {found}, among others."


def _survival(evidence: Evidence) -> str:
    facts = evidence.facts
    _expect(facts.victim, "no worker was killed")
    _expect(facts.back_after is not None, f"the jobs of {facts.victim} did not come back")
    _expect(evidence.are_all_completed(TO_SURVIVE), f"{TO_SURVIVE} did not succeed in the end")
    film = evidence.only(TO_SURVIVE)
    held = [job for job in evidence.jobs if job.id in set(facts.held)]
    _expect(film.id in facts.held and film.worker_id != facts.victim, f"{TO_SURVIVE} did not move to another worker")
    _expect(all(job.ended for job in held), f"a job of {facts.victim} has not ended")
    more = f", and of {len(held) - 1} more" if len(held) > 1 else ""
    killed = f"{facts.victim} was killed in the middle of {TO_SURVIVE}{more}."
    return f"{killed} It was given up {facts.back_after:.1f}s later, and {film.worker_id} did its work from the start."


def _failure(evidence: Evidence) -> str:
    failed = [job for job in evidence.jobs if job.status == "failed"]
    _expect(len(failed) == 1 and failed[0].job_type == "resize_photo", f"{len(failed)} jobs failed for good, not one")
    return f"Photo {failed[0].data['photo']} is broken: its job failed for good, and says why: {failed[0].last_error}."


def _nothing_lost(evidence: Evidence) -> str:
    for kind in evidence.kinds:
        there = len(evidence.of(kind.job_type))
        _expect(kind.count in (None, there), f"of {kind.count} {kind.job_type} there are {there}")
    live = [job for job in evidence.jobs if not job.ended]
    _expect(not live, f"{len(live)} jobs have not ended")
    done = sum(job.status == "completed" for job in evidence.jobs)
    _expect(done == len(evidence.jobs) - 2, f"{len(evidence.jobs) - done} jobs were not done, instead of two")
    return f"All {len(evidence.jobs):,} jobs have ended: {done:,} done, one failed, one cancelled, as they should."


def _clean_end(evidence: Evidence) -> str:
    codes = evidence.facts.exit_codes
    _expect(codes, evidence.facts.problem or "the workers were not stopped")
    _expect(not any(codes.values()), f"a worker ended with exit code {max(codes.values())}")
    return f"{' and '.join(codes)}, told to stop by SIGTERM, left nothing undone."


_PROMISES = {
    "priorities": _priorities,
    "retries with backoff": _flaky,
    "a job for later": _delayed,
    "a periodic job": _periodic,
    "cancelling": _cancelled,
    "batches": _batches,
    "threads": _threads,
    "child processes": _children,
    "failing for good": _failure,
    "a killed worker": _survival,
    "a clean end": _clean_end,
    "nothing lost": _nothing_lost,
}
