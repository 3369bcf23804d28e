"""The Python files below a folder, and which of them has changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

_NOT_OURS: Final = frozenset({"node_modules", "__pycache__", "site-packages"})

_Stamp: TypeAlias = tuple[int, int]


class SourceTree:
    """Remembers when each file was written. Hidden folders and virtual environments are left out."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._stamps = self._look()

    def changed(self) -> str | None:
        """A file that was written, added or removed since the last call, by its path below the root."""
        before, self._stamps = self._stamps, self._look()
        different = before.items() ^ self._stamps.items()
        return min((os.path.relpath(path, self._root) for path, _ in different), default=None)

    def _look(self) -> dict[str, _Stamp]:
        return dict(_stamps_below(str(self._root)))


def _stamps_below(folder: str) -> Iterator[tuple[str, _Stamp]]:
    try:
        entries = list(os.scandir(folder))
    except OSError:
        # Gone, or not readable.
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith(".") and entry.name not in _NOT_OURS:
                yield from _stamps_below(entry.path)
        elif entry.name.endswith(".py") and (stamp := _stamp_of(entry)):
            yield entry.path, stamp


def _stamp_of(entry: os.DirEntry[str]) -> _Stamp | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
