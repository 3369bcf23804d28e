"""Earlier versions of this project, out of the history of its repository."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FIRST_FILE: Final = "src/howdah/sql/tables/0001_jobs.sql"
"""It came with schema version 1, with which the history of the schema begins. Name another when a schema version is released."""


class HistoryMissing(Exception):
    """This is no clone of the repository, or a shallow one."""


def former() -> str:
    """The commit of the former version. Found by what it added, because a commit's name changes where it is made anew."""
    if _git("rev-parse", "--is-shallow-repository").strip() == b"true":
        # All that is in its oldest commit looks as if that had added it.
        raise HistoryMissing(
            "this is a shallow clone, and an earlier version comes out of its history: git fetch --unshallow"
        )
    return _git("log", "--diff-filter=A", "--format=%H", "--", FIRST_FILE).decode().split()[-1]


def extract(commit: str, folder: Path, *paths: str) -> Path:
    """Puts what was there at a commit into a folder."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, *paths))) as packed:
        # As extractall(filter="data"), which the early releases of Python 3.11 do not know.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    return folder


def _git(*arguments: str) -> bytes:
    try:
        made = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True)
    except FileNotFoundError as error:
        raise HistoryMissing("git is not installed here, and an earlier version comes out of it") from error
    if made.returncode or not made.stdout:
        raise HistoryMissing(
            f"the history of this repository is not here: {made.stderr.decode().strip()} (git fetch --unshallow)"
        )
    return made.stdout
