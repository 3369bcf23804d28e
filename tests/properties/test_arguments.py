"""Whatever a handler's annotations are: what fits them survives the way through JSON, and nothing else gets in."""

from __future__ import annotations

import dataclasses
import enum
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypedDict, Union
from zoneinfo import ZoneInfo

import msgspec
import pydantic
from hypothesis import example, given, settings
from hypothesis import strategies as st

from howdah import InvalidArguments
from howdah.handlers.arguments import Arguments
from tests.properties.examples import examples

SECRET = "hunter2"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Line(pydantic.BaseModel):
    price: Decimal
    at: datetime
    tags: dict[str, list[int]] = {}


class Flat(msgspec.Struct, forbid_unknown_fields=True):
    a: int
    b: list[str] = []


class Pair(NamedTuple):
    left: int
    right: str | None = None


class Choice(TypedDict, total=False):
    colour: Colour
    weight: float


@dataclasses.dataclass
class Nested:
    when: datetime
    pairs: dict[str, Pair]
    flat: Flat | None = None

    def __post_init__(self) -> None:
        if len(self.pairs) > 1:
            raise LookupError(f"too many pairs: {self.pairs}")


@dataclasses.dataclass(frozen=True)
class Typed:
    """An annotation, and values that fit it."""

    annotation: Any
    values: st.SearchStrategy[Any]


# Zones apart: two datetimes of different zones are never equal where a clock is set back.
offsets = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(lambda offset: timezone(offset))
datetimes = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.one_of(st.none(), offsets))  # noqa: DTZ001
whole_offsets = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))

keys = [
    Typed(str, st.text()),
    Typed(int, st.integers()),
    Typed(float, st.floats(allow_nan=False, allow_infinity=False)),
    Typed(bytes, st.binary()),
    Typed(datetime, datetimes),
    Typed(date, st.dates()),
    Typed(time, st.times(timezones=st.none() | whole_offsets)),
    Typed(timedelta, st.timedeltas()),
    Typed(uuid.UUID, st.uuids()),
    Typed(Decimal, st.decimals(allow_nan=False)),
    Typed(Colour, st.sampled_from(Colour)),
    Typed(Level, st.sampled_from(Level)),
    Typed(Literal["a", "b"], st.sampled_from(["a", "b"])),
]
hashables = [
    *keys,
    Typed(None, st.none()),
    Typed(bool, st.booleans()),
    Typed(int | str | None, st.integers() | st.text() | st.none()),
    Typed(Pair, st.builds(Pair, st.integers(), st.none() | st.text())),
    Typed(tuple[int, ...], st.lists(st.integers()).map(tuple)),
]
as_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
lines = st.builds(
    Line,
    price=st.decimals(allow_nan=False, allow_infinity=False),
    at=st.datetimes(timezones=st.none() | st.just(timezone.utc)),
    tags=st.dictionaries(st.text(), st.lists(st.integers())),
)
leaves = st.sampled_from(
    [
        *hashables,
        Typed(Any, as_json),
        Typed(object, as_json),
        Typed(Flat, st.builds(Flat, st.integers(), st.lists(st.text()))),
        Typed(Choice, st.fixed_dictionaries({}, optional={"colour": st.sampled_from(Colour), "weight": st.just(0.5)})),
        Typed(Line, lines),
    ]
)


def of_records(name: str, make: Callable[[str, Any, Any], Any], one: Typed, other: Typed) -> Typed:
    kind = make(name, one.annotation, other.annotation)
    return Typed(kind, st.builds(lambda a, b: kind(a=a, b=b), one.values, other.values))


def a_dataclass(name: str, a: Any, b: Any) -> Any:
    return dataclasses.make_dataclass(name, [("a", a), ("b", b)])


def a_struct(name: str, a: Any, b: Any) -> Any:
    return msgspec.defstruct(name, [("a", a), ("b", b)])


def a_typed_dict(name: str, a: Any, b: Any) -> Any:
    return TypedDict(name, {"a": a, "b": b})  # type: ignore[operator]


def a_named_tuple(name: str, a: Any, b: Any) -> Any:
    return NamedTuple(name, [("a", a), ("b", b)])


def generic(kind: Any, *members: Typed | Any, values: st.SearchStrategy[Any]) -> Typed:
    return Typed(kind[tuple(each.annotation if isinstance(each, Typed) else each for each in members)], values)


def lists_of(inner: Typed) -> st.SearchStrategy[list[Any]]:
    return st.lists(inner.values, max_size=3)


def dict_of(kind: Any, key: Typed, inner: Typed) -> Typed:
    return generic(kind, key, inner, values=st.dictionaries(key.values, inner.values, max_size=3))


