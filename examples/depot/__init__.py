"""A depot with its handlers in several modules, and two queues. This module imports none of them: they import it."""

from howdah import JobQueue

queue = JobQueue(modules=["depot.mail", "depot.reports.daily"])

audit = JobQueue(schema="example_audit", modules=["depot.journal"])
"""A queue of its own, in a schema of its own: its jobs share neither tables nor workers with those of the other."""
