"""What happened, for the auditors."""

from depot import audit


@audit.job(name="example_record")
async def record(what: str) -> None:
    print(f"recorded: {what}")
