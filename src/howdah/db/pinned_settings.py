"""The settings that our own connections pin, over those of the server, the database and the login.

They are sent when a connection is opened, and cost no round trip. A pooler refuses them, or would leave them to the next
client: behind one, nothing is pinned. So the safety of a statement never depends on them: names of functions, operators
and types are qualified, and results come in binary, which has no styles. Pinned is what a statement cannot set itself.

Settings that an operator may have set on purpose are not pinned: synchronous_commit, timeouts, and
default_transaction_read_only, by which administrators stop writes when a disk is nearly full, or before a switchover.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

PINNED: Final = {
    # A temporary table or type comes last. Unnamed, it would come first.
    "search_path": "pg_catalog,pg_temp",
    # At a stricter level, the second of two writers of one job would get an error, instead of waiting.
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
_UNLESS_SET: Final = {"TimeZone": "UTC"}
_ESCAPED: Final = r"\ "


def startup_options(given: Mapping[str, Any]) -> dict[str, str]:
    """The parameter ``options`` of a connection: the pinned ones after the user's own, because the last one of a name wins."""
    if "service" in given or "PGSERVICE" in os.environ:
        # A service file may have options, too, which these would hide.
        return {}
    own = given.get("options") or os.environ.get("PGOPTIONS", "")
    return {"options": " ".join(filter(None, (_switches(_UNLESS_SET), own, _switches(PINNED))))}


def _switches(settings: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value.replace(' ', _ESCAPED)}" for name, value in settings.items())
