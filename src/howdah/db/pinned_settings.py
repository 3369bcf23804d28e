"""The settings that our own connections pin, whatever the server, the database or the login says.

They travel with the start of a connection, and cost no round trip. A pooler refuses them, or would leave them to the next client:
behind one, nothing is pinned. So no statement of ours depends on them for its safety: names of functions, operators
and types are qualified, and results come in binary, which knows no styles. What is pinned protects what a statement cannot say itself.

Not pinned is what an operator may have chosen on purpose: synchronous_commit, timeouts, and default_transaction_read_only, by which
administrators and providers stop writes when a disk is nearly full, or before a switch to another server.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

PINNED: Final = {
    # A temporary table or type comes last. Unnamed, it would come first.
    "search_path": "pg_catalog,pg_temp",
    # At any other level, two writers of one job would be an error, and not one after the other.
    "default_transaction_isolation": "read committed",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "array_nulls": "on",
    "quote_all_identifiers": "off",
    "extra_float_digits": "1",
    "plan_cache_mode": "auto",
    "row_security": "on",
}
_UNLESS_CHOSEN: Final = {"TimeZone": "UTC"}
_ESCAPED: Final = r"\ "


def startup_options(given: Mapping[str, Any]) -> dict[str, str]:
    """The parameter ``options`` of a connection: ours behind the user's own, because the last one of a name wins."""
    if "service" in given or "PGSERVICE" in os.environ:
        # A service file may have options too, and those given here would hide them.
        return {}
    theirs = given.get("options") or os.environ.get("PGOPTIONS", "")
    return {"options": " ".join(filter(None, (_switches(_UNLESS_CHOSEN), theirs, _switches(PINNED))))}


def _switches(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value.replace(' ', _ESCAPED)}" for name, value in settings.items())
