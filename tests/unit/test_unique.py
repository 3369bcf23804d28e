"""The options of unique jobs, and the rule that they mean."""

from __future__ import annotations

import pickle
import uuid
from datetime import timedelta
from typing import Any

import pytest

from howdah import DuplicateJob, InvalidOption, Unique
from howdah.handlers.unique import digest, unique_rule


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ((None, None, None), None),
        ((False, None, None), None),
        ((True, None, None), {"by": "arguments", "conflict": "keep"}),
        (("key", None, None), {"by": "key", "conflict": "keep"}),
        ((("a", "b.c"), None, None), {"by": ["a", "b.c"], "conflict": "keep"}),
        ((Unique(by=("a",), conflict="raise"), None, None), {"by": ["a"], "conflict": "raise"}),
        ((Unique(within=timedelta(hours=1)), None, None), {"by": "arguments", "within": 3600, "conflict": "keep"}),
        ((Unique(states=("pending",)), None, None), {"by": "arguments", "states": ["pending"], "conflict": "keep"}),
        ((None, 5, None), {"by": "arguments", "conflict": "replace", "delay": 5}),
        ((("a",), 5, None), {"by": ["a"], "conflict": "replace", "delay": 5}),
        ((None, None, 60), {"by": "arguments", "within": 60, "conflict": "keep"}),
        (("key", None, 60), {"by": "key", "within": 60, "conflict": "keep"}),
    ],
)
def test_the_rule(options: tuple[Any, Any, Any], rule: dict[str, Any] | None) -> None:
    assert unique_rule(*options) == rule


def test_with_a_key_the_short_forms_are_by_key() -> None:
    assert (unique_rule(None, 5, None, has_key=True) or {})["by"] == "key"
    assert (unique_rule(True, None, 60, has_key=True) or {})["by"] == "arguments"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: unique_rule("invoice", None, None), r'such as \("invoice",\)'),
        (lambda: unique_rule(7, None, None), "names of arguments"),  # type: ignore[arg-type]
        (lambda: unique_rule(("a", ""), None, None), "names of arguments"),
        (lambda: unique_rule(None, 0, None), "debounce is 0; it must be positive"),
        (lambda: unique_rule(None, None, -1), "throttle is -1"),
        (lambda: unique_rule(False, 5, None), "rules of their own"),
        (lambda: unique_rule(None, 5, 6), "exclude each other"),
        (lambda: Unique(within=0), "within is 0"),
        (lambda: Unique(states=()), "states is empty"),
        (lambda: Unique(states=("gone",)), "is not a status"),  # type: ignore[arg-type]
        (lambda: Unique(states=("pending", "failed")), "set within="),
        (lambda: Unique(conflict="drop"), "conflict is keep, replace, reschedule, raise, not 'drop'"),  # type: ignore[arg-type]
        (lambda: Unique(by="invoice"), r'such as \("invoice",\)'),
    ],
)
def test_what_is_not_a_rule_is_refused_with_what_would_be_one(make: Any, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        make()


def test_the_hash_of_arguments_depends_on_what_the_rule_names_alone() -> None:
    whole, some = {"by": "arguments"}, {"by": ["a", "b.c"]}
    assert digest({"a": 1, "b": 2}, whole) == digest({"b": 2, "a": 1}, whole) != digest({"a": 1}, whole)
    assert digest({"a": 1, "b": {"c": [2]}, "d": 1}, some) == digest({"b": {"c": [2]}, "a": 1}, some)
    assert digest({"a": 1, "b": {"c": 3}}, some) != digest({"a": 1, "b": {"c": 2}}, some)
    assert digest({"a": 1}, some) == digest({"a": 1, "b": 7}, some)


def test_the_error_keeps_its_id_through_a_pickle() -> None:
    error = pickle.loads(pickle.dumps(DuplicateJob("there is one", job_id=uuid.UUID(int=7))))
    assert (str(error), error.job_id) == ("there is one", uuid.UUID(int=7))
