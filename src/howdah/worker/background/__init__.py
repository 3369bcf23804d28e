"""What a worker does beside running jobs."""
