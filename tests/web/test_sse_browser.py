"""The stream in a real browser, which is cut off, comes back, and has missed nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from howdah import Job, JobQueue
from howdah.sse import EventStream
from tests.docs.pages import ROOT, blocks_of
from tests.tcp_proxy import TcpProxy
from tests.web.served import served

PAGE = """<!doctype html><title>progress</title><script>
const rows = [], ends = [], standings = [];
const source = new EventSource("/progress/" + location.search.slice(1));
let opened = 0, cut = 0;
source.onopen = () => { opened += 1 };
source.onerror = () => { cut += 1 };
source.addEventListener("event", message => rows.push(JSON.parse(message.data).data.n));
source.addEventListener("progress", message => standings.push(JSON.parse(message.data).job));
source.addEventListener("end", () => ends.push(source.readyState));
</script>"""

(SHOWN,) = [block.text for block in blocks_of(ROOT / "docs/how-to/progress.md") if block.language == "javascript"]


Becomes = Callable[[str, object], None]


@pytest.fixture
def becomes(browser: webdriver.Chrome) -> Becomes:
    def becomes(script: str, expected: object) -> None:
        wait = WebDriverWait(browser, 60, poll_frequency=0.05)
        wait.until(lambda seen: seen.execute_script(f"return {script}") == expected)

    return becomes


def test_a_browser_that_is_cut_off_comes_back_and_has_missed_nothing(
    queue: JobQueue, browser: webdriver.Chrome, becomes: Becomes
) -> None:
    job = running_job(queue)
    with served(app_with(PAGE, queue)) as port:
        proxy = TcpProxy("127.0.0.1", port)
        browser.get(f"http://127.0.0.1:{proxy.port}/?{job.id}")
        for n in range(5):
            queue.event(job, "row", {"n": n})
        becomes("rows", [0, 1, 2, 3, 4])
        for round in (1, 2):
            proxy.cut()
            becomes("cut", round)
            for n in range(5 * round, 5 * round + 5):
                queue.event(job, "row", {"n": n})
            becomes("opened", round + 1)
            becomes("rows", list(range(5 * round + 5)))
        queue.progress(job, 70, "nearly there")
        becomes("standings.at(-1).percent", 70)
        queue.complete(job)
        becomes("standings.at(-1).status", "completed")
        becomes("ends.length", 1)
        # It asks once more, gets 204 because nothing more will come, and does not reconnect.
        becomes("source.readyState", 2)
        becomes("rows", list(range(15)))
        proxy.close()


def test_what_the_docs_show_for_a_page_works_in_one(
    queue: JobQueue, browser: webdriver.Chrome, becomes: Becomes
) -> None:
    job = running_job(queue)
    page = f"""<!doctype html><title>progress</title><script>
        const jobId = "{job.id}", percents = [], events = [];
        const show = percent => percents.push(percent), append = event => events.push(event.name);
        {SHOWN}
    </script>"""
    with served(app_with(page, queue)) as port:
        browser.get(f"http://127.0.0.1:{port}/")
        queue.progress(job, 70)
        becomes("percents.at(-1)", 70)
        queue.event(job, "decoded")
        becomes("events", ["decoded"])
        queue.complete(job)
        becomes("percents.at(-1)", 100)
        becomes("source.readyState", 2)


def running_job(queue: JobQueue) -> Job:
    queue.enqueue("import")
    (job,) = queue.claim(["import"])
    queue.start(job)
    return job


def app_with(page: str, queue: JobQueue) -> Starlette:
    async def answer(request: Request) -> HTMLResponse:
        return HTMLResponse(page)

    return Starlette(routes=[Route("/", answer), Mount("/progress", EventStream(queue))])
