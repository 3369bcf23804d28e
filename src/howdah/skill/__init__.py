"""The skill: a folder that teaches a coding agent to add Howdah to a project, and its installation where agents look.

A copy that was edited is not overwritten. Digests of the installed files are stored beside them to detect edits.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Final, Literal

from howdah import __about__
from howdah.errors import InvalidInput

NAME: Final = "postgres-job-queue"
FILES: Final = ("SKILL.md", "README.md")
_NOTE: Final = ".howdah.json"


@dataclasses.dataclass(frozen=True, slots=True)
class Installation:
    """The result of an installation."""

    folder: Path
    outcome: Literal["installed", "updated", "unchanged"]
    kept: tuple[Path, ...] = ()
    """Files that had been edited, under their new names."""


def text(file: str = FILES[0]) -> str:
    """The content of a file of the skill."""
    return (resources.files("howdah") / "skill" / NAME / file).read_text(encoding="utf-8")


def install(parent: Path, *, force: bool = False) -> Installation:
    """Install or update the skill's folder inside of another one.

    force: also replace files that were edited or are not ours; they are kept under another name.
    """
    folder = parent / NAME
    shipped = {file: text(file) for file in FILES}
    try:
        there = {file: (folder / file).read_text(encoding="utf-8") for file in FILES if (folder / file).exists()}
        if there == shipped:
            return Installation(folder, "unchanged")
        changed = _changed(there, shipped, _noted(folder))
        if changed and not force:
            raise InvalidInput(
                f"{folder} was edited after it was installed ({', '.join(changed)}). Nothing was written."
                " With --force it is replaced, and the edited files are kept beside it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        kept = tuple((folder / file).replace(_free_name(folder / f"{file}.old")) for file in changed)
        for file, content in shipped.items():
            _write(folder / file, content)
        _write(
            folder / _NOTE, json.dumps({"howdah": __about__.__version__, "files": _digests(shipped)}, indent=2) + "\n"
        )
    except OSError as error:
        raise InvalidInput(f"the skill cannot be written to {folder}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{folder} has a file that is not text: {error.reason}. Nothing was written") from error
    return Installation(folder, "updated" if there else "installed", kept)


def _changed(there: Mapping[str, str], shipped: Mapping[str, str], noted: Mapping[str, str]) -> list[str]:
    digests = _digests(there)
    return [file for file, digest in digests.items() if there[file] != shipped[file] and noted.get(file) != digest]


def _noted(folder: Path) -> Mapping[str, str]:
    """The digests of the installed files; empty if they are unknown."""
    try:
        files = json.loads((folder / _NOTE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return files if isinstance(files, dict) else {}


def _digests(contents: Mapping[str, str]) -> dict[str, str]:
    return {file: hashlib.sha256(content.encode()).hexdigest() for file, content in contents.items()}


def _free_name(path: Path) -> Path:
    candidates = (path if n == 0 else path.with_name(f"{path.name}.{n}") for n in range(1_000))
    return next(candidate for candidate in candidates if not candidate.exists())


def _write(path: Path, content: str) -> None:
    """Write a file atomically: an agent may read it at any time."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fresh.write_text(content, encoding="utf-8")
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
