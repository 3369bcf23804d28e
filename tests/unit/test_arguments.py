"""How a handler's annotations convert its arguments, and the error when these do not fit."""

from __future__ import annotations

import collections
import dataclasses
import enum
import json
import pathlib
import subprocess
import sys
import traceback
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, Union
from zoneinfo import ZoneInfo

import msgspec
import pydantic
import pytest

from howdah import InvalidArguments, Job, Resource
from howdah.handlers.arguments import Arguments

SECRET = "hunter2-secret"
NOW = datetime(2026, 5, 17, 12, 30, 0, 123456, tzinfo=timezone(timedelta(hours=5, minutes=30)))


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    colour: str


@dataclasses.dataclass
class Address:
    street: str
    zip: int


@dataclasses.dataclass
class Customer:
    name: str
    address: Address
    tags: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Tree:
    branches: list[Tree]


class Invoice(msgspec.Struct, forbid_unknown_fields=True):
    number: int
    due: date | None = None


class Line(pydantic.BaseModel):
    price: Decimal
    amount: int = pydantic.Field(default=1, gt=0)
    prices_by_day: dict[date, int] = {}


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    number: int = pydantic.Field(alias="orderNumber")
    at: datetime
    lines: list[Line] = []

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return len(self.lines)

    @pydantic.field_validator("number")
    @classmethod
    def _not_thirteen(cls, value: int) -> int:
        if value == 13:
            raise ValueError(f"{SECRET} is not lucky")
        if value == 14:
            raise KeyError(SECRET)
        return value


class Picky:
    """Checks itself, and raises a very long message."""


@dataclasses.dataclass
class Card:
    number: str

    def __post_init__(self) -> None:
        if self.number == SECRET:
            raise ValueError(f"{self.number} is no card - at `$.{self.number}`")
        if self.number == "missing":
            raise KeyError(self.number)


class Pool:
    pass


def taking(annotation: Any) -> Arguments:
    def handler(value: Any) -> None: ...

    handler.__annotations__ = {"value": annotation}
    return Arguments(handler)


def round_trip(arguments: Arguments, given: Mapping[str, Any]) -> dict[str, Any]:
    return arguments.decode(json.loads(json.dumps(arguments.encode(given), allow_nan=False)))


def refused(call: Callable[[], object]) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        call()
    printed = "".join(traceback.format_exception(caught.value))
    assert "\n" not in str(caught.value)
    assert SECRET not in printed.split("InvalidArguments", 1)[1]
    assert caught.value.__cause__ is caught.value.__context__ is None
    return caught.value


# Values


@pytest.mark.parametrize(
    ("annotation", "value", "stored"),
    [
        (Any, {"as": ["it", "is", None]}, {"as": ["it", "is", None]}),
        (object, [1], [1]),
        (None, None, None),
        (bool, True, True),
        (int, 10**30, 10**30),
        (float, 1.5, 1.5),
        (str, "naïve", "naïve"),
        (bytes, b"\x00\xff", "AP8="),
        (datetime, NOW, "2026-05-17T12:30:00.123456+05:30"),
        (datetime, datetime(2026, 5, 17, 12), "2026-05-17T12:00:00"),  # noqa: DTZ001
        (date, date(2026, 5, 17), "2026-05-17"),
        (time, time(12, 30), "12:30:00"),
        (timedelta, timedelta(days=-1, microseconds=1), "-PT86399.999999S"),
        (uuid.UUID, uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal, Decimal("1.10"), "1.10"),
        (Size, Size.LARGE, "l"),
        (Level, Level.LOW, 1),
        (Literal["a", 1], 1, 1),
        (Union[int, None], None, None),  # noqa: UP007
        (int | str | None, "x", "x"),
        (list[date], [date(2026, 1, 2)], ["2026-01-02"]),
        (tuple[int, str], (1, "a"), [1, "a"]),
        (set[str], {"c", "a", "b"}, ["a", "b", "c"]),
        (frozenset[int], frozenset({3, 1}), [1, 3]),
        (dict[int, Size], {5: Size.SMALL}, {"5": "s"}),
        (dict[uuid.UUID, int], {uuid.UUID(int=7): 1}, {"00000000-0000-0000-0000-000000000007": 1}),
        (dict[str, object], {"a": 1}, {"a": 1}),
        (Sequence[int], [1, 2], [1, 2]),
        (Mapping[str, int], {"a": 1}, {"a": 1}),
        (Options, {"colour": "red"}, {"colour": "red"}),
        (Point, Point(1, 2), [1, 2]),
        (Customer, Customer("Ada", Address("Main", 1)), {"name": "Ada", "address": {"street": "Main", "zip": 1}, "tags": []}),
        (Tree, Tree([Tree([])]), {"branches": [{"branches": []}]}),
        (Invoice, Invoice(1, date(2026, 1, 2)), {"number": 1, "due": "2026-01-02"}),
        (Annotated[int, msgspec.Meta(ge=0)], 5, 5),
        (list[Line], [Line(price=Decimal("1.50"))], [{"price": "1.50", "amount": 1, "prices_by_day": {}}]),
        (Order | None, Order(orderNumber=1, at=NOW), {"orderNumber": 1, "at": NOW.isoformat(), "lines": []}),
    ],
    ids=lambda value: getattr(value, "__name__", None) or "",
)  # fmt: skip
def test_a_value_is_stored_as_json_and_comes_back_as_it_was(annotation: Any, value: Any, stored: Any) -> None:
    arguments = taking(annotation)
    encoded = arguments.encode({"value": value})
    assert json.loads(json.dumps(encoded)) == {"value": stored}
    found = round_trip(arguments, {"value": value})
    assert found == {"value": value}
    assert type(found["value"]) is type(value)


