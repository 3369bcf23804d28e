"""Cases in which connections are cut, fall silent, or belong to a pooler."""

from __future__ import annotations
