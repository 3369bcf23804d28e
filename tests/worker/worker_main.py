"""A worker in a process of its own: ``python -m tests.worker.worker_main module '{"concurrency": 5}'``.

It ends with its standard input, so that no test leaves one behind, whatever becomes of the test.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import logging
import os
import sys
import threading

from howdah import JobQueue


def main() -> None:
    module, options = sys.argv[1], json.loads(sys.argv[2])
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d %(levelname)s %(name)s: %(message)s")
    queue: JobQueue = importlib.import_module(module).queue
    with asyncio.Runner() as runner:
        report = runner.run(queue.run_worker(signals=True, **options))
        logging.shutdown()
        # Handlers that would not end, in threads or on the loop, must not keep the process.
        os._exit(report.exit_code)


def _end_with_the_test() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 100):
            pass
    os._exit(99)


if __name__ == "__main__":
    main()
