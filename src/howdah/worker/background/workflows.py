"""What commits have left to do for workflows, and the jobs of maps: every worker does it for all.

A commit counts the jobs that it ends, and makes due what waited for them. Only large amounts are left, and maps: a worker reads the
items of a map, because the database may be unable to (a codec), and adds its jobs in batches.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any, Final

from howdah.checks.context import Context
from howdah.checks.values import stored_json
from howdah.db.adapters import JsonTexts
from howdah.db.plan import Plan, Row, call
from howdah.errors import InvalidInput
from howdah.model.codec import Unreadable, decoded
from howdah.worker.connection import WorkerConnection
from howdah.worker.inputs import MOST_BYTES, Wrong, part_of
from howdah.worker.run.dispatcher import Dispatcher
from howdah.worker.service import Service, happens

log = logging.getLogger("howdah.worker")

AT_ONCE: Final = 1_000
DRAIN_PAUSE: Final = 0.02


class Workflows(Service):
    """Advances workflows when a commit notifies that it has left something, and every so often."""

    def __init__(
        self, context: Context, connection: WorkerConnection, dispatcher: Dispatcher, *, interval: float, drain: bool
    ) -> None:
        super().__init__("workflows", self._advance)
        self._context = context
        self._connection = connection
        self._dispatcher = dispatcher
        self._interval = interval
        self._drain = drain
        self._look = asyncio.Event()
        dispatcher.on_advance = self._look.set

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        self._look.set()

    async def _advance(self) -> None:
        if self._drain:
            await self.pause(DRAIN_PAUSE)
        else:
            await happens(self._look, self._interval * random.uniform(0.8, 1.2))
        self._look.clear()
        while not self.stopping.is_set():
            activity = self._dispatcher.activity
            row = await self._connection.run(advance())
            expanded = await self._connection.run(expand_maps(self._context)) if row["maps"] else 0
            if row["done"] or expanded:
                self._dispatcher.advanced()
            elif row["more"]:
                # Another worker does it, or a transaction has locked it.
                await self.pause(0.05)
                if not self._drain:
                    return
            else:
                self._dispatcher.advanced_at = activity
                self._dispatcher.check_drained()
                return


def advance() -> Plan[Row]:
    (row,) = yield from call("advance_workflows", limit=AT_ONCE)
    return row


def expand_maps(context: Context) -> Plan[int]:
    """Adds jobs to the maps that wait for theirs. Returns how many maps."""
    rows = yield from call("maps_to_expand")
    for row in rows:
        try:
            items = _items(context, row)
            template = decoded(row["template"], context.codec)
            if isinstance(template, Unreadable):
                raise Wrong(f"its arguments cannot be read: {template.reason}")
            if not isinstance(template, dict | None):
                raise Wrong(f"its arguments are no object, but a {type(template).__name__}")
            yield from _expand(context, row, items, template or {})
        except (Wrong, InvalidInput) as wrong:
            log.error(
                "the map %s of workflow %s fails: %s",
                row["name"],
                row["workflow_id"],
                wrong,
                extra={"event": "map_failed"},
            )
            yield from call("fail_map", workflow_id=row["workflow_id"], node=row["node"], error=str(wrong))
    return len(rows)


def _items(context: Context, row: Row) -> list[Any]:
    if row["lost"]:
        raise Wrong("the result that has its items is no longer there: deleted, or pruned")
    if row["bytes"] > MOST_BYTES:
        raise Wrong(f"the results that are its items have {row['bytes']:,} bytes; {MOST_BYTES:,} are allowed")
    results = [decoded(result, context.codec) for result in row["results"]]
    unreadable = next((each for each in results if isinstance(each, Unreadable)), None)
    if unreadable is not None:
        raise Wrong(f"the result that has its items cannot be read: {unreadable.reason}")
    value = part_of(
        results[0] if row["source_kind"] == "job" else results, row["path"], "the result that has its items"
    )
    if not isinstance(value, list):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise Wrong(f"a map needs a list, and the result is {kind}")
    return value


def _expand(context: Context, row: Row, items: list[Any], template: dict[str, Any]) -> Plan[None]:
    known, place = context.known.get(row["job_type"]), row["expanded"]
    while True:
        data = [{**template, row["parameter"]: item} for item in items[place : place + AT_ONCE]]
        keys = None if known is None or known.flow_key is None else [known.flow_key(each) for each in data]
        (answer,) = yield from call(
            "expand_map",
            workflow_id=row["workflow_id"],
            node=row["node"],
            **{"from": place},
            data=JsonTexts([stored_json(context, each, f"item {place + n}") for n, each in enumerate(data)]),
            last=place + len(data) >= len(items),
            flow_keys=keys,
        )
        # Where another worker has come to, if that was faster.
        place = answer["expand_map"]
        if place is None or place >= len(items):
            return
