"""Cases in which the schema changes under those who use it."""

from __future__ import annotations
