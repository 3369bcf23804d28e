"""How much memory a process has."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_PROC = Path("/proc/self/statm").exists()


def resident_bytes(pid: int) -> int | None:
    """What of it is in memory now; None if there is no such process."""
    try:
        if _PROC:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return int(subprocess.check_output(["ps", "-o", "rss=", "-p", str(pid)], text=True)) * 1024
    except (OSError, ValueError, IndexError, subprocess.CalledProcessError):
        return None
