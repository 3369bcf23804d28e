"""The tree of exceptions, as users catch them."""

from __future__ import annotations

import inspect
import pickle

import pytest

import howdah
from howdah import errors
from howdah.errors import HowdahError

EXCEPTIONS = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, HowdahError)]
PLAIN = [each for each in EXCEPTIONS if each is not errors.InvalidItem]


@pytest.mark.parametrize(
    ("child", "parents"),
    [
        (errors.InvalidInput, (ValueError,)),
        (errors.InvalidJobType, (errors.InvalidInput,)),
        (errors.InvalidPayload, (errors.InvalidInput,)),
        (errors.PayloadTooLarge, (errors.InvalidPayload,)),
        (errors.InvalidOption, (errors.InvalidInput,)),
        (errors.InvalidArguments, (errors.InvalidInput,)),
        (errors.InvalidItem, (errors.InvalidInput,)),
        (errors.JobNotFound, (LookupError,)),
        (errors.LeaseLost, (errors.JobNotChanged,)),
        (errors.WaitTimeout, (TimeoutError,)),
        (errors.SchemaMissing, (errors.SchemaError,)),
        (errors.SchemaOutdated, (errors.SchemaError,)),
        (errors.SchemaTooNew, (errors.SchemaError,)),
        (errors.SchemaConflict, (errors.SchemaError,)),
        (errors.DatabaseUnavailable, (ConnectionError,)),
    ],
)
def test_an_exception_can_be_caught_by_what_it_means(
    child: type[Exception], parents: tuple[type[Exception], ...]
) -> None:
    assert issubclass(child, (*parents,))
    assert issubclass(child, HowdahError)


def test_an_outage_is_no_mistake_and_a_mistake_no_outage() -> None:
    for each in EXCEPTIONS:
        if not issubclass(each, errors.DatabaseUnavailable):
            assert not issubclass(each, ConnectionError)
    assert not issubclass(errors.DatabaseUnavailable, ValueError | errors.SchemaError)


def test_every_exception_is_public_and_in_the_drawn_tree() -> None:
    for kind in EXCEPTIONS:
        assert getattr(howdah, kind.__name__) is kind
        assert kind.__name__ in (errors.__doc__ or "")


def test_the_docstring_is_the_default_message() -> None:
    for kind in PLAIN:
        assert str(kind()) == kind.__doc__
        assert str(kind("what happened")) == "what happened"


def test_an_exception_survives_the_way_between_processes() -> None:
    for kind in PLAIN:
        copy = pickle.loads(pickle.dumps(kind("what happened")))
        assert type(copy) is kind
        assert str(copy) == "what happened"


def test_a_bad_item_survives_the_way_between_processes_with_its_index() -> None:
    copy = pickle.loads(pickle.dumps(errors.InvalidItem("item 3: no", index=3, enqueued=2)))
    assert (type(copy), str(copy), copy.index, copy.enqueued) == (errors.InvalidItem, "item 3: no", 3, 2)


def test_wrong_arguments_survive_the_way_between_processes_with_their_field() -> None:
    copy = pickle.loads(pickle.dumps(errors.InvalidArguments("argument 'a.b': no", field="a.b")))
    assert (type(copy), str(copy), copy.field) == (errors.InvalidArguments, "argument 'a.b': no", "a.b")


def test_each_sqlstate_of_ours_has_its_own_exception() -> None:
    assert all(state.startswith("JQ") and len(state) == 5 for state in errors.BY_SQLSTATE)
    assert len(set(errors.BY_SQLSTATE.values())) == len(errors.BY_SQLSTATE)
