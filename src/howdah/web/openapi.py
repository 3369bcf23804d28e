"""The description of the JSON API, as OpenAPI 3.1."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from starlette.requests import Request

from howdah import __about__

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
    plain = {"content": {"text/plain": {"schema": TEXT}}}
    paths: dict[str, dict[str, Any]] = {}
    for each in operations:
        refusals = {code: {"description": text, **problem} for code, text in _REFUSALS.items()}
        refusals["401"] = {"description": "A login is needed", **plain}
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


_REFUSALS: Final = {
    "400": "A value is not valid",
    "403": "Not permitted",
    "404": "Not found",
    "409": "The state does not allow it",
    "413": "Too long",
    "415": "Not JSON",
    "503": "The database cannot be reached, or took too long",
}