@pytest.mark.parametrize(
    "moment",
    [
        datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")),
        datetime(1880, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")),  # 53 minutes and 28 seconds
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=-2, microseconds=-7))),
    ],
    ids=str,
)
@pytest.mark.parametrize("wrap", [lambda at: at, lambda at: {"keys": [{at: at}]}], ids=["itself", "nested"])
def test_an_aware_datetime_stays_the_same_moment(moment: datetime, wrap: Callable[[datetime], Any]) -> None:
    arguments = taking(datetime | dict[str, list[dict[datetime, datetime]]])
    assert round_trip(arguments, {"value": wrap(moment)}) == {"value": wrap(moment)}


def test_an_int_will_do_for_a_float() -> None:
    found = round_trip(taking(float), {"value": 5})
    assert (found["value"], type(found["value"])) == (5.0, float)


def test_sets_are_stored_in_order_and_those_that_have_none_as_they_come() -> None:
    names = {f"name-{i}" for i in range(50)}
    assert taking(set[str]).encode({"value": names}) == {"value": sorted(names)}
    moments = {NOW + timedelta(days=i) for i in range(50)}
    assert taking(set[datetime]).encode({"value": moments}) == {"value": [at.isoformat() for at in sorted(moments)]}
    assert round_trip(taking(set[int | str]), {"value": {1, "a"}}) == {"value": {1, "a"}}


def test_subclasses_of_plain_types_are_stored_as_plain_values() -> None:
    class Text(str):
        __slots__ = ()

    class Number(int):
        pass

    class Share(float):
        pass

    class Moment(datetime):
        pass

    for annotation, value in (
        (str, Text("a")),
        (int, Number(5)),
        (float, Share(0.5)),
        (datetime, Moment(2026, 1, 1, 12, fold=1, tzinfo=timezone.utc)),
        (dict[str, int], collections.Counter("a")),
        (dict[str, int], types.MappingProxyType({"a": 1})),
        (list[str], [Text("a")]),
    ):
        assert round_trip(taking(annotation), {"value": value}) == {"value": value}
        assert type(round_trip(taking(annotation), {"value": value})["value"]) in (
            str,
            int,
            float,
            datetime,
            dict,
            list,
        )


def test_what_has_no_annotation_is_passed_on_untouched() -> None:
    def handler(typed: int, free, anything: Any) -> None:  # type: ignore[no-untyped-def]
        ...

    thing = object()
    given = {"typed": 1, "free": thing, "anything": {1: thing}}
    arguments = Arguments(handler)
    assert arguments.encode(given) == given
    assert arguments.decode(given) == given
    assert arguments.decode(given)["anything"][1] is thing


def test_a_mapping_in_place_of_a_dataclass_or_a_model_is_checked_the_same_way() -> None:
    given = {"value": {"name": "Ada", "address": Address("Main", 1)}}
    assert round_trip(taking(Customer), given) == {"value": Customer("Ada", Address("Main", 1))}


def test_a_strict_model_with_aliases_and_computed_fields_survives() -> None:
    order = Order(orderNumber=1, at=NOW, lines=[Line(price=Decimal(2), prices_by_day={date(2026, 1, 1): 5})])
    assert round_trip(taking(dict[str, Order]), {"value": {"a": order}}) == {"value": {"a": order}}


