"""A result: what was measured, on which machine, with which versions, as JSON; and the progress of getting there."""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.server import Server

_BEGAN = time.monotonic()


def say(words: str) -> None:
    print(f"{time.monotonic() - _BEGAN:7.1f} s  {words}", file=sys.stderr, flush=True)


def parser(documentation: str | None) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--quick", action="store_true", help="a smoke run: much less of everything")
    made.add_argument("--dsn", help="a server to use instead of one of our own; databases are made and dropped there")
    made.add_argument("--out", type=Path, metavar="FILE.json", help="where the result goes")
    return made


def machine(server: Server) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "postgresql": server.version,
        "howdah": _version("howdah"),
        "psycopg": _version("psycopg"),
        "uvloop": _version("uvloop"),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
    }


def write(path: Path | None, result: dict[str, Any]) -> None:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(result, indent=1) + "\n")
        say(f"written to {path}")


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns, the first one flush left."""
    lines = [heads, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
