"""Claiming: the claimers and their wake-ups."""
