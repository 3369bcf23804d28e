"""What is to be watched, as the command line says it."""

from __future__ import annotations

import argparse
import dataclasses
import re
import uuid
from collections.abc import Iterable
from typing import Final

from howdah.checks import options
from howdah.errors import InvalidInput
from howdah.watch.watch import KINDS, UpdateKind

_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs, and what of them.

    types: None if none are watched; empty if all of them are.
    """

    ids: tuple[uuid.UUID, ...]
    types: tuple[str, ...] | None
    kinds: frozenset[UpdateKind] = frozenset(KINDS)
    after: str | None = None
    until_done: bool = False


def wanted(
    names: Iterable[str], kinds: frozenset[UpdateKind] = frozenset(KINDS), after: str | None = None, *, until_done: bool
) -> Wanted:
    """Ids and types, told from each other by how they look. Raises InvalidInput."""
    given = list(dict.fromkeys(names))
    ids = tuple(uuid.UUID(name) for name in given if _ID.fullmatch(name))
    types = tuple(options.job_type(name) for name in given if not _ID.fullmatch(name))
    if after is not None and (len(ids) > 1 or (ids and types)):
        raise InvalidInput("--after goes with one job, or with types: of several jobs, each has a position of its own")
    watches_types = bool(types) or not ids
    return Wanted(
        ids=ids,
        types=types if watches_types else None,
        kinds=kinds,
        after=after,
        until_done=until_done and watches_types,
    )


def parse_kinds(text: str) -> frozenset[UpdateKind]:
    """For argparse, which shows the error."""
    named = {part.strip() for part in text.split(",")}
    chosen = frozenset(kind for kind in KINDS if kind in named)
    if len(chosen) < len(named):
        raise argparse.ArgumentTypeError(f"{text!r} is not made of kinds: write some of {','.join(KINDS)}")
    return chosen
