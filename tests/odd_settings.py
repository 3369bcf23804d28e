"""Settings of a login or a database that change what statements and values mean."""

from __future__ import annotations

from typing import Final

ODD: Final = {
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "sql_standard",
    "bytea_output": "escape",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "extra_float_digits": "-15",
    "TimeZone": "<odd>-05:45",
    "default_transaction_isolation": "serializable",
    "search_path": "nowhere",
    "plan_cache_mode": "force_generic_plan",
    "row_security": "off",
    "transform_null_equals": "on",
    "xmloption": "document",
    "enable_seqscan": "off",
    "check_function_bodies": "on",
}
READ_ONLY: Final = {"default_transaction_read_only": "on"}
