"""A word that must be seen nowhere but where it is meant to be, and handlers that have it everywhere.

Run by real workers: ``howdah work tests.security.canary:queue``. With HOWDAH_ENCRYPTION_KEYS, its queue encrypts.
"""

from __future__ import annotations

import logging
import os
from typing import Any

from howdah import Cancel, Fail, Job, JobQueue, Retry
from howdah.encryption import ENVIRONMENT, EncryptedCodec

CANARY = "canary-6f1d"
"""Short enough for whatever shortens values, and nowhere by chance."""

queue = JobQueue(codec=EncryptedCodec.from_environment() if ENVIRONMENT in os.environ else None)
log = logging.getLogger("shop")


@queue.job(max_attempts=1)
async def on_the_loop(job: Job, secret: str) -> dict[str, str]:
    say_everything(job, secret)
    await job.acheckpoint({"secret": secret})
    return {"secret": secret}


@queue.job(max_attempts=1)
def in_a_thread(job: Job, secret: str) -> dict[str, str]:
    say_everything(job, secret)
    job.checkpoint({"secret": secret})
    return {"secret": secret}


@queue.job(process=True, max_attempts=1)
def in_a_child(job: Job, secret: str) -> dict[str, str]:
    say_everything(job, secret)
    job.checkpoint({"secret": secret})
    return {"secret": secret}


@queue.job(max_attempts=1)
async def fails_on_the_loop(secret: str) -> None:
    fail_with(secret)


@queue.job(max_attempts=1)
def fails_in_a_thread(secret: str) -> None:
    fail_with(secret)


@queue.job(process=True, max_attempts=1)
def fails_in_a_child(secret: str) -> None:
    fail_with(secret)


@queue.job(max_attempts=1)
async def gives_up(secret: str) -> None:
    raise Fail(f"no {secret}")


@queue.job(max_attempts=2)
async def tries_again(job: Job, secret: str) -> str:
    if job.attempts == 1:
        raise Retry(f"not yet {secret}", delay=0)
    return secret


@queue.job(max_attempts=1)
async def is_cancelled(secret: str) -> None:
    raise Cancel(f"without {secret}")


@queue.job(max_attempts=1)
async def wants_a_number(secret: int) -> None: ...


@queue.job(max_attempts=1)
async def returns_what_is_not_json(secret: str) -> Any:
    return {"secret": secret, "what": object()}


@queue.job(process=True, max_attempts=1)
def dies(secret: str) -> None:
    os.kill(os.getpid(), 9)


def say_everything(job: Job, secret: str) -> None:
    job.event("told", secret=secret)
    log.debug("kept with the job: %s", secret)


def fail_with(secret: str) -> None:
    held = {"local": secret}
    try:
        try:
            raise LookupError(f"the first cause: {secret}")
        except LookupError as error:
            raise OSError(f"the cause: {secret}") from error
    except OSError as error:
        failure = ValueError(f"first line\nsecond line with {held['local']}")
        failure.add_note(f"a note of {secret}")
        raise failure from error
