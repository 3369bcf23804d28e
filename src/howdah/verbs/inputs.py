"""Arguments that are results of other jobs of a workflow: they are read after a job was claimed."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from howdah.checks.context import Context
from howdah.db.adapters import Ids
from howdah.db.plan import Plan, Row, call
from howdah.model.codec import Unreadable, decoded
from howdah.model.job import Job
from howdah.model.workflow import Results
from howdah.verbs.workflows import results_page

MOST_BYTES: Final = 16 << 20
"""Of results that are a list. As many are kept for each node of the claimed jobs."""


class Runs(Protocol):
    """The database, for results that are read a page at a time."""

    def run(self, plan: Plan[Any], conn: Any = None, /) -> Any: ...

    async def arun(self, plan: Plan[Any], conn: Any = None, /) -> Any: ...


class Wrong(Exception):
    """Why a job cannot get an argument."""


def with_inputs(
    context: Context,
    database: Runs | None,
    lazy: Sequence[tuple[str, str]],
    jobs: Sequence[Job],
    waiting: Sequence[Job],
) -> Plan[list[Job]]:
    """The jobs, with the arguments of those that wait for some. lazy: types and their parameters that are read a page at a time,
    from the database.

    A job whose arguments cannot be had gets data that is Unreadable: it fails.
    """
    rows = yield from call(
        "node_inputs",
        ids=Ids(job.id for job in waiting),
        lazy_types=[job_type for job_type, _ in lazy] or None,
        lazy_parameters=[parameter for _, parameter in lazy] or None,
    )
    by_node: dict[tuple[uuid.UUID | None, int | None], list[Row]] = {}
    for row in rows:
        by_node.setdefault((row["workflow_id"], row["node"]), []).append(row)
    lazy_names = set(lazy)
    filled = {}
    arguments: dict[tuple[Any, Any], Any] = {}
    for job in waiting:
        node = job.workflow_id, job.node
        if node not in arguments:
            arguments[node] = _arguments(context, database, by_node.get(node, []), lazy_names)
        filled[id(job)] = _filled(job, arguments[node])
    return [filled.get(id(job), job) for job in jobs]


def _filled(job: Job, found: tuple[Mapping[str, Any], Mapping[str, Any]] | str) -> Job:
    if isinstance(found, str):
        return dataclasses.replace(job, data=Unreadable(found))
    if isinstance(job.data, Unreadable):
        return dataclasses.replace(job)
    values, results = found
    return dataclasses.replace(
        job, data={**(job.data or {}), **values, **{name: [] for name in results}}, _results=results or None
    )


def _arguments(
    context: Context, database: Runs | None, rows: Sequence[Row], lazy: set[tuple[str, str]]
) -> tuple[dict[str, Any], dict[str, Any]] | str:
    """The arguments of a node's jobs, and those that are read a page at a time; or why they cannot be had."""
    if not rows:
        return "its arguments cannot be read: its workflow is no longer there, or its node is damaged"
    sources = {row["source"]: row for row in rows}
    values: dict[str, Any] = {}
    results: dict[str, Results[Any]] = {}
    try:
        for each in rows[0]["inputs"]:
            name, wanted = each["parameter"], each["sources"]
            if database is not None and (rows[0]["job_type"], name) in lazy:
                results[name] = _pages(context, database, sources[wanted[0]["node"]])
            elif each["list"]:
                values[name] = [_value(context, sources[one["node"]], one["path"], name) for one in wanted]
            else:
                values[name] = _value(context, sources[wanted[0]["node"]], wanted[0]["path"], name)
    except Wrong as wrong:
        return str(wrong)
    return values, results


def _value(context: Context, source: Row, path: Sequence[str | int], name: str) -> Any:
    if source["lost"]:
        raise Wrong(
            f"argument {name!r}: {source['lost']} of the results of {source['source_name']} are no longer there: deleted, or pruned"
        )
    if source["bytes"] > MOST_BYTES:
        raise Wrong(
            f"argument {name!r}: the results of {source['source_name']} have {source['bytes']:,} bytes; a list may have {MOST_BYTES:,}."
            " Annotate the parameter howdah.Results[…], which reads them a page at a time"
        )
    items = read_results(context, source["results"], f"argument {name!r}: a result of {source['source_name']}")
    if source["kind"] == "job":
        ended_well = source["outcome"] == "completed"
        return (
            part_of(items[0], path, f"argument {name!r}: the result of {source['source_name']}") if ended_well else None
        )
    return part_of(items, path, f"argument {name!r}: the results of {source['source_name']}")


def read_results(context: Context, results: Sequence[Any], what: str) -> list[Any]:
    items = [decoded(result, context.codec) for result in results]
    unreadable = next((item for item in items if isinstance(item, Unreadable)), None)
    if unreadable is not None:
        raise Wrong(f"{what} cannot be read: {unreadable.reason}")
    return items


def part_of(value: Any, path: Sequence[str | int], what: str) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            raise Wrong(f"{what} have no {part!r}" if what.endswith("s") else f"{what} has no {part!r}") from None
    return value


def _pages(context: Context, database: Runs, source: Row) -> Results[Any]:
    page = functools.partial(results_page, context, source["workflow_id"], source["source"])

    async def afetch(place: int) -> Sequence[Any]:
        found: Sequence[Any] = await database.arun(page(place))
        return found

    return Results(source["jobs"], lambda place: database.run(page(place)), afetch)
