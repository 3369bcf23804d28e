"""Howdah in Django, in processes of its own: the checklist, and the sample project as a user has it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from selenium import webdriver

try:
    import howdah.django  # noqa: F401
except Exception as error:
    if os.environ.get("CI"):
        raise
    pytest.skip(f"Django, or its tasks, cannot be imported: {error}", allow_module_level=True)

SECONDS = 60


@pytest.fixture
def database(server_dsn: str) -> Iterator[str]:
    """A database without Howdah, because Django's migrations install it."""
    name = f"django_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield make_conninfo(server_dsn, dbname=name)
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def project(database: str, tmp_path: Path) -> Project:
    shutil.copytree(ROOT / "examples/django_shop", tmp_path / "shop")
    return Project(tmp_path / "shop", database)


class Project:
    """A copy of the sample project, with a database."""

    def __init__(self, folder: Path, dsn: str) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "DATABASE_URL": dsn,
            "DJANGO_SUPERUSER_PASSWORD": "secret",
            "PYTHONUNBUFFERED": "1",
            "PYTHONWARNINGS": "error::ResourceWarning",
        }

    def manage(self, *arguments: str) -> str:
        command = [sys.executable, "manage.py", *arguments]
        ended = subprocess.run(
            command, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout + ended.stderr

    @contextmanager
    def running(self, *arguments: str) -> Iterator[Process]:
        """A command that runs until the end of the block, and then ends by itself."""
        with (self.folder / f"{arguments[0]}.log").open("w+") as log:
            process = subprocess.Popen(
                [sys.executable, "manage.py", *arguments],
                cwd=self.folder, env=self._environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
            try:
                yield Process(process, Path(log.name))
                process.terminate()
                process.wait(SECONDS)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, 9)
                    process.wait(SECONDS)


class Process:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self._log = log

    def becomes(self, pattern: str, times: int = 1) -> None:
        """Waits until its output has a line so many times."""
        import time

        end = time.monotonic() + SECONDS
        while len(re.findall(pattern, self._log.read_text())) < times:
            assert self.process.poll() is None, f"it has ended: {self._log.read_text()}"
            assert time.monotonic() < end, f"{pattern!r} is not in: {self._log.read_text()}"
            time.sleep(0.05)


def test_the_checklist(database: str) -> None:
    environment = {**os.environ, "HOWDAH_DJANGO_DSN": database, "PYTHONWARNINGS": "error::ResourceWarning"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.django"],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_sample_project_passes_its_own_tests_and_checks(project: Project) -> None:
    found = project.manage("check", "--database", "default")
    assert "Run: manage.py migrate" in found
    assert "1 issue (" in found
    assert "No changes" in project.manage("makemigrations", "--check", "--dry-run")
    assert "OK" in project.manage("test")


def test_the_sample_project_in_a_browser(project: Project, browser: webdriver.Chrome) -> None:
    from selenium.common.exceptions import StaleElementReferenceException, TimeoutException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select, WebDriverWait

    def until(condition: Callable[[webdriver.Chrome], Any]) -> None:
        passing = [StaleElementReferenceException]
        WebDriverWait(browser, SECONDS, poll_frequency=0.05, ignored_exceptions=passing).until(condition)

    def shows(text: str) -> None:
        try:
            until(lambda page: text in page.find_element(By.TAG_NAME, "body").text)
        except TimeoutException:
            page = browser.find_element(By.TAG_NAME, "body").text
            logs = [log.read_text() for log in project.folder.glob("*.log")]
            pytest.fail("\n".join([f"{text!r} is not on the page:", page, *logs]))

    def order(customer: str, *, paid: bool) -> None:
        browser.get(site)
        browser.find_element(By.NAME, "customer").send_keys(customer)
        if paid:
            browser.find_element(By.NAME, "paid").click()
        browser.find_element(By.TAG_NAME, "button").click()

    assert "howdah.0001_initial... OK" in project.manage("migrate")
    project.manage("createsuperuser", "--no-input", "--username", "boss", "--email", "boss@example.com")
    site = f"http://127.0.0.1:{free_port()}"
    with (
        project.running("runserver", "--noreload", site.removeprefix("http://")) as server,
        project.running("howdah_worker") as worker,
    ):
        server.becomes("development server at http")
        worker.becomes("is ready")

        # A form enqueues, and the page shows progress that moves.
        order("Ada", paid=True)
        shows("40 rows for Ada")
        seen = browser.execute_script("return seen")
        assert seen == sorted(seen)
        assert len([percent for percent in seen if 0 < percent < 100]) >= 2, seen

        # A job that failed for good is retried in the admin.
        order("Grace", paid=False)
        shows("NotPaid")
        shows("FAILED")
        browser.get(f"{site}/admin/shop/order/2/change/")
        browser.find_element(By.NAME, "username").send_keys("boss")
        browser.find_element(By.NAME, "password").send_keys("secret", "\n")
        until(lambda page: page.find_elements(By.NAME, "paid"))
        browser.find_element(By.NAME, "paid").click()
        browser.find_element(By.NAME, "_save").click()
        shows("was changed successfully")
        browser.get(f"{site}/admin/howdah/job/?status__exact=failed")
        shows("NotPaid")
        browser.find_element(By.CLASS_NAME, "action-select").click()
        Select(browser.find_element(By.NAME, "action")).select_by_value("retry")
        browser.find_element(By.NAME, "index").click()
        shows("1 job will run again")

        # New code is loaded without a restart by hand, and a running job is released, not lost.
        tasks = project.folder / "shop/tasks.py"
        tasks.write_text(tasks.read_text().replace("rows for", "lines for"))
        worker.becomes("is ready", times=2)
        order("Joan", paid=True)
        shows("40 lines for Joan")
        browser.get(f"{site}/admin/howdah/job/?status__exact=completed")
        until(lambda page: len(page.find_elements(By.CLASS_NAME, "action-select")) == 3)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
