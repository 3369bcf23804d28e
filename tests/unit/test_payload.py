"""What may be stored, and what is refused with its place named, before anything is sent."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from howdah import InvalidPayload, PayloadTooLarge
from howdah.checks.values import clean_text, to_jsonb
from howdah.model.codec import PLAIN

LIMIT = 64 * 1024


def stored(value: Any, max_bytes: int | None = LIMIT) -> str:
    text = to_jsonb(value, codec=PLAIN, max_bytes=max_bytes, name="data").obj
    assert isinstance(text, str)
    return text


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"a": value}
    return value


class Opaque:
    pass


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "data is nan"),
        ({"a": [1, float("inf")]}, "data.a[1] is inf"),
        ({"a": {"b": float("-inf")}}, "data.a.b is -inf"),
        ({"name": "a\x00b"}, "data.name contains a NUL"),
        ({"a": {"k\x00": 1}}, "a key of data.a contains a NUL"),
        (["ok", "\ud800"], "data[1] contains a lone surrogate"),
        ({"a": {"\udfff": 1}}, "a key of data.a contains a lone surrogate"),
        ({"n": [10**5000]}, "data.n[0] is a number of more than 4,300 digits"),
        ({"n": -(10**5000)}, "data.n is a number of more than 4,300 digits"),
        ({"a": b"bytes"}, "data.a is a bytes"),
        ({"a": {1, 2}}, "data.a is a set"),
        ({"at": datetime(2026, 1, 1, tzinfo=timezone.utc)}, "data.at is a datetime"),
        ([{"a": Opaque()}], "data[0].a is an Opaque"),
        ({"a": {(1, 2): 3}}, "data.a has a key of type tuple"),
        (nested(1_000), "nested more than 200 levels deep"),
        (nested(100_000), "nested more than 200 levels deep"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_json_in_postgresql_cannot_hold_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        stored(value)
    assert place in str(refused.value)
    assert len(str(refused.value)) < 500


def test_a_value_that_contains_itself_is_refused() -> None:
    value: list[Any] = []
    value.append({"again": value})
    with pytest.raises(InvalidPayload):
        stored(value)


def test_a_key_that_is_not_a_number_is_refused() -> None:
    with pytest.raises(InvalidPayload):
        stored({float("nan"): 1})


@pytest.mark.parametrize("depth", [150, 200])
def test_values_nested_up_to_the_limit_pass(depth: int) -> None:
    value = nested(depth)
    assert json.loads(stored(value)) == value


def test_many_brackets_side_by_side_are_not_depth() -> None:
    value: list[list[int]] = [[] for _ in range(1_000)]
    assert json.loads(stored(value)) == value


def test_brackets_and_escapes_inside_of_text_are_only_text() -> None:
    value = {"\\u0000": "[{" * 300 + "\\u0000"}
    assert json.loads(stored(value)) == value


def test_large_integers_pass_as_long_as_python_can_read_them_back() -> None:
    value = {"n": 10**400, "m": -(10**4299)}
    assert json.loads(stored(value)) == value


def test_a_payload_of_50_mb_is_refused_with_a_remedy() -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        stored({"blob": "x" * 50_000_000})
    message = str(refused.value)
    assert "65,536" in message
    assert "reference" in message
    assert len(message) < 500


def test_a_payload_at_the_limit_passes_and_one_byte_more_does_not() -> None:
    assert len(stored("x" * 98, 100)) == 100
    with pytest.raises(PayloadTooLarge, match="101 bytes"):
        stored("x" * 99, 100)


@pytest.mark.parametrize(("character", "size"), [("é", 2), ("€", 3), ("🐘", 4)])
def test_the_limit_counts_bytes_not_characters(character: str, size: int) -> None:
    assert stored(character * 10, 10 * size + 2)
    with pytest.raises(PayloadTooLarge, match=f"is {10 * size + 2} bytes"):
        stored(character * 10, 10 * size + 1)


def test_the_name_of_the_value_is_in_the_message() -> None:
    with pytest.raises(InvalidPayload, match=r"^result\.a is a bytes"):
        to_jsonb({"a": b""}, codec=PLAIN, max_bytes=None, name="result")


def test_a_codec_that_returns_something_other_than_json_is_refused() -> None:
    class ToBytes:
        def encode(self, value: Any) -> Any:
            return b"secret"

        def decode(self, value: Any) -> Any:
            return value

    with pytest.raises(InvalidPayload, match="data is a bytes"):
        to_jsonb({}, codec=ToBytes(), max_bytes=None, name="data")


def test_text_for_errors_is_cleaned_not_refused() -> None:
    cleaned = clean_text("a\x00b\ud800c🐘")
    assert cleaned == "a\\x00b\\ud800c🐘"
    assert cleaned.encode().decode() == cleaned
