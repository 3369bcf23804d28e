"""What the demo has to do: three kinds of work, one for each priority, and who of them will stumble."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Final

from howdah.priority import Priority


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """One kind of work."""

    priority: Priority
    name: str
    subject: str
    stages: tuple[str, ...]
    share: float
    trouble: str

    def job_type(self, run: str) -> str:
        """The type under which this run enqueues it: no run ever meets the jobs of another."""
        return f"{self.name}:{run}"


KINDS: Final = (
    Kind(
        Priority.EXPLICIT,
        "send_invoice",
        "invoice",
        ("render", "sign", "mail"),
        share=0.15,
        trouble="the mail server did not answer",
    ),
    Kind(
        Priority.DISCOVERED,
        "resize_photo",
        "photo",
        ("download", "decode", "resize", "upload"),
        share=0.35,
        trouble="the photo ends in the middle",
    ),
    Kind(
        Priority.BACKFILL,
        "reindex_page",
        "page",
        ("fetch", "parse", "index"),
        share=0.5,
        trouble="the index is busy",
    ),
)

FAILS_ONCE: Final = "once"
FAILS_ALWAYS: Final = "always"
_SHARE_THAT_FAILS_ONCE: Final = 0.04


def share_out(jobs: int) -> dict[Kind, int]:
    """How many jobs of each kind: at least one, and together as many as asked for."""
    explicit, discovered, backfill = KINDS
    first = max(1, round(jobs * explicit.share))
    second = max(1, round(jobs * discovered.share))
    return {explicit: first, discovered: second, backfill: jobs - first - second}


def data_for(kind: Kind, count: int, chance: random.Random) -> list[dict[str, Any]]:
    """The data of the jobs of a kind. Some will fail once; one photo cannot be helped."""
    items: list[dict[str, Any]] = [{kind.subject: number} for number in range(1, count + 1)]
    for item in chance.sample(items, max(1, round(count * _SHARE_THAT_FAILS_ONCE))):
        item["fails"] = FAILS_ONCE
    if kind.priority is Priority.DISCOVERED:
        chance.choice(items)["fails"] = FAILS_ALWAYS
    return items
