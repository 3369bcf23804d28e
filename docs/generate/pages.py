"""The generated pages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from docs.generate import command, errors, python, sql

ROOT: Final = Path(__file__).parents[1] / "reference"
PAGES: Final[dict[str, Callable[[], str]]] = {
    "python.md": python.page,
    "errors.md": errors.page,
    "options.md": command.page,
    "functions.md": sql.page,
}
