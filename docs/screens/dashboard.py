"""Makes the pictures of the dashboard: ``python -m docs.screens.dashboard`` (a quarter of an hour).

Some of them, after less time: ``python -m docs.screens.dashboard workflow signals --busy 30``.

Of a real run: a PostgreSQL of its own, two workers of ``shop.py``, and a feed that does not stop.
"""

from __future__ import annotations

import argparse
import io
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from docs.screens import shop
from PIL import Image
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from tests.servers import find
from tests.worker.durable_server import DurableServer

from howdah import Job, JobQueue
from howdah.web import app, serve

FOLDER: Final = Path(__file__).parent / "web"
_ROOT: Final = Path(__file__).parents[2]
_PATHS: Final = (f"{_ROOT}/src/", "/srv/shop/.venv/site-packages/", f"{_ROOT}/docs/screens/", "/srv/shop/")
_NEUTRAL: Final = """
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        text.data = text.data.replaceAll(arguments[0], arguments[1]).replaceAll(arguments[2], arguments[3]);
    }
"""
"""Tracebacks with the paths of an installation."""
_PARTNERS: Final = ("acme", "globex", "initech", "hooli", "umbrella", "stark")
BUSY: Final = 12 * 60.0
"""Seconds before the first picture, so that charts have something to show."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="pictures to be taken; all if none is named")
    parser.add_argument("--busy", type=float, default=BUSY, help="seconds before the first picture")
    options = parser.parse_args()
    binaries = find(18)
    assert binaries is not None
    server = DurableServer(binaries)
    processes: list[subprocess.Popen[bytes]] = []
    stop = threading.Event()
    try:
        with JobQueue(server.dsn) as queue:
            queue.migrate()
            shop.queue.connect_to(server.dsn, queue.schema)
            processes = [worker(name, server.dsn) for name in ("shop-1", "shop-2")]
            threading.Thread(target=feed, args=(queue, stop), daemon=True).start()
            time.sleep(options.busy)
            with serve(app(queue)) as address:
                take_all(queue, address, options.names)
    finally:
        stop.set()
        for process in processes:
            process.terminate()
            process.wait(90)
        server.stop()


def worker(name: str, dsn: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "howdah", "--dsn", dsn, "work", "docs.screens.shop:queue", "--name", name]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "TZ": "UTC"}
    )


def feed(queue: JobQueue, stop: threading.Event) -> None:
    chance = random.Random(7)
    customers = ["acme", "globex", "initech", "umbrella", "hooli"]
    for box in range(12):
        queue.enqueue("print_label", {"box": box})
    queue.pause("send_newsletter", "the printer is out of ink")
    queue.enqueue("send_newsletter", {"issue": 12})
    for order in (17, 18, 23):
        shop.refund.enqueue(order=order)
    queue.signal("refund approved", {"by": "ann"}, key="21")
    for day, partners in ((16, _PARTNERS[:3]), (17, _PARTNERS)):
        shop.daily_import(f"2026-11-{day}", partners)
    number = 0
    began = time.monotonic()
    while not stop.wait(chance.expovariate(16 + 10 * math.sin((time.monotonic() - began) / 100))):
        number += 1
        shop.send_invoice.enqueue(invoice=number, customer=chance.choice(customers))
        if number % 2:
            shop.resize_photo.enqueue(photo=number, sizes=[64, 512, 2048])
        if number % 3 == 0:
            shop.sync_customer.enqueue(customer=chance.choice(customers))
        if number % 150 == 0:
            shop.fetch_rates.enqueue(partner=chance.choice(customers))
        if number % 160 == 5:
            shop.import_catalog.enqueue(file=f"catalog-{number}.csv", rows=chance.randint(1_500, 4_000))


def take_all(queue: JobQueue, address: str, names: Sequence[str]) -> None:
    browser = opened()

    def take_one(path: str, name: str, **options: Any) -> None:
        if not names or name in names:
            take(browser, f"{address}{path}", name, **options)

    try:
        flow = shop.daily_import("2026-11-18", _PARTNERS)
        while flow.progress().percent < 35:
            time.sleep(0.1)
        take_one(f"workflows/{flow.id}", "workflow")
        take_one(f"workflows/{flow.id}", "workflow-dark", scheme="dark")
        take_one("workflows", "workflows")
        take_one("signals", "signals")
        failed = newest(queue, "fetch_rates", "failed")
        queue.select(job_type="resize_photo", status="failed").retry()
        # First, because it does not run for long.
        take_one(f"jobs/{newest(queue, 'import_catalog', 'running').id}", "running")
        for name, path in (
            ("overview", ""), ("jobs", "jobs"), ("job", f"jobs/{failed.id}"), ("types", "types"),
            ("workers", "workers"), ("schedules", "schedules"), ("limits", "limits"), ("health", "health"), ("audit", "audit"),
        ):  # fmt: skip
            if name == "audit" and (not names or name in names):
                act(browser, address, failed)
            take_one(path, name)
        take_one("", "overview-dark", scheme="dark")
        take_one("", "overview-phone", width=390)
    finally:
        browser.quit()


def act(browser: webdriver.Chrome, address: str, job: Job) -> None:
    """Something for the audit."""
    script = "fetch(arguments[0], {method: 'POST', body: new URLSearchParams(arguments[1])}).then(arguments[2])"
    for path, fields in (
        (f"jobs/{job.id}/retry", {}), ("types/pause", {"type": "sync_customer", "because": "the CRM is down"}),
        ("types/resume", {"type": "sync_customer"}), ("limits", {"what": "rate", "of": "type", "type": "send_invoice", "value": "100/s"}),
        ("bulk", {"verb": "retry", "scope": "all", "status": "failed", "type": "resize_photo"}),
    ):  # fmt: skip
        browser.execute_async_script(script, f"{address}{path}", fields)
    time.sleep(1)


def newest(queue: JobQueue, job_type: str, status: Any) -> Job:
    while True:
        found = [
            job
            for job in queue.list(job_type=job_type, status=status, limit=5)
            if status != "running" or job.percent > 30
        ]
        if found:
            return found[-1]
        time.sleep(0.5)


def opened() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-quic", "--hide-scrollbars",
        "--disable-background-networking", "--disable-component-update", "--disable-sync", f"--user-data-dir={tempfile.mkdtemp()}",
    ):  # fmt: skip
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def take(browser: webdriver.Chrome, address: str, name: str, *, width: int = 1280, scheme: str = "light") -> None:
    """A picture of the whole page, up to the height of two screens."""
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def size(height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    size(800)
    browser.get(address)
    time.sleep(2)
    size(max(640, min(browser.execute_script("return document.getElementById('main').scrollHeight"), 1_500)))
    time.sleep(1.2)
    browser.execute_script(_NEUTRAL, *_PATHS)
    picture = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
    # Few colours, and a tenth of the bytes.
    picture.quantize(128).save(FOLDER / f"{name}.png", optimize=True)


if __name__ == "__main__":
    main()
