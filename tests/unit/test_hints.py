"""What a newcomer writes by mistake is refused, with what was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from howdah import InvalidArguments, InvalidInput, InvalidOption, Job, JobQueue


def _declared(**options: Any) -> Callable[[JobQueue], Any]:
    return lambda queue: queue.job(**options)(lambda job: None)


def _unknown_using(queue: JobQueue) -> None:
    wrong: dict[str, Any] = {"countdown": 3}
    queue.job(name="a")(_nothing).using(**wrong)


def _swapped(queue: JobQueue) -> None:
    queue.job(queue.periodic("@daily")(_nothing))


async def _nothing() -> None:
    pass


async def _bill(customer: int, copies: int = 1) -> None:
    pass


def _untyped(job, customer):  # type: ignore[no-untyped-def]
    pass


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        (
            _declared(retries=3),
            r"retries: not an option of @queue.job. Did you mean max_attempts .+ or retry .+\? \(batch",
        ),
        (_declared(prority=3), "Did you mean priority"),
        (_declared(retry=3), "how often is max_attempts=3"),
        (_unknown_using, "not an option of enqueue. Did you mean delay or run_at"),
        (lambda queue: queue.worker(thread=3), "thread: not an option of a worker. Did you mean threads"),
        (_swapped, "'_nothing' is a handler already: write @queue.periodic above @queue.job"),
        (
            lambda queue: queue.periodic("@daily", copies=2)(_bill),
            "schedule '_bill': _bill: missing argument 'customer'",
        ),
        (
            lambda queue: queue.periodic("@daily", name="x", customer="y")(_bill),
            "schedule 'x': _bill: argument 'customer'",
        ),
        (lambda queue: queue.job(_untyped).enqueue(customer=1), r"missing argument 'job'.+annotate it: job: Job$"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_refused_with_a_suggestion(mistake: Callable[[JobQueue], Any], hint: str) -> None:
    with pytest.raises(InvalidInput, match=hint):
        mistake(JobQueue("host=nowhere"))


def test_a_job_without_an_annotation_is_an_argument_like_others() -> None:
    def apply(job, other: Job):  # type: ignore[no-untyped-def]
        pass

    queue = JobQueue("host=nowhere")
    with pytest.raises(InvalidArguments, match=r"missing argument 'job'; it takes 'job'$"):
        queue.job(apply).enqueue()
    with pytest.raises(InvalidOption, match="give one of them another name="):
        queue.job(apply)
