"""The worker: claims jobs and runs their handlers."""

from howdah.worker.options import WorkerOptions
from howdah.worker.summary import WorkerReport
from howdah.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "WorkerReport"]