def test_pydantic_is_not_imported_without_need() -> None:
    program = (
        "import sys\nfrom howdah.handlers.arguments import Arguments\ndef handler(x: int, y: object = 1): ...\n"
        "Arguments(handler).decode(Arguments(handler).encode({'x': 1}))\n"
        "sys.exit(any(name.split('.')[0] == 'pydantic' for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# Names and defaults


def send_invoice(customer: Customer, when: datetime, copies: int = 1) -> None: ...


GOOD = {"customer": {"name": "Ada", "address": {"street": "Main", "zip": 1}}, "when": NOW.isoformat()}


def test_the_names_of_the_data_are_known() -> None:
    assert Arguments(send_invoice).names == ("customer", "when", "copies")


def test_a_default_stays_with_the_function_whatever_it_is() -> None:
    thing = object()

    def handler(a: int, b: list[int] = [1], c: Any = thing, d: Customer = thing, e: int | None = None) -> None:  # type: ignore[assignment] # noqa: B006
        ...

    arguments = Arguments(handler)
    assert arguments.encode({"a": 1}) == arguments.decode({"a": 1}) == {"a": 1}
    assert arguments.decode({"b": [2], "a": 1}) == {"a": 1, "b": [2]}
    assert arguments.decode({"a": 1, "e": None}) == {"a": 1, "e": None}


def test_an_unknown_argument_is_refused_with_a_suggestion() -> None:
    for call in (Arguments(send_invoice).encode, Arguments(send_invoice).decode):
        error = refused(lambda call=call: call({**GOOD, "copeis": SECRET}))  # type: ignore[misc]
        assert str(error) == (
            "send_invoice: unknown argument 'copeis' (did you mean 'copies'?); it takes 'customer', 'when', 'copies'"
        )
        assert error.field == "copeis"


def test_all_missing_arguments_are_named() -> None:
    for data in ({}, None, {"copies": 2}):
        error = refused(lambda data=data: Arguments(send_invoice).decode(data))  # type: ignore[misc]
        assert "missing arguments 'customer', 'when';" in str(error)
        assert error.field == "customer"
    assert "missing argument 'when'" in str(refused(lambda: Arguments(send_invoice).encode({"customer": 5})))


def test_a_typing_error_in_a_name_is_named_with_what_is_missing() -> None:
    error = refused(lambda: Arguments(send_invoice).decode({"customer": GOOD["customer"], "wehn": SECRET}))
    assert "unknown argument 'wehn' (did you mean 'when'?), missing argument 'when'" in str(error)


def test_thousands_of_unknown_names_make_no_endless_message() -> None:
    many = {f"{i}\n" * 500: i for i in range(5_000)}
    assert len(str(refused(lambda: Arguments(send_invoice).decode(many)))) < 1_000


def test_a_handler_without_arguments_takes_none() -> None:
    def handler() -> None: ...

    arguments = Arguments(handler)
    assert arguments.decode({}) == arguments.decode(None) == arguments.encode({}) == {}
    for call in (arguments.encode, arguments.decode):
        assert str(refused(lambda call=call: call({"a": SECRET}))) == (  # type: ignore[misc]
            "handler: unknown argument 'a'; it takes no arguments"
        )


@pytest.mark.parametrize("data", [[], [SECRET], 5, 0, SECRET, "", False, 1.5], ids=repr)
@pytest.mark.parametrize("annotation", [Any, int])
def test_data_that_is_not_an_object_is_refused(data: Any, annotation: Any) -> None:
    error = refused(lambda: taking(annotation).decode(data))
    assert str(error) == "handler: takes named arguments, so its data is a JSON object"
    assert error.field is None


@pytest.mark.parametrize("annotation", [int, Any])
def test_further_names_pass_where_the_function_takes_them(annotation: Any) -> None:
    def handler(job: Job, db: Annotated[Pool, Resource], a: Any, b: Any = 5, **others: str) -> None: ...

    handler.__annotations__["a"] = annotation
    arguments = Arguments(handler)
    assert arguments.names == ("a", "b")
    assert arguments.encode({"z": NOW, "a": 1}) == arguments.decode({"z": NOW, "a": 1}) == {"a": 1, "z": NOW}
    assert arguments.decode({"a": 1, "b": 2}) == {"a": 1, "b": 2}
    assert "missing argument 'a'" in str(refused(lambda: arguments.decode({"z": 1})))
    for served in ("job", "db"):
        for call in (arguments.encode, arguments.decode):
            error = refused(lambda call=call, served=served: call({"a": 1, served: 2}))  # type: ignore[misc]
            assert error.field == served


# Values that do not fit


@pytest.mark.parametrize(
    ("annotation", "value", "message", "field"),
    [
        (int, SECRET, "Expected `int`, got `str`", "value"),
        (int, "5", "Expected `int`, got `str`", "value"),
        (int, True, "Expected `int`, got `bool`", "value"),
        (bool, 1, "Expected `bool`, got `int`", "value"),
        (str, None, "Expected `str`, got `null`", "value"),
        (float, 10**400, "Number out of range", "value"),
        (datetime, SECRET, "Invalid RFC3339 encoded datetime", "value"),
        (date, SECRET, "Invalid RFC3339 encoded date", "value"),
        (timedelta, SECRET, "Invalid ISO8601 duration", "value"),
        (uuid.UUID, SECRET, "Invalid UUID", "value"),
        (Decimal, SECRET, "Invalid decimal string", "value"),
        (bytes, SECRET, "Invalid base64 encoded string", "value"),
        (Size, SECRET, "Invalid enum value", "value"),
        (Literal["a"], SECRET, "Invalid enum value", "value"),
        (Annotated[str, msgspec.Meta(max_length=3)], SECRET, "Expected `str` of length <= 3", "value"),
        (dict[int, int], {SECRET: 1}, "Expected `int`, got `str` as a key", "value"),
        (dict[str, int], {SECRET: SECRET}, "Expected `int`, got `str`", "value[...]"),
        (list[Customer], [{"name": "Ada", "address": {"street": "", "zip": SECRET}}], "Expected `int`, got `str`", "value[0].address.zip"),
        (Customer, {"name": "Ada", "address": {"street": ""}}, "Object missing required field `zip`", "value.address"),
        (Invoice, {"number": 1, SECRET: 1}, "Object contains unknown field", "value"),
        (Card, {"number": SECRET}, "ValueError while it was converted", "value"),
        (list[Card], [{"number": "missing"}], "KeyError while it was converted", "value"),
        (set[Address], [{"street": SECRET, "zip": 1}], "TypeError while it was converted", "value"),
        (Line, {"price": SECRET}, "Input should be a valid decimal", "value.price"),
        (list[Line], [{"price": 1, "amount": -5}], "Input should be greater than 0", "value[0].amount"),
        (Line, {"price": 1, "prices_by_day": {"2026-01-01": SECRET}}, "Input should be a valid integer, unable to parse string as an integer", "value.prices_by_day[...]"),
        (Line, {"price": 1, "prices_by_day": {SECRET: 1}}, "refused by a check of Line", "value.prices_by_day[...][...]"),
        (Order, {"orderNumber": 1, "at": NOW.isoformat(), "lines": [{"price": 1}, {"price": SECRET}]}, "Input should be a valid decimal", "value.lines[1].price"),
        (Order, {"orderNumber": 1, "at": NOW.isoformat(), SECRET: 1}, "Extra inputs are not permitted", "value[...]"),
        (Order, {"orderNumber": 13, "at": NOW.isoformat()}, "refused by a check of Order", "value.orderNumber"),
        (Order, {"orderNumber": 14, "at": NOW.isoformat()}, "KeyError while it was converted", "value"),
        (Order, {"at": NOW.isoformat()}, "Field required", "value.orderNumber"),
        (Order, SECRET, "Input should be an object", "value"),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_place_and_without_the_value(
    annotation: Any, value: Any, message: str, field: str
) -> None:
    arguments = taking(annotation)
    for call in (lambda given: arguments.decode(arguments.encode(given)), arguments.decode):
        error = refused(lambda call=call: call({"value": value}))  # type: ignore[misc]
        assert str(error) == f"handler: argument '{field}': {message}"
        assert error.field == field


def test_the_argument_is_named_whatever_its_own_checks_raise() -> None:
    def handler(first: int, card: Card, last: Card) -> None: ...

    data = {"first": 1, "card": {"number": "1"}, "last": {"number": "missing"}}
    assert refused(lambda: Arguments(handler).decode(data)).field == "last"


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        (str, Picky(), "a Picky cannot be stored as JSON"),
        (list[str], [pathlib.Path(SECRET)], "cannot be stored as JSON"),
        (dict, {(1, SECRET): 1}, "Only dicts with str-like or number-like keys are supported"),
        (datetime, {(1, SECRET): 1}, "Only dicts with str-like or number-like keys are supported"),
        (Line, Line.model_construct(price=Picky()), "while it was converted"),
    ],
)
def test_what_json_cannot_hold_is_refused_at_enqueue(annotation: Any, value: Any, message: str) -> None:
    error = refused(lambda: taking(annotation).encode({"value": value}))
    assert str(error).startswith("handler: argument 'value': ")
    assert message in str(error)
    assert error.field == "value"


def test_values_nested_without_end_are_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert "nested too deeply" in str(refused(lambda: taking(list).encode({"value": endless})))
    deep: dict[str, Any] = {"branches": []}
    for _ in range(100_000):
        deep = {"branches": [deep]}
    assert "nested too deeply" in str(refused(lambda: taking(Tree).decode({"value": deep})))
