"""The worker: claims jobs and runs their handlers."""

from howdah.worker.options import WorkerOptions
from howdah.worker.summary import WorkerSummary
from howdah.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "WorkerSummary"]
