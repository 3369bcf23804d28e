"""Progress: what handlers report of their jobs."""
