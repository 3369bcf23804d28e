"""Where an embedded server keeps its data, which account runs it, and what it prints about it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import pytest

from howdah.embedded.watcher import key_of

from .clients import (
    CLIENT,
    IS_ROOT,
    MYSELF,
    NOBODY,
    SYSTEM_SHELF,
    Persona,
    Project,
    changed,
    give_to,
    wait_until,
)
from .python_copy import link_howdah, link_wheel

needs_root = pytest.mark.skipif(not IS_ROOT, reason="only root has to run it under another account")


def test_a_path_too_long_for_a_socket(reachable: Path) -> None:
    folder = reachable / ("long" * 40)
    folder.mkdir()
    project = Project(folder)
    client = project.client()
    server = client.join()
    assert server.home == project.home
    assert server.query("SELECT 1") == (1,)
    project.clear()


def test_a_path_that_needs_quoting(reachable: Path) -> None:
    folder = reachable / 'it\'s "50%" of a, b & ü'
    folder.mkdir()
    project = Project(folder)
    assert project.client().join().query("SELECT 1") == (1,)
    project.clear()


def test_an_ordinary_user(project: Project, ordinary: Persona, reachable: Path) -> None:
    give_to(ordinary, project.folder)
    client = project.client(ordinary)
    server = client.join()
    assert server.home == project.home
    assert server.query("SELECT 1") == (1,)
    client.leave()
    server.wait_until_left()


@needs_root
def test_root_and_the_owner_of_the_project_share_one_server(project: Project, ordinary: Persona) -> None:
    give_to(ordinary, project.folder)
    root, owner = project.client(), project.client(ordinary)
    server = root.join()
    assert owner.join() == server
    root.leave()
    os.kill(server.postmaster, signal.SIGKILL)
    wait_until(lambda: not server.is_running())
    assert owner.join() == server
    assert psutil.Process(server.postmaster).uids().real == NOBODY


def test_a_read_only_folder(project: Project, ordinary: Persona, reachable: Path) -> None:
    user_home = reachable / "user"
    user_home.mkdir()
    give_to(ordinary, user_home)
    project.folder.chmod(0o555)
    client = project.client(changed(ordinary, HOME=str(user_home), XDG_DATA_HOME=""))
    server = client.join()
    assert server.home == user_home / ".local/share/howdah" / key_of(project.folder)
    assert server.query("SELECT 1") == (1,)
    said = client.leave()
    assert f"under {server.home}/ ({project.home} cannot be used: Permission denied)" in said
    server.wait_until_left()


def test_nowhere_to_write_but_the_temporary_folder(project: Project, ordinary: Persona) -> None:
    project.folder.chmod(0o555)
    client = project.client(changed(ordinary, HOME=str(project.folder), XDG_DATA_HOME=""))
    server = client.join()
    uid = ordinary.options.get("user", os.geteuid())
    assert server.home == Path(f"/tmp/howdah-{uid}") / key_of(project.folder)
    assert server.query("SELECT 1") == (1,)


@needs_root
def test_a_project_that_is_closed_to_others_while_root(tmp_path: Path) -> None:
    project = Project(tmp_path)
    client = project.client()
    server = client.join()
    assert server.home == SYSTEM_SHELF / key_of(tmp_path)
    assert server.query("SELECT 1") == (1,)
    assert not project.home.exists()
    said = client.leave()
    assert f"under {server.home}/ ({project.home} cannot be used: " in said
    project.clear()


@needs_root
def test_programs_that_are_closed_to_others_while_root(used_project: Project, tmp_path: Path) -> None:
    before = {*SYSTEM_SHELF.glob("postgresql-*")}
    link_wheel(tmp_path)
    search_path = f"{tmp_path}{os.pathsep}{MYSELF.environment['PYTHONPATH']}"
    persona = changed(MYSELF, PYTHONPATH=search_path)
    clients = [used_project.client(persona), used_project.client(persona)]
    for client in clients:
        client.ask()
    for client in clients:
        assert client.joined().query("SELECT 1") == (1,)
    used_project.clear()
    for copy in {*SYSTEM_SHELF.glob("postgresql-*")} - before:
        shutil.rmtree(copy)


def test_data_keeps_its_major_version(project: Project) -> None:
    first = project.client()
    assert first.join(16).major == 16
    first.leave()
    server = project.client().join(18)
    assert server.major == 16
    assert server.query("SELECT current_setting('server_version_num')::int / 10000") == (16,)


def test_data_of_an_unknown_version_is_refused(project: Project) -> None:
    client = project.client()
    server = client.join()
    client.leave()
    server.wait_until_left()
    (project.home / "pg" / "PG_VERSION").write_text("9.6\n")
    refused = project.client()
    refused.ask()
    said = refused.leave()
    assert "EmbeddedServerError" in said
    assert "was made by PostgreSQL '9.6'" in said
    assert "set HOWDAH_DSN" in said


def test_the_announcement_is_one_line(used_project: Project) -> None:
    client = used_project.client()
    client.join()
    client.join()
    assert client.leave() == (
        "howdah: no HOWDAH_DSN or DATABASE_URL set, so the jobs are in an embedded "
        f"PostgreSQL 18 under {used_project.home}/\n"
    )


def test_without_the_wheel_the_error_names_what_to_install(project: Project, tmp_path: Path) -> None:
    link_howdah(tmp_path)
    result = subprocess.run(
        [sys.executable, "-S", "-c", CLIENT, project.folder],
        input="18\n",
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        timeout=120,
        check=False,
    )
    assert "pip install 'howdah[embedded]'" in result.stderr
    assert not project.home.exists()
