"""Cases about time: clocks that are wrong, and hours that come twice."""

from __future__ import annotations
