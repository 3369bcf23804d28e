"""The graph of a workflow while it is put together: nodes, and the handles that stand for their results.

A handle as an argument of another node is an edge. Arguments are checked when the node is added, as far as they are known: values
against the annotations of the handler, and results against those of the handler that returns them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar

from howdah.checks import options
from howdah.errors import InvalidArguments, InvalidOption
from howdah.handlers.handler import AnyHandler, Call, Handler, HandlerWithOptions
from howdah.model.workflow import When

T_co = TypeVar("T_co", covariant=True)

OPTIONS: Final = (
    "priority", "delay", "run_at", "max_attempts", "timeout", "expires_at", "expires_in", "retry_policy", "meta", "cost", "per",
)  # fmt: skip
"""Those of the options of ``enqueue`` that the jobs of a workflow can have."""
_INSTEAD: Final = {
    "key": "a job in a workflow has no key of its own: give the workflow one, queue.workflow(…, key=…)",
    **dict.fromkeys(
        ("unique", "debounce", "throttle"),
        "a job in a workflow is not compared with others: let the whole workflow be there once, queue.workflow(…, key=…)",
    ),
    "max_pending": "the bound of its type holds for a job in a workflow, too: see queue.limits",
}
"""Why an option of other jobs is refused, and what to do."""
_WHENS: Final = ("success", "always", "failure")

Target: TypeAlias = "AnyHandler | HandlerWithOptions[Any, Any] | str"
After: TypeAlias = "Handle[Any] | Iterable[Handle[Any]]"


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """A part of the result that a node will have: ``handle.result["chunks"]``."""

    handle: Handle[Any]
    parts: tuple[str | int, ...] = ()

    def __getitem__(self, part: str | int) -> Path:
        if isinstance(part, bool) or not isinstance(part, str | int):
            raise InvalidOption(f"a part of a result is a key or an index, not {options.shown(part)}")
        return Path(self.handle, (*self.parts, part))

    def __iter__(self) -> Iterator[Any]:
        raise InvalidOption(
            "this result is not known yet: flow.map(handler, result) runs the handler for each of its items"
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Handle(Generic[T_co]):
    """A node of a workflow that is being put together. As an argument of another node, it stands for the result."""

    graph: Graph = dataclasses.field(repr=False)
    number: int
    name: str
    kind: str
    handler: AnyHandler | None = dataclasses.field(repr=False)

    @property
    def result(self) -> Path:
        """The result that it will have; ``.result["chunks"]`` is a part of it."""
        return Path(self)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.result)


@dataclasses.dataclass(slots=True)
class NewNode:
    """A node, as it is sent."""

    number: int
    name: str
    kind: str
    when: When
    job_type: str
    options: Mapping[str, Any]
    parents: tuple[int, ...]
    inputs: list[dict[str, Any]]
    data: Iterable[Any] | AsyncIterable[Any] = ()
    items: dict[str, Any] | None = None
    template: dict[str, Any] | None = None


class Graph:
    """The nodes of a new workflow."""

    def __init__(self) -> None:
        self.nodes: list[NewNode] = []
        self._names: set[str] = set()
        self.sealed = False
        """It was sent: nothing can be added to it any more."""

    def add(
        self,
        target: Target,
        after: After,
        when: When,
        name: str | None,
        chosen: Mapping[str, Any],
        args: Sequence[Any],
        named: Mapping[str, Any],
    ) -> Handle[Any]:
        handler, job_type, chosen = resolved(target, chosen)
        given = _bound(handler, args, named)
        known, inputs, parents = self._split(handler, job_type, given)
        data = _encoded(handler, known, given.keys() - known.keys())
        return self._node("job", job_type, handler, after, when, name, chosen, parents, inputs, data=[data])

    def map(
        self,
        target: Target,
        items: Any,
        after: After,
        when: When,
        name: str | None,
        chosen: Mapping[str, Any],
        shared: Mapping[str, Any],
    ) -> Handle[Any]:
        handler, job_type, chosen = resolved(target, chosen)
        parameter = self._item_parameter(handler, job_type, shared)
        known, inputs, parents = self._split(handler, job_type, shared)
        later = shared.keys() - known.keys()
        if isinstance(items, Handle | Path):
            source, path = _source(items)
            self._check_own(source)
            if source.kind == "job" and not path and source.handler is not None and handler is not None:
                _check_list(handler, source)
            template = _encoded(handler, known, {*later, parameter})
            place = {"parameter": parameter, "node": source.number, "path": list(path)}
            parents = (*parents, source.number)
            return self._node(
                "map", job_type, handler, after, when, name, chosen, parents, inputs, items=place, template=template
            )
        if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable | AsyncIterable):
            raise InvalidOption(f"map takes an iterable of items, or the result of a node, not {options.shown(items)}")

        def each(item: Any) -> Any:
            if isinstance(item, Handle | Path):
                raise InvalidOption(
                    "an item of a map cannot be a handle: pass the handle of a node that returns a list"
                )
            return _encoded(handler, {**known, parameter: item}, later)

        data = _amap(each, items) if isinstance(items, AsyncIterable) else map(each, items)
        return self._node("group", job_type, handler, after, when, name, chosen, parents, inputs, data=data)

    def group(
        self, calls: Iterable[Any], after: After, when: When, name: str | None
    ) -> Handle[Any] | list[Handle[Any]]:
        calls = [as_call(each) for each in calls]
        first = calls[0] if calls else None
        if first is None:
            raise InvalidOption("a group has no jobs: for a list that may be empty, use flow.map")
        if any(each.target != first.target or each.options != first.options or _has_handles(each) for each in calls):
            return [
                self.add(
                    each.target,
                    after,
                    when,
                    None if name is None else f"{name} {n}",
                    each.options,
                    each.args,
                    each.named,
                )
                for n, each in enumerate(calls, 1)
            ]
        handler, job_type, chosen = resolved(first.target, first.options)
        data = [_encoded(handler, _bound(handler, each.args, each.named), ()) for each in calls]
        return self._node("group", job_type, handler, after, when, name, chosen, (), [], data=data)

    def _node(
        self, kind: str, job_type: str, handler: AnyHandler | None, after: After, when: When, name: str | None, chosen: Mapping[str, Any],
        parents: Sequence[int], inputs: list[dict[str, Any]], **rest: Any,
    ) -> Handle[Any]:  # fmt: skip
        if self.sealed:
            raise InvalidOption(
                "the workflow was enqueued: nothing can be added to it here. A job that runs adds others with job.spawn"
            )
        if when not in _WHENS:
            raise InvalidOption(f'when is "success", "always" or "failure", not {options.shown(when)}')
        waited_for = [after] if isinstance(after, Handle) else list(after)
        for each in waited_for:
            if not isinstance(each, Handle):
                raise InvalidOption(f"after takes handles of nodes, not {options.shown(each)}")
            self._check_own(each)
        number = len(self.nodes) + 1
        name = self._unused(job_type) if name is None else options.name(name, "the name of a node", 100)
        if name in self._names:
            raise InvalidOption(f"there are two nodes {name!r}: give one of them another name=")
        self._names.add(name)
        everything = tuple(sorted({*parents, *(each.number for each in waited_for)}))
        if when == "failure" and not everything:
            raise InvalidOption(f"node {name!r} runs when a parent fails, and has none: pass after=")
        self.nodes.append(NewNode(number, name, kind, when, job_type, chosen, everything, inputs, **rest))
        return Handle(self, number, name, kind, handler)

    def _unused(self, job_type: str) -> str:
        if job_type not in self._names:
            return job_type
        return next(
            name
            for n in range(len(self.nodes) + 1, 2 * len(self.nodes) + 3)
            if (name := f"{job_type} {n}") not in self._names
        )

    def _check_own(self, handle: Handle[Any]) -> None:
        if handle.graph is not self:
            raise InvalidOption(f"the node {handle.name!r} is part of another workflow")

    def _split(
        self, handler: AnyHandler | None, job_type: str, given: Mapping[str, Any]
    ) -> tuple[dict[str, Any], list[dict[str, Any]], tuple[int, ...]]:
        """The arguments that are values, and those that are results of other nodes."""
        known: dict[str, Any] = {}
        inputs: list[dict[str, Any]] = []
        parents: list[int] = []
        for name, value in given.items():
            listed = _lists_handles(value)
            if listed and not all(isinstance(each, Handle | Path) for each in value):
                raise InvalidArguments(
                    f"{job_type}: argument '{name}': a list has either handles or values, not both", field=name
                )
            if not listed and not isinstance(value, Handle | Path):
                _check_nothing_inside(job_type, name, value)
                known[name] = value
                continue
            sources = [_source(each) for each in (value if listed else [value])]
            for source, path in sources:
                self._check_own(source)
                parents.append(source.number)
                if handler is not None and not path:
                    given_by = (
                        None if source.handler is None or source.kind != "job" or listed else source.handler.result
                    )
                    handler.arguments.check_source(name, given_by, source.name, many=listed or source.kind != "job")
            inputs.append(
                {
                    "parameter": name,
                    "list": listed,
                    "sources": [{"node": source.number, "path": list(path)} for source, path in sources],
                }
            )
        if handler is not None:
            handler.arguments.check_lazy(inputs)
        return known, inputs, tuple(parents)

    def _item_parameter(self, handler: AnyHandler | None, job_type: str, shared: Mapping[str, Any]) -> str:
        if handler is None:
            raise InvalidOption(f"map needs the handler of {job_type!r} here: it says which argument gets the items")
        free = handler.arguments.first_free(shared)
        if free is None:
            raise InvalidArguments(f"{job_type}: has no argument left for the items of the map")
        return free


def as_call(each: Any) -> Call:
    if isinstance(each, Call):
        return each
    if isinstance(each, Handler | HandlerWithOptions):
        return each.call()
    raise InvalidOption(f"this takes handler.call(…), not {options.shown(each)}")


def resolved(target: Target, chosen: Mapping[str, Any]) -> tuple[AnyHandler | None, str, Mapping[str, Any]]:
    handler: AnyHandler | None = None
    if isinstance(target, HandlerWithOptions):
        handler, chosen = target.handler, {**target.options, **chosen}
    elif isinstance(target, Handler):
        handler = target
    if chosen.get("unique") is False:
        chosen = {name: value for name, value in chosen.items() if name != "unique"}
    elif handler is not None and handler.unique is not None and handler.unique["by"] != "key":
        raise InvalidOption(
            f"{handler.name} is declared with unique, debounce or throttle, and a job in a workflow is not compared with others: pass"
            ' options={"unique": False} if it may run beside others, and queue.workflow(…, key=…) if the workflow is to be there once'
        )
    unknown = sorted(chosen.keys() - set(OPTIONS))
    for name in unknown:
        if name in _INSTEAD:
            raise InvalidOption(f"{name}: {_INSTEAD[name]}")
    if unknown:
        raise InvalidOption(f"{', '.join(unknown)}: not an option of a job in a workflow ({', '.join(OPTIONS)})")
    if handler is not None:
        return handler, handler.name, chosen
    if isinstance(target, str):
        return None, options.job_type(target), chosen
    raise InvalidOption(f"a node is made of a handler, or of the name of a job type, not {options.shown(target)}")


def _bound(handler: AnyHandler | None, args: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    if not args:
        return named
    if handler is None:
        raise InvalidArguments("without the handler, arguments are passed by name")
    return handler.arguments.bound(args, named)


def _encoded(handler: AnyHandler | None, known: Mapping[str, Any], later: Iterable[str]) -> dict[str, Any]:
    return dict(known) if handler is None else handler.arguments.encode_some(known, list(later))


def _source(value: Handle[Any] | Path) -> tuple[Handle[Any], tuple[str | int, ...]]:
    return (value, ()) if isinstance(value, Handle) else (value.handle, value.parts)


def _check_list(handler: AnyHandler, source: Handle[Any]) -> None:
    assert source.handler is not None
    kinds = source.handler.result.json_kinds
    if kinds is not None and "list" not in kinds:
        raise InvalidArguments(
            f"{handler.name}: a map needs a list, and {source.name} returns {' or '.join(sorted(kinds))}"
        )


def _has_handles(call: Call) -> bool:
    given = (*call.args, *call.named.values())
    return any(isinstance(each, Handle | Path) or _lists_handles(each) for each in given)


def _lists_handles(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(each, Handle | Path) for each in value)


def _check_nothing_inside(job_type: str, name: str, value: Any) -> None:
    """Refuses handles deep inside of a value: they would be stored as nonsense."""
    pending, looked = [value], 0
    while pending and looked < 10_000:
        each = pending.pop()
        looked += 1
        if isinstance(each, Handle | Path):
            raise InvalidArguments(
                f"{job_type}: argument '{name}': a handle is an argument by itself, or one of a list of handles; it cannot be inside of other values",
                field=name,
            )
        if isinstance(each, Mapping):
            pending.extend(each.values())
        elif isinstance(each, list | tuple | set | frozenset):
            pending.extend(each)


async def _amap(function: Any, items: AsyncIterable[Any]) -> Any:
    async for item in items:
        yield function(item)
