"""Cases in which many want the same, or much is in the way."""

from __future__ import annotations
