"""Which of a function's parameters are data, the job or resources, and which signatures cannot be."""

from __future__ import annotations

import enum
import functools
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Union

import msgspec
import pydantic
import pydantic.dataclasses
import pytest

from howdah import InvalidOption, Job, Resource, resource
from howdah.handlers.arguments import Arguments
from howdah.handlers.resource import find
from tests.unit.test_arguments import SECRET, Line, Order, Picky, Pool, refused, taking

if TYPE_CHECKING:
    from elsewhere import OnlyForTypeCheckers  # type: ignore[import-not-found]


class SpecialPool(Pool):
    pass


def test_the_job_and_the_resources_are_not_data() -> None:
    def handler(
        job: Job, a: int, pool: Annotated[Pool, Resource], named: Annotated[Pool | None, Resource("orders")] = None
    ) -> None: ...

    arguments = Arguments(handler)
    assert (arguments.names, arguments.job_parameter) == (("a",), "job")
    assert arguments.resources == {"pool": Resource(), "named": Resource("orders")}
    assert arguments.resource_types == {"pool": Pool, "named": Pool}
    assert arguments.decode({"a": 1}) == {"a": 1}
    assert refused(lambda: arguments.decode({"a": 1, "job": 2})).field == "job"


@pytest.mark.parametrize(
    "annotation",
    [Job, Job | None, Union[Job, None], Annotated[Job, "x"], "Job", Annotated["Job", 1] | None],  # noqa: UP007
)
def test_the_job_is_found_however_it_is_annotated(annotation: Any) -> None:
    assert (taking(annotation).job_parameter, taking(annotation).names) == ("value", ())


@pytest.mark.parametrize(
    "annotation", [Annotated[Pool, Resource], Annotated[Pool, 1, Resource()], Annotated[Pool, Resource] | None]
)
def test_a_resource_is_found_however_it_is_annotated(annotation: Any) -> None:
    assert taking(annotation).resources == {"value": Resource()}
    assert taking(annotation).resource_types == {"value": Pool}


def test_a_resource_may_be_the_default_of_its_parameter() -> None:
    def handler(job: Job, a: int, pool: Pool = resource(), b: int = 5, named: Any = resource("orders")) -> None: ...

    arguments = Arguments(handler)
    assert (arguments.names, arguments.job_parameter) == (("a", "b"), "job")
    assert arguments.resources == {"pool": Resource(), "named": Resource("orders")}
    assert arguments.resource_types["pool"] is Pool

    def nameless(pool=resource()) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(InvalidOption, match="the resource 'pool' has neither a type nor a name"):
        Arguments(nameless)
    with pytest.raises(InvalidOption, match="the name of a resource"):
        resource(Pool)  # type: ignore[arg-type]


def test_positional_arguments_bind_as_in_a_call_without_the_job() -> None:
    def handler(a: int, job: Job, b: int = 5, pool: Pool = resource(), c: int = 6, *, d: int = 7) -> None: ...

    bound = Arguments(handler).bound
    assert bound((1,), {}) == {"a": 1}
    assert bound((1, 2), {"c": 3, "d": 4}) == {"a": 1, "b": 2, "c": 3, "d": 4}
    for positional, named, message, field in [
        ((1, 2, SECRET, 4, 5), {}, "5 positional arguments are too many; it takes .* 'a', 'b', 'pool', 'c'", None),
        ((1, 2, SECRET), {}, "the worker passes the resource 'pool': pass the arguments from there on by name", "pool"),
        ((SECRET,), {"a": 1}, "two values for the argument 'a'", "a"),
    ]:
        error = refused(lambda positional=positional, named=named: bound(positional, named))  # type: ignore[misc]
        assert re.search(message, str(error))
        assert error.field == field

    def nothing(job: Job) -> None: ...

    assert "it takes no positional arguments" in str(refused(lambda: Arguments(nothing).bound((1,), {})))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is new in Python 3.12")
def test_a_resource_is_found_behind_a_type_statement() -> None:
    names: dict[str, Any] = {"Annotated": Annotated, "Pool": Pool, "Resource": Resource}
    exec("type Db = Annotated[Pool, Resource('db')]\ntype Count = int\ndef handler(db: Db, n: Count): ...", names)
    arguments = Arguments(names["handler"])
    assert (arguments.names, arguments.resources) == (("n",), {"db": Resource("db")})
    assert refused(lambda: arguments.decode({"n": SECRET})).field == "n"


