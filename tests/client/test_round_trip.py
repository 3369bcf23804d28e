"""Every JSON value comes back as it was, or is refused before anything is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howdah import InvalidInput, InvalidItem, InvalidPayload, JobQueue

text = st.text(st.characters(exclude_categories=()), max_size=20)
# Larger ints than these cannot even be printed, by hypothesis neither: tests/unit has them.
scalars = st.none() | st.booleans() | st.integers() | st.floats() | text | st.sampled_from([10**400, -(10**4299)])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text, inner, max_size=5), max_leaves=30
)


def nested(depth: int) -> Any:
    value: Any = "leaf"
    for _ in range(depth):
        value = {"a": [value]}  # two levels
    return value


def same(sent: Any, read: Any) -> bool:
    if isinstance(sent, dict):
        return isinstance(read, dict) and sent.keys() == read.keys() and all(same(sent[k], read[k]) for k in sent)
    if isinstance(sent, list):
        return isinstance(read, list) and len(sent) == len(read) and all(map(same, sent, read))
    if isinstance(sent, float) and isinstance(read, int):
        # jsonb has one kind of number: 1e16 comes back without its exponent.
        return float(read) == sent
    return type(sent) is type(read) and bool(sent == read)


@settings(max_examples=150)
@given(value=values)
@example(value={"": {"": [""]}})
@example(value=[5e-324, 1.7976931348623157e308, 1e23, -0.0, 0.1])
@example(value="\\u0000 \\ud800 \x01\x7f\x85\u2028\ufeff\uffff🐘")
def test_any_value_comes_back_as_it_was_or_is_refused(queue: JobQueue, value: Any) -> None:
    before = queue.list(limit=1)
    try:
        job = queue.enqueue("mail", value, max_attempts=1)
    except InvalidPayload:
        assert list(queue.list(limit=1)) == list(before)
        return
    expected = {} if value is None else value
    assert same(expected, queue.get(job).data)
    (claimed,) = queue.claim(["mail"], 1)
    assert same(expected, claimed.data)
    queue.complete(claimed, value)
    assert same(value, queue.get(job).result)


@pytest.mark.parametrize("depth", [75, 100])
def test_values_nested_up_to_the_limit_come_back(queue: JobQueue, depth: int) -> None:
    job = queue.enqueue("mail", nested(depth))
    assert queue.get(job).data == nested(depth)


@pytest.mark.parametrize("depth", [101, 500, 50_000])
def test_values_nested_deeper_are_refused(queue: JobQueue, depth: int) -> None:
    with pytest.raises(InvalidPayload, match="nested more than 200 levels deep"):
        queue.enqueue("mail", nested(depth))
    with pytest.raises(InvalidItem, match="nested more than 200 levels deep"):
        queue.enqueue_many("mail", [1, nested(depth)])
    assert len(queue.list()) == 0


@settings(max_examples=50)
@given(items=st.lists(values, max_size=5))
def test_a_bulk_of_any_values_comes_back_in_order_or_is_refused(queue: JobQueue, items: list[Any]) -> None:
    try:
        added = queue.enqueue_many("mail", items)
    except InvalidItem as refused:
        assert queue.claim(["mail"]) == []
        try:
            queue.enqueue("mail", items[refused.index])
        except InvalidInput:
            return
        raise AssertionError("a bulk refuses what enqueue takes") from refused
    claimed = queue.claim(["mail"], 10)
    assert added == len(items) == len(claimed)
    for sent, job in zip(items, claimed, strict=True):
        assert same({} if sent is None else sent, job.data)
        queue.complete(job)


@settings(max_examples=100)
@given(message=text)
def test_any_message_of_an_error_is_recorded(queue: JobQueue, message: str) -> None:
    job = queue.enqueue("mail")
    (claimed,) = queue.claim(["mail"])
    queue.fail(claimed, ValueError(message), give_up=True)
    recorded = queue.get(job)
    assert recorded.status == "failed"
    assert (recorded.last_error or "").startswith("ValueError")
    if message.isprintable() and message:
        assert recorded.last_error == f"ValueError: {message}"
