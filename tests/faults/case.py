"""A case: a fault, the load that it comes upon, and what must hold nevertheless."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.faults.stage import Stage

CASES: Final[dict[str, Case]] = {}
"""By name, in the order of their numbers once all of them are known (see catalogue.py)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """Its number and name are those of the table in docs/explanation/faults.md."""

    number: int
    name: str
    checks: tuple[str, ...]
    own_server: bool
    settings: dict[str, str]
    audited: bool
    handlers: str
    fails: frozenset[str]
    refuses: bool
    roles: bool
    play: Callable[[Stage], None]

    @property
    def story(self) -> str:
        """What it does: the docstring of its function."""
        return inspect.getdoc(self.play) or ""


class Skipped(Exception):
    """Something that the case needs is not here."""


def case(
    number: int,
    name: str,
    checks: str,
    *,
    own_server: bool = False,
    settings: dict[str, str] | None = None,
    audited: bool = True,
    handlers: str = "handlers",
    fails: str = "doomed",
    refuses: bool = False,
    roles: bool = False,
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Adds a case.

    A server of its own is for those that stop it, fill it, or need settings; handlers names their module. Jobs of the types
    in fails may end otherwise than completed, and no others; refuses says that the database is taken away, so that
    enqueues may be refused. roles asks for the roles of the queue, which are the whole server's.
    """

    def add(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        assert name not in CASES, f"there are two cases named {name}"
        CASES[name] = Case(
            number=number,
            name=name,
            checks=tuple(checks.split()),
            own_server=own_server,
            settings=settings or {},
            audited=audited,
            handlers=handlers,
            fails=frozenset(fails.split()),
            refuses=refuses,
            roles=roles,
            play=play,
        )
        return play

    return add
