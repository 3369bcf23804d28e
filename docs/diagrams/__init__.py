"""The drawings of the docs: ``python -m docs.diagrams`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from docs.diagrams import architecture, recovery, states

DRAWINGS: Final[dict[str, Callable[[], str]]] = {
    "states": states.draw,
    "recovery": recovery.draw,
    "architecture": architecture.draw,
}
