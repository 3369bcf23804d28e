"""Mail."""

from depot import queue
from depot.reports import daily


@queue.job(name="example_send")
def send(to: str, text: str) -> str:
    print(f"to {to}: {text}")
    # The two modules import each other: by its module, the other function is found when it is needed.
    return f"sent, as {daily.draw.name} wanted"
