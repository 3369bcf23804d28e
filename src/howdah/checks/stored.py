"""Values as the database stores them: checked, cleaned, and through the queue's codec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from howdah.checks.context import Context
from howdah.checks.payload import clean_text, to_jsonb
from howdah.errors import InvalidOption
from howdah.model.codec import PLAIN, encode_text

MAX_ERROR_LENGTH: Final = 100_000
MAX_META_BYTES: Final = 64 * 1024


def stored_data(context: Context, job_type: str, data: Any, name: str = "data") -> Any:
    """What a job of this type is to be called with; checked by its handler, where that is known here."""
    if known := context.known.get(job_type):
        known.check(data)
    return stored_json(context, data, name)


def stored_json(context: Context, value: Any, name: str = "data") -> Any:
    value = {} if value is None else value
    return to_jsonb(value, codec=context.codec, max_bytes=context.max_payload_bytes, name=name)


def stored_result(context: Context, result: Any) -> Any:
    return stored_json(context, result, "result")


def stored_text(context: Context, text: str | None) -> str | None:
    return None if text is None else encode_text(context.codec, clean_text(text)[:MAX_ERROR_LENGTH])


def stored_mapping(value: Mapping[str, Any], name: str) -> Any:
    if not isinstance(value, Mapping):
        raise InvalidOption(f"{name} is a dict, not a {type(value).__name__}")
    return to_jsonb(dict(value), codec=PLAIN, max_bytes=MAX_META_BYTES, name=name)
