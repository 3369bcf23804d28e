"""What users and the database exchange: jobs, progress, events and the like, as plain values."""
