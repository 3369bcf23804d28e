"""How large the cases are: as large as they can be with ``make scale``, and small where a run must be short."""

from __future__ import annotations

import os
from typing import Final

FULL: Final = os.environ.get("HOWDAH_SCALE") == "full"