def positional_only(a: int, /) -> None: ...
def by_convention(__a: int) -> None: ...
def any_number(*items: int) -> None: ...
def two_jobs(a: Job, b: Job | None) -> None: ...
def a_path(a: pathlib.Path) -> None: ...
def a_nested_path(a: dict[str, list[pathlib.Path]]) -> None: ...
def a_class(a: Picky) -> None: ...
def a_function(a: Callable[[], int]) -> None: ...
def an_iterable(a: Iterable[int]) -> None: ...
def an_ambiguity(a: datetime | str) -> None: ...
def two_models(a: Line | Order) -> None: ...
def strange_keys(a: dict[tuple[int, int], str]) -> None: ...
def mixed_keys(a: dict[int | str, str]) -> None: ...
def a_list_of_jobs(a: list[Job]) -> None: ...
def raw(a: msgspec.Raw) -> None: ...
def not_a_type(a: 5) -> None: ...  # type: ignore[valid-type]
def not_there(a: OnlyForTypeCheckers) -> None: ...
def nonsense(a: "no such") -> None: ...  # type: ignore[valid-type] # noqa: F722


@pydantic.dataclasses.dataclass
class PydanticDataclass:
    a: int = pydantic.Field(default=1, gt=0)


def a_pydantic_dataclass(a: list[PydanticDataclass]) -> None: ...


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (positional_only, "'a' is positional-only"),
        (by_convention, "'__a' is positional-only"),
        (any_number, "*items cannot be"),
        (two_jobs, "'a' and 'b' would both be the job"),
        (a_path, "Path, which cannot be converted from JSON: pathlib"),
        (a_nested_path, "Path]], which cannot be converted from JSON: pathlib"),
        (a_class, "Picky is not a type that Howdah knows. Supported are None, bool, int"),
        (a_function, "Callable is not a type"),
        (an_iterable, "Iterable is not a type"),
        (an_ambiguity, "may not contain more than one str-like type"),
        (two_models, "may not contain more than one custom type"),
        (strange_keys, "the keys of a dict"),
        (mixed_keys, "the keys of a dict"),
        (a_list_of_jobs, "a Job is passed by the worker"),
        (raw, "bytes of another format"),
        (not_a_type, "'5' is not supported"),
        (not_there, "'OnlyForTypeCheckers' of the parameter 'a' cannot be resolved (name 'OnlyForTypeCheckers' is not"),
        (nonsense, "cannot be resolved"),
        (a_pydantic_dataclass, "PydanticDataclass is a pydantic dataclass"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_signature_that_cannot_work_is_refused_when_it_is_registered(
    function: Callable[..., Any], message: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        Arguments(function)
    assert str(caught.value).startswith(f"{function.__name__}: ")
    assert message in str(caught.value)


def test_a_return_annotation_that_cannot_be_resolved_does_not_matter() -> None:
    def handler(a: int) -> OnlyForTypeCheckers: ...

    assert Arguments(handler).names == ("a",)


def test_classes_of_the_function_around_are_found() -> None:
    class Colour(enum.Enum):
        RED = "red"

    def register(function: Callable[..., Any]) -> Arguments:
        return Arguments(function)

    @register
    def unseen(colour: Colour) -> None: ...

    @register
    def in_the_closure(colour: Colour) -> type:
        return Colour

    class Service:
        class Part(enum.Enum):
            ONE = 1

        @register
        def handler(self, part: Part, colour: Colour) -> None: ...

    assert unseen.decode({"colour": "red"}) == in_the_closure.decode({"colour": "red"}) == {"colour": Colour.RED}
    found = Service.handler.decode({"self": 1, "part": 1, "colour": "red"})
    assert found == {"self": 1, "part": Service.Part.ONE, "colour": Colour.RED}


def test_a_closure_is_enough_when_the_function_around_has_ended() -> None:
    def make() -> tuple[type[enum.Enum], Callable[..., Any], Callable[..., Any]]:
        class Colour(enum.Enum):
            RED = "red"

        def seen(colour: Colour) -> type:
            return Colour

        def unseen(colour: Colour) -> None: ...

        return Colour, seen, unseen

    kind, seen, unseen = make()
    assert Arguments(seen).decode({"colour": "red"}) == {"colour": kind("red")}
    with pytest.raises(InvalidOption, match=r"unseen: the annotation 'Colour' .* cannot be resolved"):
        Arguments(unseen)


def test_decorated_functions_methods_partials_and_callable_objects_work() -> None:
    elsewhere: dict[str, Any] = {"wraps": functools.wraps}
    exec("def decorated(f):\n  @wraps(f)\n  def wrapper(*args): f(*args)\n  return wrapper", elsewhere)
    decorated: Callable[[Any], Callable[..., Any]] = elsewhere["decorated"]

    class Service:
        def method(self, when: date) -> None: ...

        @decorated
        def decorated_method(self, when: date) -> None: ...

        @staticmethod
        def static(when: date) -> None: ...

        @classmethod
        def of_class(cls, when: date) -> None: ...

        def __call__(self, when: date) -> None: ...

    @decorated
    @decorated
    def function(when: date) -> None: ...

    def partly(first: int, when: date, last: int) -> None: ...

    service = Service()
    functions: list[Callable[..., Any]] = [function, service.method, decorated(service.method), Service.static]
    functions += [service.decorated_method, Service.of_class, service, functools.partial(partly, 1, last=2)]
    for each in functions:
        arguments = Arguments(each)
        assert arguments.names[0] == "when"
        assert arguments.decode({"when": "2026-01-02"}) == {"when": date(2026, 1, 2)}
        assert refused(lambda arguments=arguments: arguments.decode({"when": SECRET})).field == "when"  # type: ignore[misc]


def test_a_lambda_and_a_handler_with_strange_names_work() -> None:
    assert Arguments(lambda größe, self=1: None).decode({"größe": 5}) == {"größe": 5}
    namespace: dict[str, Any] = {}
    exec("def handler(größe: int, _a: int, type: int, cls: int = 0): ...", namespace)
    arguments = Arguments(namespace["handler"])
    assert arguments.decode({"größe": 1, "_a": 2, "type": 3}) == {"größe": 1, "_a": 2, "type": 3}
    assert refused(lambda: arguments.decode({"größe": SECRET, "_a": 2, "type": 3})).field == "größe"


# Batch handlers


def test_a_batch_handler_has_one_parameter_for_the_jobs() -> None:
    def typed(jobs: list[Job], pool: Annotated[Pool, Resource]) -> None: ...
    def free(anything) -> None: ...  # type: ignore[no-untyped-def]

    for function, name in ((typed, "jobs"), (free, "anything")):
        arguments = Arguments(function, batch=True)
        assert (arguments.names, arguments.job_parameter) == ((), name)
        assert arguments.encode({"a": [1]}) == {"a": [1]}
        assert arguments.decode({"a": 1}) == arguments.decode([1]) == {}
    assert Arguments(typed, batch=True).resources == {"pool": Resource()}


def test_a_batch_handler_with_other_parameters_is_refused() -> None:
    def none() -> None: ...
    def two(jobs: list[Job], limit: int = 5) -> None: ...
    def any_name(jobs: list[Job], **others: Any) -> None: ...

    for function in (none, two, any_name):
        with pytest.raises(InvalidOption, match="one parameter, which receives the list of jobs"):
            Arguments(function, batch=True)


# Resources


def test_a_resource_is_found_by_name_and_by_type() -> None:
    pool, special = Pool(), SpecialPool()
    assert find({"a": pool, "b": special}, SpecialPool, Resource("a")) is pool
    assert find({"a": pool, "b": special}, Pool, Resource()) is pool
    assert find({"a": special, "n": 1}, Pool, Resource()) is special
    assert find({Pool: special, SpecialPool: pool}, Pool, Resource()) is special
    assert find({SpecialPool: "a stand-in", "n": 1}, Pool, Resource()) == "a stand-in"
    assert find({"a": special, SpecialPool: special}, Pool, Resource()) is special
    assert find({"a": {"x": 1}}, dict[str, int], Resource()) == {"x": 1}


@pytest.mark.parametrize(
    ("resources", "annotation", "marker", "message"),
    [
        ({}, Pool, Resource(), "there is no resource of the type Pool: the worker has none"),
        ({"a": 1, Pool: 2}, Pool, Resource("b"), "no resource named 'b': the worker has 'a' (int), Pool"),
        ({"a": SECRET}, Pool, Resource(), "no resource of the type Pool: the worker has 'a' (str)"),
        ({"a": Pool(), "b": Pool()}, Pool, Resource(), "several resources of the type Pool"),
        ({"a": 1}, Any, Resource(), "no resource of the type Any"),
    ],
)
def test_a_resource_that_cannot_be_found_is_an_error_that_lists_what_there_is(
    resources: Mapping[str | type, Any], annotation: Any, marker: Resource, message: str
) -> None:
    with pytest.raises(InvalidOption) as caught:
        find(resources, annotation, marker)
    assert message in str(caught.value)
    assert SECRET not in str(caught.value)
