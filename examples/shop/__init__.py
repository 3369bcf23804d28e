"""A shop with its handlers in several modules, and two queues. This module imports none of them: they import it."""

from howdah import JobQueue

queue = JobQueue(modules=["shop.mail", "shop.reports.daily"])

audit = JobQueue(schema="example_audit", modules=["shop.journal"])
"""A queue of its own, in a schema of its own: its jobs share neither tables nor workers with those of the other."""
