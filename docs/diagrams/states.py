"""The six statuses, and what moves a job from one to another: by the table that the tests move jobs by."""

from __future__ import annotations

import itertools
from typing import Final

from docs.diagrams.drawing import Drawing, Place
from tests.model.table import TABLE, Life, Limits

_WORDS: Final = {
    "claim": "claim",
    "claim_and_start": "claim and start",
    "start": "start",
    "complete": "complete",
    "fail": "fail",
    "give_up": "fail for good",
    "abandon": "abandon",
    "snooze": "snooze",
    "release": "release",
    "interrupt": "interrupt",
    "crash": "crash",
    "worker_died": "worker died",
    "lease_passed": "lease passed",
    "timed_out": "timed out",
    "cancel_overdue": "cancel",
    "expire": "expire",
    "use_up": "no attempts left",
    "cancel": "cancel",
    "retry": "retry",
}
_AT: Final[dict[str, Place]] = {
    "pending": (150, 190),
    "claimed": (450, 190),
    "running": (750, 190),
    "cancelled": (150, 420),
    "failed": (450, 420),
    "completed": (750, 420),
}
_MEANS: Final = {
    "pending": "waits, or is for later",
    "claimed": "handed out, not begun",
    "running": "begun",
    "cancelled": "nobody wants it",
    "failed": "for good",
    "completed": "has a result",
}
_SIZE: Final = (170, 52)


def moves() -> dict[tuple[str, str], list[str]]:
    """From and to, and the words for what does it. Plain SQL statements do nothing that others do not."""
    found: dict[tuple[str, str], list[str]] = {}
    limits = Limits(max_attempts=2, max_crashes=2, max_interruptions=1)
    for (verb, status), rule in TABLE.items():
        for attempts, crashes, interruptions, asked in itertools.product((0, 1, 2), (0, 1), (0, 1), (False, True)):
            life = Life(status, attempts, 1, crashes, interruptions, asked and status == "running")
            after = rule(life, limits)
            if after and after.status != status and verb in _WORDS:
                words = found.setdefault((status, after.status), [])
                if _WORDS[verb] not in words:
                    words.append(_WORDS[verb])
    return found


def draw() -> str:
    drawing = Drawing(900, 500, "The statuses of a job, and what moves it from one to another")
    known = moves()

    def arrow(source: str, target: str, start: Place, end: Place, *lines: str, **how: float) -> None:
        known.pop((source, target))
        drawing.arrow(start, end, *lines, **how)  # type: ignore[arg-type]

    drawing.arrow((10, 182), (63, 182))
    drawing.text((34, 172), "enqueue", "faint")
    arrow("pending", "claimed", (236, 182), (363, 182), "claim")
    arrow("claimed", "running", (536, 182), (663, 182), "start")
    arrow("pending", "running", (225, 217), (675, 217), "claim and start", bend=-28, at=0.25)
    arrow("claimed", "pending", (430, 163), (200, 163), "release, fail, lease passed,", "worker died", bend=-40)
    arrow(
        "running",
        "pending",
        (730, 163),
        (130, 163),
        "fail, crash, snooze, interrupt, timed out, lease passed, worker died",
        bend=-112,
    )
    arrow("pending", "cancelled", (120, 217), (120, 393), "cancel,", "expire", at=0.62)
    arrow("pending", "failed", (180, 217), (385, 393), "no attempts left", at=0.72)
    arrow("claimed", "cancelled", (400, 217), (215, 393))
    arrow("claimed", "failed", (440, 217), (440, 393))
    arrow("claimed", "completed", (500, 217), (695, 393))
    arrow("running", "cancelled", (690, 217), (236, 402))
    arrow("running", "failed", (720, 217), (500, 393))
    arrow("running", "completed", (770, 217), (770, 393), "complete", at=0.62)
    for ended in ("cancelled", "failed", "completed"):
        known.pop((ended, "pending"))
    assert not known, f"the drawing leaves out {known}"
    drawing.parts.append('<path class="arrow" d="M450 447Q450 478 400 478L70 478Q24 478 24 430L24 250Q24 205 56 203"/>')
    drawing.parts.append(
        '<path class="arrow" d="M150 447L150 478"/><path class="arrow" d="M750 447Q750 478 700 478L400 478"/>'
    )
    drawing.parts.append('<path class="tip" transform="translate(63 202) rotate(-4)" d="M0 0L-9 -4L-9 4Z"/>')
    drawing.text((300, 472), "retry", "faint halo")
    for status, at in _AT.items():
        kind = "end" if at[1] > 300 else "box"
        drawing.box(at, _SIZE, status, _MEANS[status], kind=kind)
    return drawing.svg()
