"""``howdah psql``: psql with the right database and schema."""

from __future__ import annotations

import os
import subprocess

from tests.cli.runner import command


def test_psql_sees_the_jobs_without_a_prefix_and_gives_its_exit_code(dsn: str) -> None:
    environment = os.environ | {"HOWDAH_DSN": dsn}
    for statement, code, output in (
        ("SELECT count(*) FROM jobs", 0, "0\n"),
        ("SELECT nonsense FROM jobs", 1, ""),
    ):
        call = command("psql", "--", "-Atc", statement)
        result = subprocess.run(call, env=environment, capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (code, output)
