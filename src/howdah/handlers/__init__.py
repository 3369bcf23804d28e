"""Handlers: their arguments, results, retries and resources."""
