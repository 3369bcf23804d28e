"""A worker dies, another one recovers its job, and the first one comes back too late."""

from __future__ import annotations

from typing import Final

from docs.diagrams.drawing import Drawing

_COLUMNS: Final = {"worker A": 150, "PostgreSQL": 450, "worker B": 750}
_STEPS: Final = (
    ("worker A", "PostgreSQL", "claim: job 7, token 4"),
    ("worker A", "PostgreSQL", "heartbeat, every 3 s"),
    ("worker A", "", "SIGKILL, power failure, network failure"),
    ("worker B", "PostgreSQL", "sweep, every 5 s"),
    ("PostgreSQL", "", "no heartbeat of A for 15 s: token 5"),
    ("PostgreSQL", "worker B", "job 7 is pending again"),
    ("worker B", "PostgreSQL", "claim: job 7, token 6"),
    ("worker A", "PostgreSQL", "complete: job 7, token 4"),
    ("PostgreSQL", "worker A", "nothing was changed: LeaseLost"),
    ("worker B", "PostgreSQL", "complete: job 7, token 6"),
)
_TOP: Final = 86
_STEP: Final = 40


def draw() -> str:
    bottom = _TOP + _STEP * len(_STEPS)
    drawing = Drawing(900, bottom + 16, "A worker dies, and its job is recovered")
    for name, x in _COLUMNS.items():
        drawing.parts.append(f'<path class="group" d="M{x} 60L{x} {bottom}"/>')
        drawing.box((x, 36), (150, 40), name, kind="end" if name == "PostgreSQL" else "box")
    for n, (source, target, words) in enumerate(_STEPS):
        y = _TOP + n * _STEP + 10
        x = _COLUMNS[source]
        if not target:
            drawing.note((x, y - 4), words)
            continue
        away = 4 if _COLUMNS[target] > x else -4
        drawing.arrow((x + away, y), (_COLUMNS[target] - away, y), words)
    return drawing.svg()
