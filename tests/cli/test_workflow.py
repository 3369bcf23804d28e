"""``howdah workflow``: lists, shows, cancels and retries workflows."""

from __future__ import annotations

import json

from howdah import JobQueue
from tests.cli.runner import howdah
from tests.worker.in_process import drain


def test_it_shows_what_each_node_waits_for_and_lets_a_workflow_go_on(dsn: str, queue: JobQueue) -> None:
    @queue.job(max_attempts=1)
    def fetch() -> None:
        raise ValueError("no such file")

    @queue.job
    def part(n: int) -> None: ...

    with queue.workflow("import", key="17") as flow:
        parts = flow.map(part, range(3), name="parts", after=flow.add(fetch))
        flow.add("merge", after=[parts, flow.add(part, n=7, name="other")])
        flow.add("report", after=parts, when="failure")
    drain(queue, types=["part"])
    shown = howdah("workflow", "show", "import", "--key", "17", dsn=dsn)
    assert (shown.code, "1 of 7 have ended" in shown.out) == (0, True)
    tree = [line.strip() for line in shown.out.splitlines() if line.startswith("  ") and "  " in line.strip()][-5:]
    assert tree == [
        "fetch  running",
        "parts  waiting  0/3  waits for fetch",
        "report  waiting  on failure  waits for parts",
        "other  completed",
        "merge  waiting  waits for parts, other",
    ]
    drain(queue)
    listed = howdah("workflow", "list", "--name", "import", dsn=dsn)
    assert ("import" in listed.out, "17" in listed.out) == (True, True)
    (row,) = howdah("workflow", "list", "--json", dsn=dsn).out.splitlines()
    assert json.loads(row)["progress"]["failed"] == 1
    again = howdah("workflow", "retry", str(flow.id), "--json", dsn=dsn)
    assert (again.code, json.loads(again.out)["nodes"]) == (0, 4)
    cancelled = howdah("workflow", "cancel", str(flow.id), "--reason", "wrong file", dsn=dsn)
    assert cancelled.out == f"workflow {flow.id} is cancelled\n"
    assert howdah("workflow", "cancel", str(flow.id), dsn=dsn).code == 1
    assert flow.get().cancel_reason == "wrong file"
    nodes = json.loads(howdah("workflow", "show", str(flow.id), "--json", dsn=dsn).out)["nodes"]
    assert {node["name"]: node["status"] for node in nodes}["fetch"] == "cancelled"
    missing = howdah("workflow", "show", "nothing", dsn=dsn)
    assert (missing.code, "there is no workflow nothing" in missing.err) == (1, True)
    assert howdah("workflow", "list", "--status", "failed", dsn=dsn).err == "there are no such workflows\n"
