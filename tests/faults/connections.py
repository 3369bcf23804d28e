"""Cases about the sockets of a process: forked, or too many."""

from __future__ import annotations
