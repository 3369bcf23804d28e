"""Cases in which workers are asked to stop."""

from __future__ import annotations
