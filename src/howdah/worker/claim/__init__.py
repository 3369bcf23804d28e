"""Claiming: how jobs come to a worker."""
