"""What a table answers to a statement, and how two answers are compared."""

from __future__ import annotations

import dataclasses
import uuid
from datetime import datetime, timezone
from typing import Any, Final

from tests.properties.plain_deviations import Row

RECENTLY: Final = datetime(2020, 1, 1, tzinfo=timezone.utc)


@dataclasses.dataclass(frozen=True)
class Answer:
    """How a statement ended, how many rows it counted, and the rows. None where its form does not return that."""

    sqlstate: str | None = None
    number: int | None = None
    rows: list[Row] | None = None

    def __str__(self) -> str:
        return self.sqlstate or ("done" if self.number is None else f"{self.number} rows")

    @property
    def seen(self) -> tuple[Any, ...]:
        """What is compared. Rows come in no promised order."""
        rows = None if self.rows is None else sorted(map(seen, self.rows), key=lambda row: str(row["id"]))
        return self.sqlstate, self.number, rows

    def corrected(self, written: dict[uuid.UUID, Row | None], moved: set[uuid.UUID]) -> Answer:
        """The plain table's answer with what the deviations make of it: rows that are written otherwise, or not at all."""
        if self.rows is not None:
            passed_over = moved | {id for id, row in written.items() if row is None}
            kept = [row for row in self.rows if row["id"] not in passed_over]
            rows = [{column: (written.get(row["id"]) or row)[column] for column in row} for row in kept]
            return dataclasses.replace(self, number=len(rows), rows=rows)
        if self.number is not None:
            return dataclasses.replace(self, number=self.number - sum(row is None for row in written.values()))
        return self


def seen(row: Row) -> dict[str, Any]:
    """A row as it is compared. Each table has its own now; a moment long ago comes from the test, and is the same."""
    return {
        column: "recently" if isinstance(value, datetime) and value > RECENTLY else value
        for column, value in row.items()
        if column != "ctid"
    }
