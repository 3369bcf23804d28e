"""Cases in which a handler, or its worker, does not get on: long, blocking, hung or cut off."""

from __future__ import annotations
