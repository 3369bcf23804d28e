"""Checks of what callers pass, and values as the database stores them."""
