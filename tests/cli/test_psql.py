"""``howdah psql``: psql with the right database and schema."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from psycopg.conninfo import make_conninfo

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


def test_no_secret_is_on_the_command_line_and_none_is_left_behind(tmp_path: Path, dsn: str) -> None:
    """What psql is started with, recorded by a program in its place that then becomes the real one."""
    real, told = shutil.which("psql"), tmp_path / "told"
    fake = tmp_path / "psql"
    fake.write_text(
        f'#!/bin/sh\ntr "\\0" "\\n" < /proc/$$/cmdline > {told}\nstat -c %a "$PGSERVICEFILE" >> {told}\n'
        f'cat "$PGSERVICEFILE" > {told}.service\necho "$PGSERVICEFILE" > {told}.place\nexec {real or "true"} "$@"\n'
    )
    fake.chmod(0o755)
    secret = make_conninfo(dsn, password="pass word'1", sslpassword="ssl=sec#ret")
    environment = os.environ | {"HOWDAH_DSN": secret, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    result = subprocess.run(command("psql", "--", "-Atc", "SELECT 7"), env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "pass word" not in told.read_text()
    assert "sec#ret" not in told.read_text()
    assert told.read_text().splitlines()[-1] == "600"
    assert Path(f"{told}.service").read_text() == "[howdah_psql]\nsslpassword=ssl=sec#ret\n"
    assert not Path(Path(f"{told}.place").read_text().strip()).exists()
    if real:
        assert result.stdout == "7\n"
