"""The life of an embedded server, among real processes that come, go and are killed."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped, unused-ignore]
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from .clients import CLIENT, Joined, Project, command_of, processes_of, wait_until

FORKING_CLIENT = (
    CLIENT
    + """
    import os
    if os.fork():
        os._exit(0)
"""
)

KEEPING_COMMAND = """
import os, signal, sys
from howdah.cli.main import main
# In tests that run in the background, it is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("imported", flush=True)
os.chdir(sys.argv[1])
for name in ("HOWDAH_DSN", "DATABASE_URL"):
    os.environ.pop(name, None)
sys.exit(main(["dsn", "--keep"]))
"""


def test_data_outlives_the_server(project: Project) -> None:
    first = project.client()
    server = first.join()
    server.query("CREATE TABLE kept AS SELECT 'ä' AS word")
    first.leave()
    server.wait_until_left()
    again = project.client().join()
    assert again == server == Joined(server.dsn, 18, project.home)
    assert again.query("SELECT word, current_setting('TimeZone') FROM kept") == ("ä", "UTC")
    assert again.query("SHOW listen_addresses") == ("",)
    assert again.query("SHOW fsync") == ("on",)
    assert (project.home / ".gitignore").read_text() == "*\n"
    assert (project.home / "pg").stat().st_mode & 0o777 == 0o700
    assert (project.home / "run").stat().st_mode & 0o777 == 0o700


def test_the_server_stays_until_the_last_process_has_left(used_project: Project) -> None:
    first, second = used_project.client(), used_project.client()
    server = first.join()
    assert second.join() == server
    postmaster = server.postmaster
    first.leave()
    assert server.query("SELECT 1") == (1,)
    assert server.postmaster == postmaster
    second.leave()
    server.wait_until_left()


def test_the_server_stops_when_its_last_process_is_killed(used_project: Project) -> None:
    client = used_project.client()
    server = client.join()
    client.kill()
    server.wait_until_left()


def test_ctrl_c_in_the_starters_terminal_does_not_reach_the_server(used_project: Project) -> None:
    starter, other = used_project.client(), used_project.client()
    server = starter.join()
    other.join()
    postmaster = server.postmaster
    os.killpg(starter.process.pid, signal.SIGINT)
    starter.leave()
    assert server.query("SELECT 1") == (1,)
    assert server.postmaster == postmaster


def test_a_forked_child_keeps_the_server_of_its_parent(used_project: Project) -> None:
    client = used_project.client(script=FORKING_CLIENT)
    server = client.join()
    client.process.wait(timeout=120)
    assert server.query("SELECT 1") == (1,)
    client.leave()
    server.wait_until_left()


MOMENTS: dict[str, Callable[[Path], object]] = {
    "home made": lambda home: home.exists(),
    "initdb runs": lambda home: [*home.glob("pg.new-*/base")],
    "data complete": lambda home: (home / "pg").exists(),
    "server starts": lambda home: (home / "pg" / "postmaster.pid").exists(),
}


@pytest.mark.parametrize("watcher_dies_too", [False, True])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_starter_may_be_killed_when(project: Project, moment: str, watcher_dies_too: bool) -> None:
    starter, next_one = project.client(), project.client()
    starter.ask()
    wait_until(lambda: MOMENTS[moment](project.home))
    starter.kill()
    if watcher_dies_too:
        kill_watchers(Joined("", 18, project.home))
    assert next_one.join().query("SELECT 1") == (1,)
    assert not [*project.home.glob("pg.new-*")]


def test_starters_may_be_killed_at_any_moment(project: Project) -> None:
    for _ in range(6):
        starter = project.client()
        starter.ask()
        with pytest.raises(subprocess.TimeoutExpired):
            starter.process.wait(timeout=random.uniform(0.01, 0.7))
        starter.kill()
    assert project.client().join().query("SELECT 1") == (1,)


def kill_watchers(server: Joined) -> None:
    def none_is_left() -> bool:
        watchers = server.watchers()
        for watcher in watchers:
            watcher.kill()
        return not watchers

    # Dying takes a moment, during which a watcher still has its lock.
    wait_until(none_is_left)


def test_a_killed_watcher_is_replaced_by_the_next_join(used_project: Project) -> None:
    client = used_project.client()
    server = client.join()
    wait_until(server.watchers)
    kill_watchers(server)
    assert client.join() == server
    wait_until(server.watchers)
    client.leave()
    server.wait_until_left()


def test_a_killed_server_is_started_again_by_the_next_join(used_project: Project) -> None:
    client = used_project.client()
    server = client.join()
    server.query("CREATE TABLE kept AS SELECT 1 AS n")
    os.kill(server.postmaster, signal.SIGKILL)
    wait_until(lambda: not server.is_running())
    assert client.join() == server
    assert server.query("SELECT n FROM kept") == (1,)


def test_orphans_of_a_killed_server_do_not_prevent_its_start(used_project: Project) -> None:
    client = used_project.client()
    server = client.join()
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        orphan = psutil.Process(connection.info.backend_pid)
        # Suspended, it cannot notice that its server is gone.
        orphan.suspend()
        os.kill(server.postmaster, signal.SIGKILL)
        wait_until(lambda: not server.is_running())
        assert client.join().query("SELECT 1") == (1,)
    wait_until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)


def test_a_deleted_home_is_made_again_by_the_next_join(used_project: Project) -> None:
    client = used_project.client()
    client.join()
    # The server deletes files of its own as soon as it misses others: more than one try may be needed.
    while used_project.home.exists():
        shutil.rmtree(used_project.home, ignore_errors=True)
    server = client.join()
    assert server.query("SELECT 1") == (1,)
    client.leave()
    server.wait_until_left()


def test_a_stale_pid_file_with_the_pid_of_another_process_is_no_obstacle(used_project: Project) -> None:
    client = used_project.client()
    server = client.join()
    pid_files = (
        used_project.home / "pg/postmaster.pid",
        used_project.home / "run/.s.PGSQL.5432.lock",
    )
    contents = [file.read_text() for file in pid_files]
    mine, servers = str(os.getpid()), str(server.postmaster)
    client.leave()
    server.wait_until_left()
    for file, content in zip(pid_files, contents, strict=True):
        file.write_text(content.replace(servers, mine, 1))
    assert used_project.client().join() == server
    assert server.query("SELECT 1") == (1,)


def test_twenty_processes_join_at_once_and_share_one_server(project: Project) -> None:
    clients = [project.client() for _ in range(20)]
    for client in clients:
        client.ask()
    servers = {client.joined() for client in clients}
    (server,) = servers
    assert server.query("SELECT 1") == (1,)
    running = [p for p in processes_of(project.home) if "-D" in command_of(p)]
    assert [process.pid for process in running] == [server.postmaster]
    wait_until(lambda: len(server.watchers()) == 1)


def test_the_command_keeps_the_server_up_for_other_logins(used_project: Project) -> None:
    client = used_project.client(script=KEEPING_COMMAND)
    dsn = client._expect("postgresql://")
    server = Joined(dsn, 18, used_project.home)
    server.query("DROP ROLE IF EXISTS shop")
    server.query("CREATE ROLE shop LOGIN")
    other = Joined(make_conninfo(dsn, user="shop"), 18, used_project.home)
    assert other.query("SELECT current_user") == ("shop",)
    client.process.send_signal(signal.SIGINT)
    assert "howdah: interrupted" in client.leave()
    assert client.process.returncode == 130
    server.wait_until_left()
