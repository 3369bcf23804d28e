"""The description of the JSON API, as OpenAPI 3.1."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from starlette.requests import Request

from howdah import __about__
from howdah.checks import options
from howdah.errors import InvalidOption

Answer: TypeAlias = Callable[[Request], Awaitable[Any]]

TEXT: Final = {"type": "string"}
OBJECT: Final = {"type": "object"}


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One route of the API, and what its description says."""

    method: str
    path: str
    summary: str
    answer: Answer
    parameters: tuple[dict[str, Any], ...] = ()
    body: dict[str, Any] | None = None
    result: dict[str, Any] = dataclasses.field(default_factory=lambda: dict(OBJECT))
    status: int = 200


class Operations(list[Operation]):
    """The routes of the API. Each is described above the function that answers it."""

    def get(self, path: str, summary: str, *parameters: dict[str, Any], **rest: Any) -> Callable[[Answer], Answer]:
        return self._adds("GET", path, summary, parameters, rest)

    def post(self, path: str, summary: str, *parameters: dict[str, Any], **rest: Any) -> Callable[[Answer], Answer]:
        return self._adds("POST", path, summary, parameters, rest)

    def _adds(
        self, method: str, path: str, summary: str, parameters: tuple[dict[str, Any], ...], rest: Mapping[str, Any]
    ) -> Callable[[Answer], Answer]:
        def add(answer: Answer) -> Answer:
            self.append(Operation(method, path, summary, answer, parameters, **rest))
            return answer

        return add


def description_of(title: str, operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1. Its server is the folder of this file, so that it holds under any mount."""
    problem = {"content": {"application/json": {"schema": {"type": "object", "properties": {"error": TEXT}}}}}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        refusals = {code: {"description": text, **problem} for code, text in _REFUSALS.items()}
        refusals["401"] = {"description": "A login is needed", **problem}
        described = {
            "summary": each.summary,
            "operationId": f"{each.method.lower()}{each.path.replace('/', '_').replace('{', '').replace('}', '')}",
            "parameters": list(each.parameters),
            "responses": {
                str(each.status): {"description": "Done", "content": {"application/json": {"schema": each.result}}},
                **refusals,
            },
        }
        if each.body is not None:
            described["requestBody"] = {"required": True, "content": {"application/json": {"schema": each.body}}}
        paths.setdefault(each.path, {})[each.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __about__.__version__, "description": "The queue as JSON."},
        "servers": [{"url": "."}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            }
        },
        "security": [{}, {"basic": []}, {"bearer": []}],
    }


# A request against its own description


MEANT: Final = {
    "job_type": "type", "name": "type", "task": "type", "args": "data", "arguments": "data", "payload": "data", "attempts": "max_attempts",
    "eta": "run_at", "at": "run_at", "scheduled_at": "run_at", "countdown": "delay", "reason": "because", "because": "reason",
}  # fmt: skip
"""What names of other interfaces mean here, where there is such a field."""
_MOST_NAME: Final = 60
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


def check_query(operation: Operation, given: Sequence[tuple[str, str]]) -> None:
    """Refuses parameters that the operation does not have, and values that are none of theirs. Raises InvalidOption."""
    schemas = {each["name"]: each["schema"] for each in operation.parameters if each["in"] == "query"}
    refuse_unknown([name for name, _ in given], schemas, f"{operation.method} {operation.path}")
    for name, value in given:
        values = schemas[name].get("items", schemas[name]).get("enum")
        if value and values is not None and value not in values:
            raise InvalidOption(f"{name} is {options.shown(value)}: it is one of {', '.join(values)}")


def check_body(operation: Operation, given: Mapping[str, Any]) -> None:
    """Refuses fields that the operation does not have, values of another type, and a body that lacks a field. Raises InvalidOption."""
    assert operation.body is not None
    schemas = operation.body["properties"]
    refuse_unknown(given, schemas, f"{operation.method} {operation.path}")
    for name in operation.body.get("required", ()):
        if name not in given:
            raise InvalidOption(f"{name} is missing: the body is a JSON object with it")
    for name, value in given.items():
        kinds = schemas[name].get("type")
        if kinds is not None and not _is_one_of(value, [kinds] if isinstance(kinds, str) else kinds):
            expected = kinds if isinstance(kinds, str) else " or ".join(kinds)
            raise InvalidOption(f"{name} is {options.shown(value)}: it must be JSON of the type {expected}")


def refuse_unknown(given: Iterable[str], known: Collection[str], whose: str) -> None:
    meant = {name: field for name, field in MEANT.items() if field in known}
    if problem := options.unknown([name[:_MOST_NAME] for name in given], known, whose, meant):
        raise InvalidOption(problem)


def _is_one_of(value: Any, kinds: Sequence[str]) -> bool:
    # In Python True is a number, in JSON it is none.
    return not isinstance(value, bool) and any(isinstance(value, _KINDS[kind]) for kind in kinds)


_REFUSALS: Final = {
    "400": "A value is not valid",
    "403": "Not permitted",
    "404": "Not found",
    "409": "The state does not allow it",
    "413": "Too long",
    "415": "Not JSON",
    "429": "Too many wrong passwords at once",
    "503": "The database cannot be reached, or took too long",
}
