"""The six statuses, and the transitions between them, from the table that the tests use."""

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
    "give_up": "give up",
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
    "pending": (139, 300),
    "claimed": (385, 300),
    "running": (650, 300),
    "completed": (875, 300),
    "cancelled": (385, 46),
    "failed": (385, 550),
}
_MEANS: Final = {
    "pending": "due now or later",
    "claimed": "held, not started",
    "running": "its handler runs",
    "cancelled": "no longer wanted",
    "failed": "no more attempts",
    "completed": "has a result",
}
_SIZE: Final = (150, 52)


def moves() -> dict[tuple[str, str], list[str]]:
    """Each pair of statuses, and the words for its transitions. Plain SQL statements make no other transitions."""
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
    drawing = Drawing(960, 616, "The statuses of a job, and what moves it from one to another")
    known = moves()

    def arrow(source: str, target: str, start: Place, end: Place, *, bend: float = 0) -> None:
        known.pop((source, target))
        drawing.arrow(start, end, bend=bend)

    def words(at: Place, *lines: str, kind: str = "left") -> None:
        drawing.lines(at, lines, f"faint halo {kind}")

    drawing.arrow((4, 300), (62, 300))
    words((32, 290), "enqueue", kind="")
    arrow("pending", "claimed", (216, 288), (308, 288))
    words((262, 280), "claim", kind="")
    arrow("claimed", "running", (462, 300), (573, 300))
    words((517, 292), "start", kind="")
    arrow("running", "completed", (727, 300), (798, 300))
    words((762, 292), "complete", kind="")
    arrow("pending", "running", (175, 272), (615, 272), bend=52)
    words((205, 226), "claim and start")
    arrow("claimed", "completed", (435, 272), (850, 272), bend=68)
    words((750, 205), "complete")

    # Back to pending, between the row and the arrows that leave it downwards.
    arrow("claimed", "pending", (308, 312), (216, 312))
    words((262, 330), "release, fail,", "interrupt,", "lease passed,", "worker died", kind="")
    arrow("running", "pending", (622, 328), (150, 328), bend=118)
    words((484, 347), "fail, crash, snooze,", "interrupt, timed out,", "lease passed,", "worker died", kind="")

    arrow("pending", "cancelled", (139, 272), (308, 62))
    words((168, 150), "cancel,", "expire")
    arrow("claimed", "cancelled", (385, 272), (385, 75))
    words((393, 130), "cancel,", "abandon")
    arrow("running", "cancelled", (675, 272), (462, 60))
    words((590, 140), "cancel, and any end of an attempt", "after a cancel request")

    arrow("pending", "failed", (112, 328), (308, 530))
    words((176, 430), "no attempts", "left", kind="right")
    arrow("claimed", "failed", (385, 328), (385, 522))
    words((393, 470), "give up,", "no attempts left")
    arrow("running", "failed", (675, 328), (462, 536))
    words((590, 440), "give up,", "no attempts left")

    for ended in ("cancelled", "failed", "completed"):
        known.pop((ended, "pending"))
    assert not known, f"the drawing leaves out {known}"
    drawing.path("M310 34L115 34Q90 34 90 59L90 272", tip=(90, 272), angle=90)
    drawing.path("M310 564L115 564Q90 564 90 539L90 328", tip=(90, 328), angle=-90)
    drawing.path("M875 328L875 575Q875 600 850 600L115 600Q90 600 90 575L90 530")
    words((200, 26), "retry", kind="")
    words((200, 556), "retry", kind="")
    words((640, 592), "retry", kind="")
    for status, at in _AT.items():
        kind = "end" if status in ("completed", "failed", "cancelled") else "box"
        drawing.box(at, _SIZE, status, _MEANS[status], kind=kind)
    return drawing.svg()
