"""What the doctor answers with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

Severity: TypeAlias = Literal["error", "warning"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong.

    code: its name, which stays. severity: "error" if jobs stand still or may be lost, "warning" otherwise.
    what: one sentence. culprit: who or what it comes from. remedy: what to do, with the statement or command.
    details: the figures behind it.
    """

    code: str
    severity: Severity
    what: str
    culprit: str
    remedy: str
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Something that could not be looked at, so that nothing is known of it.

    codes: what might be found there. because: why not. remedy: what would let the doctor see it.
    """

    codes: Sequence[str]
    because: str
    remedy: str


class Diagnosis(list[Finding]):
    """The findings, errors first; ``unseen`` lists what could not be looked at."""

    def __init__(self, findings: Iterable[Finding] = (), unseen: Iterable[Unseen] = ()) -> None:
        super().__init__(findings)
        self.unseen = list(unseen)

    @property
    def healthy(self) -> bool | None:
        """None if nothing was found, but not everything could be looked at."""
        if self:
            return False
        return None if self.unseen else True
