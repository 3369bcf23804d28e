"""What an embedded server accepts: its own account alone, and no link that another user may have planted."""

from __future__ import annotations

import os
import pwd
import socket
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from howdah.embedded.watcher import key_of

from .clients import MYSELF, NOBODY, SYSTEM_SHELF, Joined, Persona, Project, changed, give_to, wait_until
from .test_places import needs_root

SECRET = "only-for-root"


def account_of(server: Joined) -> pwd.struct_passwd:
    return pwd.getpwuid(psutil.Process(server.postmaster).uids().real)


def test_the_server_gets_no_variable_that_it_does_not_need(used_project: Project) -> None:
    persona = changed(MYSELF, AWS_SECRET_ACCESS_KEY=SECRET, PGPASSWORD=SECRET, HOWDAH_KEY=SECRET)
    server = used_project.client(persona).join()
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("CREATE TEMP TABLE environment (line text)")
        conn.execute("COPY environment FROM PROGRAM 'env' WITH (DELIMITER E'\\x01')")
        lines = [line for (line,) in conn.execute("SELECT line FROM environment")]
    assert SECRET not in "".join(lines)
    given = dict(line.split("=", 1) for line in lines)
    assert (given["HOME"], given["TZ"]) == (account_of(server).pw_dir, "UTC")
    raw = Path(f"/proc/{server.postmaster}/environ")
    assert not raw.exists() or SECRET.encode() not in raw.read_bytes()


@needs_root
def test_roots_server_runs_as_postgres_where_there_is_such_an_account(used_project: Project) -> None:
    accounts = {entry.pw_name for entry in pwd.getpwall()}
    server = used_project.client().join()
    assert account_of(server).pw_name == ("postgres" if "postgres" in accounts else "nobody")


def test_the_dsn_names_the_account_that_must_be_at_the_other_end(used_project: Project) -> None:
    server = used_project.client().join()
    assert conninfo_to_dict(server.dsn)["requirepeer"] == account_of(server).pw_name


@needs_root
def test_a_socket_of_another_user_is_refused(project: Project, tmp_path: Path) -> None:
    client = project.client()
    server = client.join()
    client.leave()
    server.wait_until_left()
    with socket.socket(socket.AF_UNIX) as impostor:
        impostor.bind(str(project.home / "run" / ".s.PGSQL.5432"))
        impostor.listen()
        with pytest.raises(psycopg.OperationalError, match="requirepeer specifies"):
            psycopg.connect(server.dsn)


@pytest.mark.parametrize("folder", ["pg", "run"])
def test_a_folder_that_others_can_write_to_is_refused(project: Project, folder: str) -> None:
    server = project.client().join()
    (project.home / folder).chmod(0o777)
    said = refusal(project)
    assert f"others than {account_of(server).pw_name} can write there: '{project.home / folder}'" in said
    (project.home / folder).chmod(0o700)


@needs_root
def test_a_folder_of_another_user_is_refused(project: Project) -> None:
    server = project.client().join()
    account = account_of(server)
    os.chown(project.home / "run", 1, 1)
    assert f"it belongs to {pwd.getpwuid(1).pw_name}, and not to {account.pw_name}" in refusal(project)
    os.chown(project.home / "run", account.pw_uid, account.pw_gid)


@needs_root
def test_root_does_not_follow_a_home_that_is_a_link(project: Project, ordinary: Persona, tmp_path: Path) -> None:
    outside = outside_of(tmp_path)
    before = look_of(outside)
    give_to(ordinary, project.folder)
    project.home.symlink_to(outside)
    client = project.client()
    server = client.join()
    assert server.home == SYSTEM_SHELF / key_of(project.folder)
    said = client.leave()
    assert f"({project.home} cannot be used: it is a link or a file where a folder should be" in said
    server.wait_until_left()
    assert look_of(outside) == before
    project.home.unlink()


@needs_root
@pytest.mark.parametrize("hard", [False, True], ids=["symbolic", "hard"])
@pytest.mark.parametrize(
    "name", ["pg", "run", "members.lock", "start.lock", "watcher.lock", "watcher.log", "postgres.log", ".gitignore"]
)
def test_root_follows_no_link_out_of_the_home(
    project: Project, ordinary: Persona, tmp_path: Path, reachable: Path, name: str, hard: bool
) -> None:
    is_folder = name in ("pg", "run")
    if is_folder and hard:
        pytest.skip("folders have no hard links")
    give_to(ordinary, project.folder)
    client = project.client()
    server = client.join()
    client.leave()
    server.wait_until_left()
    outside = outside_of(reachable)
    before = look_of(outside)
    aim = outside if is_folder else outside / "file"
    planted = project.home / name
    planted.rename(project.home / "away") if planted.exists() else None
    planted.hardlink_to(aim) if hard else planted.symlink_to(aim)
    if not hard:
        os.chown(planted, NOBODY, NOBODY, follow_symlinks=False)
    again = project.client()
    again.ask()
    said = again.leave()
    wait_until(lambda: look_of(outside) == before)
    # A log is moved away, whatever it is; and where git's file cannot be made, the home is elsewhere.
    assert "EmbeddedServerError" in said or name in ("postgres.log", ".gitignore"), said
    assert "link" in said or "not a file of this server alone" in said or name == "postgres.log", said
    planted.unlink(missing_ok=True)


def refusal(project: Project) -> str:
    refused = project.client()
    refused.ask()
    said = refused.leave()
    assert "EmbeddedServerError" in said
    return said


def outside_of(folder: Path) -> Path:
    outside = folder / "outside"
    outside.mkdir(0o755)
    for name in ("file", "postmaster.pid", ".s.PGSQL.5432.lock"):
        (outside / name).write_text("")
    (outside / "PG_VERSION").write_text("18\n")
    return outside


def look_of(folder: Path) -> list[tuple[str, int, int, int, int, str]]:
    """Everything that could be changed in a folder."""
    seen = [(path, path.stat()) for path in (folder, *sorted(folder.iterdir()))]
    return [
        (path.name, each.st_mode, each.st_uid, each.st_gid, each.st_size, path.read_text() if path.is_file() else "")
        for path, each in seen
    ]
