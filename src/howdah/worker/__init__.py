"""The worker: what runs handlers."""

from howdah.worker.options import WorkerOptions
from howdah.worker.summary import WorkerReport
from howdah.worker.worker import Worker

__all__ = ["Worker", "WorkerOptions", "WorkerReport"]