def around(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    key, hashable = st.sampled_from(keys), st.sampled_from(hashables)
    makers = st.sampled_from([a_dataclass, a_struct, a_typed_dict, a_named_tuple])
    return st.one_of(
        inner.map(lambda t: generic(list, t, values=lists_of(t))),
        inner.map(lambda t: generic(Sequence, t, values=lists_of(t))),
        inner.map(lambda t: generic(Union, t, None, values=st.none() | t.values)),
        inner.map(lambda t: generic(tuple, t, ..., values=lists_of(t).map(tuple))),
        st.builds(lambda a, b: generic(tuple, a, b, values=st.tuples(a.values, b.values)), inner, inner),
        hashable.map(lambda t: generic(set, t, values=st.sets(t.values, max_size=3))),
        hashable.map(lambda t: generic(frozenset, t, values=st.frozensets(t.values, max_size=3))),
        st.builds(dict_of, st.sampled_from([dict, Mapping]), key, inner),
        st.builds(of_records, st.just("Record"), makers, inner, inner),
    )


typed_values = st.recursive(leaves, around, max_leaves=5)


def handler_of(required: Any, optional: Any) -> Arguments:
    def handler(required: Any, optional: Any = [SECRET]) -> None:  # noqa: B006
        ...

    handler.__annotations__ = {"required": required, "optional": optional}
    return Arguments(handler)


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


@settings(max_examples=examples(400))
@given(st.data(), typed_values, typed_values, st.booleans())
def test_what_fits_the_annotations_comes_back_equal(
    data: st.DataObject, required: Typed, optional: Typed, both: bool
) -> None:
    arguments = handler_of(required.annotation, optional.annotation)
    passed = {"required": data.draw(required.values)}
    if both:
        passed["optional"] = data.draw(optional.values)
    encoded = arguments.encode(passed)
    found = arguments.decode(through_json(encoded))
    assert found == passed
    assert arguments.encode(found).keys() == encoded.keys()
    assert arguments.decode(through_json(arguments.encode(found))) == passed


@given(st.datetimes(timezones=st.timezones()))
@example(datetime(1880, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")))
@example(datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")))
def test_a_datetime_of_any_zone_stays_the_same_moment(at: datetime) -> None:
    arguments = handler_of(datetime, list[datetime])
    try:
        moment = at.astimezone(timezone.utc)
    except OverflowError:  # before the year 1 or after 9999 in UTC
        return
    found = arguments.decode(through_json(arguments.encode({"required": at, "optional": [at]})))
    assert found["required"].astimezone(timezone.utc) == found["optional"][0].astimezone(timezone.utc) == moment
    offset = at.utcoffset()
    assert offset is not None
    if not offset % timedelta(minutes=1):
        assert found["required"].utcoffset() == offset


def everything(
    number: int,
    flat: Flat,
    nested: Nested,
    line: Line | None = None,
    choice: Choice | None = None,
    colours: dict[Colour, set[Level]] | None = None,
    identity: uuid.UUID | int | None = None,
    literal: Literal["a", 1] = 1,
    span: timedelta | None = None,
    blob: bytes = b"",
    anything: Any = None,
) -> None: ...


EVERYTHING = Arguments(everything)

# Strings that nearly fit, with a secret in them; names that the handler knows, at all levels.
words = st.sampled_from(
    [
        SECRET,
        f"{SECRET} - at `$.number`",
        f"2026-01-01T00:00:00{SECRET}",
        "2026-01-01T00:00:00Z",
        "red",
        "a",
        "P1D",
        f"P{SECRET}",
        "AAAA",
        "\ud800",
        "\x00",
    ]
)
known = "number flat nested line choice colours identity literal span blob anything a b when pairs left price at tags"
names = st.sampled_from([*known.split(), "colour", "weight", "red", SECRET])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | words | st.just(10**400)
nearly = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4), max_leaves=12
)
top_level_names = st.sampled_from(EVERYTHING.names)
good = {"number": 1, "flat": {"a": 1}, "nested": {"when": "2026-01-01T00:00:00Z", "pairs": {}}}


@settings(max_examples=examples(600))
@given(st.dictionaries(top_level_names, nearly, max_size=4))
@example({"nested": {"when": "2026-01-01T00:00:00Z", "pairs": {SECRET: [1], "b": [2]}}})
@example({"flat": {"a": 1, SECRET: 1}})
@example({"line": {"price": SECRET, "at": "2026-01-01T00:00:00Z"}})
@example({"line": {"price": 1, "at": SECRET}})
@example({"line": {"price": 1, "at": "2026-01-01T00:00:00Z", "tags": {SECRET: [SECRET]}}})
@example({"colours": {SECRET: []}})
def test_any_json_is_converted_or_refused_and_the_message_keeps_the_secret(changes: dict[str, Any]) -> None:
    for call in (EVERYTHING.decode, EVERYTHING.encode):
        try:
            found = call({**good, **changes})
        except InvalidArguments as error:
            assert str(error).startswith("everything: ")
            assert SECRET not in f"{error} {error.field}"
            assert "\n" not in str(error)
            assert error.__context__ is None
        else:
            assert found.keys() == {**good, **changes}.keys()
    checked_as_decoded(EVERYTHING, {**good, **changes})


@given(nearly)
def test_any_json_at_all_is_converted_or_refused(data: Any) -> None:
    try:
        found = EVERYTHING.decode(data)
    except InvalidArguments as error:
        assert "\n" not in str(error)
    else:
        assert found.keys() == data.keys()
    checked_as_decoded(EVERYTHING, data)
    checked_as_decoded(OPEN, data)


def open_to_more(number: int, **more: Any) -> None: ...


OPEN = Arguments(open_to_more)


def checked_as_decoded(arguments: Arguments, data: Any) -> None:
    """A check that does not decode must find the same faults, and keep the secret, too."""
    decoded, checked = refusal(arguments.decode, data), refusal(arguments.check, data)
    if decoded is None or checked is None:
        assert decoded is checked is None
    else:
        assert (str(checked), checked.field, checked.__context__) == (str(decoded), decoded.field, None)


def refusal(call: Callable[[Any], object], data: Any) -> InvalidArguments | None:
    try:
        call(data)
    except InvalidArguments as error:
        return error
    return None
