"""Names of job types with a ``*`` for any characters: ``mail.*``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from howdah.errors import InvalidOption


def has_wildcard(names: Sequence[str]) -> bool:
    return any("*" in name for name in names)


def matching(names: Sequence[str], known: Iterable[str]) -> list[str]:
    """The names, and instead of each with a wildcard the known types that it matches. Raises InvalidOption if it matches none.

    A known type may have a star in its own name: then it is that type.
    """
    all_known = sorted(known)
    found: dict[str, None] = {}
    for name in names:
        if "*" not in name or name in all_known:
            found[name] = None
            continue
        pattern = re.compile(".*".join(map(re.escape, name.split("*"))), re.DOTALL)
        matches = [each for each in all_known if pattern.fullmatch(each)]
        if not matches:
            there_are = f"there are {', '.join(all_known)}" if all_known else "none is known"
            raise InvalidOption(f"no job type matches {name!r}: {there_are}")
        found.update(dict.fromkeys(matches))
    return list(found)
