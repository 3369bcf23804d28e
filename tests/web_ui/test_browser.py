"""The dashboard in a real browser: every screen, what moves by itself, what a keyboard reaches, and what must not run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait
from uvicorn import Config

from howdah import Flow, Job, JobQueue
from howdah.web import app
from howdah.web.server import StoppingServer
from tests.web_ui.hostile import plant

SCREENS = (
    "",
    "jobs",
    "jobs/new",
    "workflows",
    "signals",
    "signals?name=approved&key=17&sent=1",
    "types",
    "workers",
    "schedules",
    "schedules/edit",
    "limits",
    "health",
    "audit",
    "bulk?verb=cancel&scope=all",
)
SECONDS = 30


class Server:
    """The dashboard on a port that stays the same when it is killed and started again."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
        self.start()

    def start(self) -> None:
        self.queue = JobQueue(self._dsn)
        config = Config(
            app(self.queue), host="127.0.0.1", port=self.port, log_level="error", timeout_graceful_shutdown=1
        )
        self._server = StoppingServer(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._server.serve())
            runner.run(self.queue.aclose())

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


class Page:
    """The browser at the dashboard."""

    def __init__(self, browser: webdriver.Chrome, server: Server) -> None:
        self.browser = browser
        self._server = server

    def open(self, path: str = "") -> None:
        self.browser.get(f"http://127.0.0.1:{self._server.port}/{path}")

    def find(self, selector: str) -> Any:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def run(self, script: str, *arguments: Any) -> Any:
        return self.browser.execute_script(f"return {script}", *arguments)

    def until(self, condition: Callable[[], Any]) -> Any:
        wait = WebDriverWait(self.browser, SECONDS, poll_frequency=0.05)
        return wait.until(lambda _: condition())

    def is_live(self) -> bool:
        return bool(self.run("document.getElementById('connection').dataset.state") == "live")

    def text(self, selector: str) -> str:
        return str(self.run("document.querySelector(arguments[0])?.textContent ?? ''", selector))

    def shows(self, selector: str, text: str) -> bool:
        return text in self.text(selector)

    def size(self, width: int, height: int) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def scheme(self, name: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def errors(self) -> list[str]:
        found: Any = self.browser.get_log("browser")  # type: ignore[no-untyped-call]
        return [each["message"] for each in found if each["level"] in ("SEVERE", "WARNING")]


@pytest.fixture
def server(dsn: str) -> Iterator[Server]:
    server = Server(dsn)
    yield server
    server.stop()


@pytest.fixture
def page(one_browser: webdriver.Chrome, server: Server) -> Iterator[Page]:
    page = Page(one_browser, server)
    page.errors()
    page.size(1280, 900)
    page.scheme("light")
    yield page
    one_browser.get("about:blank")


def busy(queue: JobQueue) -> dict[str, Job]:
    """A queue with something on every screen."""
    failed = queue.enqueue("resize", {"photo": 1}, max_attempts=1)
    queue.fail(queue.claim(["resize"])[0], "the photo ends in the middle")
    running = queue.enqueue("import", {"file": "orders.csv", "rows": [1, 2.5, None, True, {"a": "b"}]})
    (held,) = queue.claim(["import"])
    queue.start(held)
    queue.progress(held, 20, "load", done=20, total=100)
    queue.event(held, "batch", {"first": 1})
    queue.progress(held, 40, "load", done=40, total=100)
    waiting = queue.enqueue("mail", {"to": "ann"})
    queue.enqueue("mail", delay=3600)
    queue.schedules.set("nightly", "report", cron="0 3 * * *")
    queue.pause("letters", "no ink")
    queue.limits.set(3, job_type="import")
    queue.limits.set_max_pending("mail", 100)
    queue.signal("paid", {"by": "ann"}, key="17")
    queue.recover()
    return {"failed": failed, "running": held, "waiting": waiting} | {"import": running}


def flow_of(queue: JobQueue) -> Flow:
    """A workflow with nodes of every status."""
    with queue.workflow("nightly import", data={"day": 17}, key="17") as flow:
        first = [flow.add("download", name=f"download {n}", n=n) for n in range(3)]
        many = [flow.add("part", name=f"part {n}", n=n, after=first[0]) for n in range(8)]
        total = flow.add("total", after=[*many, first[1]])
        flow.add("alarm", after=first[2], when="failure")
        flow.add("clean up", after=[total, first[0]], when="always")
        flow.add("idle", after=flow.add("broken", after=flow.add("refused")))
    for job_type, error in (("download", None), ("refused", "the disk is full")):
        (job,) = queue.claim([job_type], 1)
        queue.start(job)
        if error is None:
            queue.complete(job, {})
        else:
            queue.fail(job, error, give_up=True)
    return flow


def test_every_screen_is_sound_for_everyone(page: Page, queue: JobQueue, axe: str) -> None:
    """No error of the console, nothing that axe-core finds, and nothing wider than a phone."""
    jobs = busy(queue)
    findings: list[Any] = []
    paths = [*SCREENS, *(f"jobs/{jobs[name].id}" for name in ("failed", "running", "waiting")), "jobs?status=odd"]
    flow = flow_of(queue)
    paths += [f"workflows/{flow.id}", f"jobs?workflow={flow.id}&node=total"]
    paths.append(f"jobs/{queue.list(job_type='total')[0].id}")
    for scheme, width in (("light", 1280), ("dark", 390)):
        page.scheme(scheme)
        page.size(width, 844)
        for path in paths:
            page.open(path)
            page.until(page.is_live)
            assert page.run("document.documentElement.scrollWidth") <= width, (path, width)
            page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
            # Evaluated by the driver, not by the page, whose policy would forbid it.
            page.browser.execute_script(axe)
            found = page.browser.execute_async_script(
                "const done = arguments[0]; axe.run({resultTypes: ['violations']}).then(found => done(found.violations.map("
                "each => [each.id, each.nodes.slice(0, 3).map(node => node.html + ' ' + node.failureSummary)])))"
            )
            findings += [(scheme, path, each) for each in found]
            errors = [each for each in page.errors() if path != "jobs?status=odd"]
            assert errors == [], path
    assert findings == []


def test_progress_moves_without_a_reload(page: Page, queue: JobQueue) -> None:
    held = busy(queue)["running"]
    for path, place in (("", "#running"), (f"jobs/{held.id}", "#standing"), ("jobs?type=import", "#list")):
        page.open(path)
        page.until(page.is_live)
        page.run("window.same = true")
        percent = int(queue.get(held).percent) + 5
        queue.progress(held, percent, f"stage {percent}")
        shown = f"{place} [data-part=percent]"
        page.until(functools.partial(page.shows, shown, f"{percent}%"))
        page.until(functools.partial(page.shows, place, f"stage {percent}"))
        assert page.run("window.same") is True
    page.open(f"jobs/{held.id}")
    page.until(page.is_live)
    queue.complete(held, {"rows": 100})
    page.until(lambda: "completed" in page.text("#job-head") or "completed" in page.text("main"))
    page.until(lambda: "100%" in page.text("#standing"))
    page.until(lambda: page.run("!!document.querySelector('form[action$=retry]')"))


def test_the_graph_of_a_workflow_moves_without_a_reload(page: Page, queue: JobQueue) -> None:
    flow = flow_of(queue)
    page.open(f"workflows/{flow.id}")
    page.until(page.is_live)
    page.run("window.same = true")
    assert page.run("document.querySelectorAll('.graph a.box').length") == 10
    (part,) = queue.claim(["part"], 1)
    queue.start(part)
    queue.complete(part, {})
    page.until(lambda: page.shows("#flow-graph", "12%"))
    page.until(lambda: page.run("document.querySelector('#box-4 rect.completed')?.getBoundingClientRect().width > 5"))
    page.find("#flow-actions input[name=reason]").send_keys("the wrong day")
    page.find("#flow-actions button").click()
    page.until(lambda: "Cancel this workflow?" in page.text("dialog[open]"))
    page.find("dialog button.danger").click()
    page.until(lambda: page.shows("#flow-standing", "the wrong day"))
    # With a mouse, a box leads to the jobs of its node.
    page.find("#box-1").click()
    page.until(lambda: page.run("!!document.getElementById('job-id')"))


def test_a_server_that_was_killed_and_comes_back_is_found_again(page: Page, server: Server, queue: JobQueue) -> None:
    page.open("jobs?type=mail")
    page.until(page.is_live)
    server.stop()
    page.until(lambda: "connection lost" in page.text("#connection"))
    queue.enqueue("mail")
    server.start()
    page.until(page.is_live)
    page.until(lambda: page.run("document.querySelectorAll('#list tbody tr').length") == 1)


def test_an_update_keeps_what_is_ticked_written_and_open(page: Page, queue: JobQueue) -> None:
    first = queue.enqueue("mail")
    page.open("jobs")
    page.until(page.is_live)
    page.find(f"input[value='{first.id}']").click()
    page.find(".more summary").click()
    page.find("input[name=error]").send_keys("half a wo")
    queue.enqueue("mail")
    page.until(lambda: page.run("document.querySelectorAll('#list tbody tr').length") == 2)
    assert page.find(f"input[value='{first.id}']").is_selected()
    assert page.run("document.querySelector('.more').open")
    assert page.run("document.activeElement.value") == "half a wo"
    assert page.text("#chosen") == "1 selected"


def test_jobs_are_selected_and_changed_by_a_dialog(page: Page, queue: JobQueue) -> None:
    for _ in range(3):
        queue.enqueue("mail")
    page.open("jobs?type=mail")
    # The module of the page is there: without it, the form is sent as it is.
    page.until(page.is_live)
    page.find("button[value=cancel]").click()
    page.until(lambda: "Select some jobs first" in page.text("#chosen"))
    page.find("[data-all]").click()
    page.until(lambda: page.text("#chosen") == "3 selected")
    page.find("button[value=cancel]").click()
    page.until(lambda: "Cancel 3 jobs?" in page.text("dialog[open]"))
    page.find("dialog [data-close]").click()
    page.until(lambda: not page.run("document.getElementById('dialog').open"))
    page.run("document.querySelector('select[name=scope]').value = 'all'")
    page.find("button[value=cancel]").click()
    page.until(lambda: "All jobs that match" in page.text("dialog[open]"))
    page.find("dialog button.danger").click()
    page.until(lambda: "3 jobs cancelled" in page.text("#run h1"))
    page.find("#run a.button").click()
    page.until(lambda: "type=mail" in page.browser.current_url)
    assert queue.stats()["mail"].cancelled == 3


def test_a_deletion_needs_a_confirmation(page: Page, queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    page.open(f"jobs/{job.id}")
    page.find("form[action$=delete] button").click()
    page.until(lambda: "cannot be brought back" in page.text("dialog[open]"))
    assert len(queue.list()) == 1
    page.find("dialog button.danger").click()
    page.until(lambda: len(queue.list()) == 0)


def test_a_keyboard_is_enough(page: Page, queue: JobQueue) -> None:
    """Filters, opens, and retries a job without a mouse."""
    busy(queue)
    page.open("jobs")
    page.until(page.is_live)

    def press(*keys: str) -> None:
        webdriver.ActionChains(page.browser).send_keys(*keys).perform()

    press(Keys.TAB)
    assert page.run("document.activeElement.className") == "skip"
    assert page.run("getComputedStyle(document.activeElement).outlineStyle") != "none"
    press("/")
    page.until(lambda: page.run("document.activeElement.name") == "path")
    press(Keys.TAB, "ends in", Keys.ENTER)
    page.until(lambda: "error=ends" in page.browser.current_url)
    page.until(page.is_live)
    press("j", Keys.ENTER)
    page.until(lambda: page.run("!!document.getElementById('job-id')"))
    page.run("document.getElementById('main').focus()")
    for _ in range(30):
        press(Keys.TAB)
        if page.run("document.activeElement.textContent").strip() == "Retry":
            break
    press(Keys.ENTER)
    page.until(lambda: queue.stats()["resize"].pending == 1)


def test_forms_and_links_work_without_script(one_browser: webdriver.Chrome, page: Page, queue: JobQueue) -> None:
    job = queue.enqueue("mail")
    one_browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.open("jobs?type=mail")
        page.find(f"input[value='{job.id}']").click()
        page.find("button[value=cancel]").click()
        page.until(lambda: "Cancel 1 job?" in page.browser.title or "Cancel 1 job?" in page.browser.page_source)
        page.find("#dialog-source button.danger").click()
        WebDriverWait(one_browser, SECONDS).until(lambda _: queue.get(job).status == "cancelled")
        page.open(f"jobs/{job.id}")
        page.find("form[action$=retry] button").click()
        WebDriverWait(one_browser, SECONDS).until(lambda _: queue.get(job).status == "pending")
    finally:
        one_browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_a_hidden_page_has_no_stream(one_browser: webdriver.Chrome, page: Page, server: Server) -> None:
    page.open("")
    page.until(page.is_live)
    dashboard: Any = server._server.config.app
    live = dashboard._live
    assert len(live._mailboxes) == 1
    one_browser.switch_to.new_window("tab")
    other = one_browser.current_window_handle
    page.open("jobs")
    page.until(page.is_live)
    assert len(live._mailboxes) == 1  # one stream for both
    with contextlib.suppress(Exception):
        one_browser.get("about:blank")
    page.until(lambda: len(live._mailboxes) == 0)  # the first page is in the background
    one_browser.switch_to.window(other)
    one_browser.close()
    one_browser.switch_to.window(one_browser.window_handles[0])
    page.until(lambda: len(live._mailboxes) == 1)


def test_hostile_texts_run_nowhere(page: Page, queue: JobQueue) -> None:
    jobs = plant(queue)
    queue.progress(queue.claim([queue.enqueue("mail").job_type])[0], 30, "<img src=x onerror=window.hacked=1>")
    flows = [f"workflows/{flow.id}" for flow in queue.workflows.list()]
    for path in (*SCREENS, *(f"jobs/{job.id}" for job in jobs), *flows):
        page.open(path)
        page.until(page.is_live)
        page.run("document.querySelectorAll('details').forEach(each => each.open = true)")
        assert page.run("window.hacked ?? null") is None
        assert page.errors() == [], path
    page.open("")
    page.until(page.is_live)
    page.until(
        lambda: (
            page.run("performance.getEntriesByType('resource').filter(each => each.initiatorType === 'fetch').length")
            > 1
        )
    )
    assert page.run("window.hacked ?? null") is None
