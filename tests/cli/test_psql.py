"""``howdah psql``: psql with the right database and schema."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.cli.runner import command


def test_the_embedded_server_has_the_psql_of_its_version(tmp_path: Path) -> None:
    other = tmp_path / "psql"
    other.write_text("#!/bin/sh\necho some other psql\n")
    other.chmod(0o755)
    unset = {name: value for name, value in os.environ.items() if name not in ("HOWDAH_DSN", "DATABASE_URL")}
    environment = unset | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(
        command("psql", "--", "--version"), env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert (result.returncode, result.stdout[:22]) == (0, "psql (PostgreSQL) 18.4"), result.stderr


def test_psql_sees_the_jobs_without_a_prefix_and_gives_its_exit_code(dsn: str) -> None:
    environment = os.environ | {"HOWDAH_DSN": dsn}
    for statement, code, output in (
        ("SELECT count(*) FROM jobs", 0, "0\n"),
        ("SELECT nonsense FROM jobs", 1, ""),
    ):
        call = command("psql", "--", "-Atc", statement)
        result = subprocess.run(call, env=environment, capture_output=True, text=True)
        assert (result.returncode, result.stdout) == (code, output)
