"""What the doctor returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

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
