"""Who we are."""

__version__ = "0.1.0"
