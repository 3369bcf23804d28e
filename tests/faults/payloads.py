"""Cases in which what is stored, returned or raised is hostile."""

from __future__ import annotations
