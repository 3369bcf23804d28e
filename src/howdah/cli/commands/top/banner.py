"""What stands at the top: where the queue is, and how it goes as a whole."""

from __future__ import annotations

from datetime import datetime

from psycopg.conninfo import conninfo_to_dict
from rich.text import Text

from howdah.cli.commands.top import figures
from howdah.cli.commands.top.rates import Rates
from howdah.cli.commands.top.snapshot import Snapshot
from howdah.cli.render.output import text
from howdah.cli.render.status import STYLES


def address(dsn: str) -> str:
    """Where the database is, made of the parts that are no secret."""
    parts = {name: str(value) for name, value in conninfo_to_dict(dsn).items() if value is not None}
    user = f"{parts['user']}@" if "user" in parts else ""
    # Several hosts without ports leave commas between nothing.
    port = f":{parts['port']}" if parts.get("port", "").strip(",") else ""
    where = f"{user}{parts.get('host', parts.get('hostaddr', ''))}{port}"
    database = parts.get("dbname", "")
    return f"{where}/{database}" if where or not database else database


def time_of_day(moment: datetime) -> str:
    return f"{moment.astimezone():%H:%M:%S}"


def place(where: str, schema: str, snapshot: Snapshot) -> Text:
    """Of which queue this is, and of when."""
    return Text.assemble(
        ("howdah top", "bold"),
        "  ",
        text(where),
        ("  schema ", "dim"),
        text(schema),
        (f"  {time_of_day(snapshot.at)}", "bold"),
    )


def totals(snapshot: Snapshot, rates: Rates) -> Text:
    """All types together."""
    total = snapshot.stats.total
    parts = [
        _part(total.pending, "pending", STYLES["pending"]),
        _part(total.scheduled, "later"),
        _part(total.running, "running", STYLES["running"]),
        _part(total.stalled, "stalled", "bold yellow"),
        _part(total.completed, "completed", STYLES["completed"]),
        _part(total.failed, "failed", STYLES["failed"]),
    ]
    if rates.total is not None:
        parts.append(Text.assemble(figures.per_second(rates.total), " jobs/s"))
    return Text("  ").join(parts)


def _part(number: int, name: str, style: str = "") -> Text:
    return Text.assemble(figures.count(number, style), f" {name}")
