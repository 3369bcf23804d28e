"""What is known before the checks begin."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from howdah.db.plan import Row
from howdah.doctor.finding import Finding
from howdah.doctor.words import command


@dataclasses.dataclass(frozen=True, slots=True)
class Patient:
    """The installation under examination, and the role that the doctor connects as.

    patience: seconds that a state may last before it is a finding.
    behind_pooler: whether each transaction may get another session of the server.
    """

    schema: str
    patience: float
    role: str
    database: str
    behind_pooler: bool

    def command(self, *words: str) -> str:
        return command(self.schema, *words)

    def sweep(self, living: int) -> str:
        """The remedy where no sweep has run."""
        if not living:
            return f"no worker is alive to sweep: start one, or run {self.command('recover')}"
        return (
            f"run {self.command('recover')}. The live workers should have done it: look at their logs,"
            " and for a transaction that keeps the rows locked"
        )


Judge: TypeAlias = Callable[[Patient, Sequence[Row]], Iterable[Finding]]
