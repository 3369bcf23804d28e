"""What people type: dates, durations, JSON, the name of a queue."""
