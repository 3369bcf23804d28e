"""Watching jobs and waiting for them, with one reader for each queue and process."""
