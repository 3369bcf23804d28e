"""The dashboard, called directly and in a browser. The browser and the server are started once."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from howdah import JobQueue
from howdah.web import Dashboard, app

if TYPE_CHECKING:
    from selenium import webdriver

ORIGIN = {"origin": "http://localhost"}


class Site:
    """A dashboard, called without a server, on a loop of its own that stays the same for all requests."""

    def __init__(self, queue: JobQueue, **options: Any) -> None:
        self.dashboard: Dashboard = app(queue, **options)
        self._queue = queue
        # A test sees what it has just done.
        self.dashboard._site.data.fresh = -1
        self.dashboard._defence.pause = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def request(
        self, method: str, path: str, *, client: str = "127.0.0.1", host: str = "localhost", **options: Any
    ) -> httpx.Response:
        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.dashboard, client=(client, 5), raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as caller:
                return await caller.request(method, path, **options)

        answer: httpx.Response = self._on_loop(send())
        return answer

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, data: Any = None, **options: Any) -> httpx.Response:
        return self.request("POST", path, data=data or {"x": "y"}, headers=options.pop("headers", ORIGIN), **options)

    def close(self) -> None:
        self._on_loop(self.dashboard.aclose())
        self._on_loop(self._queue.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def _on_loop(self, work: Any) -> Any:
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(60)


@pytest.fixture
def site(dsn: str) -> Iterator[Site]:
    site = Site(JobQueue(dsn))
    yield site
    site.close()


@pytest.fixture(scope="session")
def one_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """A real browser, for all tests of this folder."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        _skip("Chromium is not installed here (Debian: apt-get install chromium chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium or ""
    for argument in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-quic",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
        f"--user-data-dir={tmp_path_factory.mktemp('profile')}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    yield made
    made.quit()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The source of axe-core, which looks for what people with other senses or tools would miss."""
    npm, folder = shutil.which("npm"), tmp_path_factory.mktemp("axe")
    if npm is None:
        _skip("npm is not installed here, and axe-core comes from there")
    subprocess.run(
        [npm or "npm", "install", "axe-core@4", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts"],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return Path(folder / "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def _skip(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)
