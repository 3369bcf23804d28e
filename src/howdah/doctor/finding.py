"""What the doctor returns, and what its checks share."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from howdah.db.plan import Row
from howdah.doctor.words import command

Severity: TypeAlias = Literal["error", "warning"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong.

    code: its name, stable across versions. severity: "error" if jobs stand still or may be lost, "warning" otherwise.
    what: one sentence. cause: the object it comes from. remedy: what to do, with the statement or command.
    details: the figures behind it.
    """

    code: str
    severity: Severity
    what: str
    cause: str
    remedy: str
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Something that the doctor could not look at.

    codes: what it might have found there. because: why it could not look. remedy: what would let it.
    """

    codes: Sequence[str]
    because: str
    remedy: str


class Diagnosis(list[Finding]):
    """The findings, errors first; ``unseen`` lists what the doctor could not look at."""

    def __init__(self, findings: Iterable[Finding] = (), unseen: Iterable[Unseen] = ()) -> None:
        super().__init__(findings)
        self.unseen = list(unseen)

    @property
    def healthy(self) -> bool | None:
        """None if nothing was found, but the doctor could not look at everything."""
        if self:
            return False
        return None if self.unseen else True


# What the checks share


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
