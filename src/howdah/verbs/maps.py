"""What commits have left to do for workflows, and the jobs of maps.

Whatever claims jobs reads the items of a map, because the database may be unable to (a codec), and adds its jobs in batches.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import psycopg

from howdah.checks.context import Context
from howdah.checks.values import stored_json
from howdah.db.adapters import JsonTexts
from howdah.db.outage import is_temporary
from howdah.db.plan import Plan, Row, call
from howdah.errors import InvalidInput
from howdah.model.codec import Unreadable, decoded
from howdah.verbs.inputs import MOST_BYTES, Wrong, part_of, read_results

log = logging.getLogger("howdah.worker")

AT_ONCE: Final = 1_000

# Data, constraints, limits, what a trigger raises: another try would fail in the same way, whatever else the server does.
_OF_ITS_JOBS: Final = ("22", "23", "54", "P0")


def advance_all(context: Context) -> Plan[bool]:
    """Does all of it, about so many jobs of it. Whether there was anything to do."""
    row = yield from advance()
    expanded = (yield from expand_maps(context)) if row["maps"] else 0
    return bool(row["done"] or expanded)


def advance() -> Plan[Row]:
    """Does what commits have left. Returns how much, and whether there are maps to expand."""
    (row,) = yield from call("advance_workflows", limit=AT_ONCE)
    return row


def expand_maps(context: Context) -> Plan[int]:
    """Adds jobs to the maps that wait for theirs. Returns how many maps there were that no other transaction has locked."""
    rows = yield from call("maps_to_expand")
    done = 0
    failure: psycopg.Error | None = None
    for row in rows:
        try:
            done += yield from _expand(context, row)
        except (Wrong, InvalidInput) as wrong:
            done += yield from _fail(row, str(wrong))
        except psycopg.errors.LockNotAvailable:
            # It is looked at again. The others do not wait for it.
            continue
        except psycopg.Error as error:
            if is_temporary(error):
                raise
            if not (error.sqlstate or "").startswith(_OF_ITS_JOBS):
                # It may be about the session, or the server: the map has not failed, but it holds up no other.
                failure = failure or error
                continue
            # Without its detail, which may have contents of the items.
            reason = error.diag.message_primary or type(error).__name__
            done += yield from _fail(row, f"its jobs cannot be added: {reason}")
    if failure is not None:
        raise failure
    return done


def _fail(row: Row, reason: str) -> Plan[bool]:
    named = (row["name"], row["workflow_id"])
    log.error("the map %s of workflow %s fails: %s", *named, reason, extra={"event": "map_failed"})
    (answer,) = yield from call("fail_map", workflow_id=row["workflow_id"], node=row["node"], error=reason)
    return bool(answer["fail_map"])


def _items(context: Context, row: Row) -> list[Any]:
    if row["lost"]:
        raise Wrong("the result that has its items is no longer there: deleted, or pruned")
    if row["bytes"] > MOST_BYTES:
        raise Wrong(f"the results that are its items have {row['bytes']:,} bytes; {MOST_BYTES:,} are allowed")
    results = read_results(context, row["results"], "the result that has its items")
    value = part_of(
        results[0] if row["source_kind"] == "job" else results, row["path"], "the result that has its items"
    )
    if not isinstance(value, list):
        kind = "None" if value is None else f"a {type(value).__name__}"
        raise Wrong(f"a map needs a list, and the result is {kind}")
    return value


def _template(context: Context, row: Row) -> dict[str, Any]:
    template = decoded(row["template"], context.codec)
    if isinstance(template, Unreadable):
        raise Wrong(f"its arguments cannot be read: {template.reason}")
    if not isinstance(template, dict | None):
        raise Wrong(f"its arguments are no object, but a {type(template).__name__}")
    return template or {}


def _expand(context: Context, row: Row) -> Plan[bool]:
    items, template = _items(context, row), _template(context, row)
    known, place = context.known.get(row["job_type"]), row["expanded"]
    while True:
        data = [{**template, row["parameter"]: item} for item in items[place : place + AT_ONCE]]
        keys = None if known is None or known.flow_key is None else _keys(known.flow_key, data, place)
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
        if place is None or place < 0 or place >= len(items):
            return place is None or place >= 0


def _keys(flow_key: Callable[[Any], str], data: list[Any], place: int) -> list[str]:
    """The flow keys of items. The function is the user's: its error is one of this map, and not of whatever claims jobs."""
    keys: list[str] = []
    for each in data:
        try:
            keys.append(flow_key(each))
        except InvalidInput:
            raise
        except Exception as error:
            # Without its text, which may have contents of the item.
            raise Wrong(f"per= of its handler raised {type(error).__name__} for item {place + len(keys)}") from error
    return keys
