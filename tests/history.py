"""Earlier versions of this project, out of the history of its repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FORMER: Final = "f986ddc"
"""The first commit of schema version 1, with which the history of the schema begins. Set it anew when a schema version is released."""


class HistoryMissing(Exception):
    """This is no clone of the repository, or a shallow one."""


def extract(commit: str, folder: Path, *paths: str) -> Path:
    """Puts what was there at a commit into a folder."""
    try:
        made = subprocess.run(["git", "archive", commit, *paths], cwd=ROOT, capture_output=True)
    except FileNotFoundError as error:
        raise HistoryMissing("git is not installed here, and an earlier version comes out of it") from error
    if made.returncode:
        raise HistoryMissing(f"the history of this repository is not here: {made.stderr.decode().strip()}")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as packed:
        packed.extractall(folder, filter="data")
    return folder
