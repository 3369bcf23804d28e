"""Makes the pictures of ``howdah watch``, ``howdah top`` and ``howdah show`` for the docs: ``make screens``.

They are taken of real terminals. A PostgreSQL of their own in a temporary folder, workers that run ``app.py`` in
processes of their own, and one of them killed in the middle of a job, which another one resumes.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import psycopg
from docs.screens.picture import svg
from pyte.screens import Char
from tests.cli.terminal import Terminal
from tests.servers import Server, find

from howdah import Job, JobQueue

FOLDER: Final = Path(__file__).parent
_ENVIRONMENT: Final = {"HOWDAH_DSN": "dbname=shop", "HOWDAH_SCHEMA": "howdah", "TZ": "UTC", "COLORTERM": "truecolor"}
_RHYTHM: Final = ("--lease", "2s", "--heartbeat", "0.5s", "--sweep", "1s", "--poll", "0.5s", "--children", "2")
_TYPES: Final = {
    "media": "transcode_video,scan_archive",
    "photos": "sync_photos",
    "shop": "import_catalog,fetch_rates,send_mail,print_label",
}
EXPECTED: Final = {
    "watch": (
        r"sync_photos attempt 1 lost, worker photos-1 died; again at once$",
        r"sync_photos resumed",
        r"fetch_rates attempt 1 failed: ",
        r"fetch_rates attempt 3 completed after",
        r"import_catalog WARNING ",
        r"^transcode_video …\w+ \d before it, starts in about",
        r"^import_catalog .* load$",
        r"^sync_photos .* 5\d% .* upload, attempt 2/3$",
    ),
    "show": (
        r" 1  started on photos-1$",
        r" 1  lost, worker photos-1 died; again at once$",
        r" 2  started on photos-2$",
        r" 2  resumed",
        r"^errors$\n.*on photos-1\)\n.*\S$",
    ),
    "top": (
        r" [1-9] stalled .* jobs/s$",
        r"print_label \(paused\)",
        r"send_mail +[\d,]+ +0 +3 ",
        r"scan_archive +stalled",
        r"q quit",
    ),
}
"""What belongs on each picture. What a command draws in several steps may be seen half drawn."""


class Shop:
    """The queue, its handlers and its workers."""

    def __init__(self, server: Server) -> None:
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            conn.execute("CREATE ROLE shop LOGIN SUPERUSER")
            conn.execute("CREATE DATABASE shop OWNER shop")
        # Where the server is, the screens do not show.
        os.environ |= {**_ENVIRONMENT, "PGHOST": str(server.home), "PGUSER": "shop"}
        self.queue = JobQueue()
        self.queue.migrate()
        self._workers: dict[str, Terminal] = {}

    def hire(self, team: str, number: int) -> None:
        """Starts a worker, and returns when it is ready."""
        name = f"{team}-{number}"
        options = ("--name", name, "--types", _TYPES[team], *_RHYTHM)
        self._workers[name] = Terminal("work", "docs.screens.app:queue", *options, columns=200)
        self._workers[name].wait_for(f"worker {name} is ready")
        with psycopg.connect(self.queue.dsn) as conn:
            # The pictures do not show the name of the computer that makes them.
            conn.execute("UPDATE howdah.workers SET host = %s WHERE worker_id = %s", (f"web{number}", name))

    def kill_holder_of(self, job: Job) -> None:
        """As when the memory runs out."""
        self._workers.pop(self.queue.get(job).worker_id or "").close()

    def wait_for_percent(self, job: Job, least: int) -> None:
        for update in self.queue.watch(job, kinds=["progress"]):
            if update.job is not None and update.job.percent >= least:
                return

    def close(self) -> None:
        self.queue.close()
        for worker in self._workers.values():
            worker.close()


@contextlib.contextmanager
def opened_shop() -> Iterator[Shop]:
    binaries = find(18)
    assert binaries is not None, "make sets up a virtual environment that has it"
    server = Server(binaries)
    try:
        with contextlib.closing(Shop(server)) as shop:
            yield shop
    finally:
        server.stop()


def main() -> None:
    with opened_shop() as shop:
        for team in _TYPES:
            shop.hire(team, 1)
        photos, video = open_day(shop.queue)
        take_watch(shop, photos, video)
        take_show(shop, photos)
        take_top()


def open_day(queue: JobQueue) -> tuple[Job, Job]:
    """Gives them something to do. Returns the job whose worker will be killed, and one that has to wait."""
    queue.enqueue("scan_archive", {"boxes": 90})
    photos = queue.enqueue("sync_photos", {"album": "spring", "photos": 1_200})
    videos = [
        queue.enqueue("transcode_video", {"video": f"{number}.mp4", "frames": frames})
        for number, frames in enumerate((600, 750, 900, 950, 850, 700), start=1)
    ]
    queue.enqueue_many("send_mail", ({"to": f"{number}@example.org"} for number in range(20_000)))
    queue.enqueue_many("print_label", ({"order": order} for order in range(120)))
    queue.enqueue("close_month", delay=3 * 86_400)
    return photos, videos[-1]


def take_watch(shop: Shop, photos: Job, video: Job) -> None:
    types = ("sync_photos", "transcode_video", "import_catalog", "fetch_rates")
    with Terminal("watch", *types, str(video.id), columns=100, lines=20) as terminal:
        terminal.wait_for("before it")
        shop.queue.enqueue("import_catalog", {"supplier": "Acme", "rows": 14_000})
        shop.queue.enqueue("fetch_rates", {"bank": "ECB"})
        shop.wait_for_percent(photos, 1)
        shop.hire("photos", 2)
        shop.wait_for_percent(photos, 42)
        shop.kill_holder_of(photos)
        shop.queue.pause("print_label", because="the printer has no paper")
        shop.queue.enqueue_many("print_label", ({"order": order} for order in range(35)))
        take("watch", terminal, " ".join(["howdah watch", *types, f"{str(video.id)[:8]}…"]))


def take_show(shop: Shop, photos: Job) -> None:
    shop.wait_for_percent(photos, 70)
    with Terminal("show", str(photos.id), columns=100, lines=80) as terminal:
        take("show", terminal, f"howdah show {photos.id}")


def take_top() -> None:
    with Terminal("top", columns=120, lines=30) as terminal:
        take("top", terminal, "howdah top")


def take(name: str, terminal: Terminal, title: str) -> None:
    """Writes the picture of a screen, at the first moment when all can be seen on it that should be."""
    taken: list[list[list[Char]]] = []

    def is_to_be_taken(screen: str) -> bool:
        if all(re.search(each, screen, flags=re.MULTILINE) for each in EXPECTED[name]):
            taken.append(terminal.cells)
        return bool(taken)

    terminal.wait_until(is_to_be_taken)
    (FOLDER / f"{name}.svg").write_text(svg(_without_blank_end(taken[0]), title), encoding="utf-8")


def _without_blank_end(lines: list[list[Char]]) -> list[list[Char]]:
    filled = [number for number, line in enumerate(lines) if any(cell.data.strip() for cell in line)]
    return lines[: max(filled, default=0) + 1]


if __name__ == "__main__":
    main()
