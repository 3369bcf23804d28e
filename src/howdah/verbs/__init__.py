"""The verbs: what each sends to the database, and what the answer means."""
