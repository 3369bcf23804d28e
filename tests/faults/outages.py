"""Cases in which the server is gone: crashed, failed over, full, or without a session that there was."""

from __future__ import annotations
