"""A real ``howdah work``, with every byte of its output."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.runner import Outcome, command

ROOT = Path(__file__).parents[2]


def without_own_words(said: Outcome) -> str:
    """All output, but for what handlers of ``tests.security.canary`` log themselves."""
    return "\n".join(line for line in (said.out + said.err).splitlines() if "kept with the job" not in line)


def work(target: str, dsn: str, *options: str, **environment: str) -> Outcome:
    """Runs a worker until it ends by itself."""
    done = subprocess.run(
        command("work", target, "--poll", "0.1s", *options),
        env=os.environ | {"HOWDAH_DSN": dsn, "PYTHONPATH": str(ROOT)} | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
