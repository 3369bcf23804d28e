"""``howdah workflow``: lists, shows, cancels and retries workflows."""

from __future__ import annotations

import json

from howdah import Job, JobQueue
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


def test_watch_shows_the_whole_and_its_jobs_until_it_has_ended(dsn: str, queue: JobQueue) -> None:
    broken = True

    @queue.job(max_attempts=1)
    def fetch(job: Job, n: int) -> None:
        job.event("fetched", n=n)
        if broken and n:
            raise ValueError("no such file")

    with queue.workflow("import", key="17") as flow:
        flow.map(fetch, [0, 1], name="fetches")
    drain(queue)
    for given in (["--workflow", "import"], ["--workflow", "import", "--key", "17"], [str(flow.id)]):
        shown = howdah("watch", *given, dsn=dsn)
        assert shown.code == 1
        said = [line.split(" UTC ")[1] for line in shown.out.splitlines()]
        assert said[0] == f"{flow.id} import status running"
        assert said[-1].startswith(f"{flow.id} import status failed: node fetches failed")
        assert len([line for line in said if "fetch event fetched" in line]) == 2
    shown = howdah("watch", "--workflow", "import", "--json", "--kinds", "progress", dsn=dsn)
    (whole,) = shown.lines
    assert (whole["kind"], whole["job_id"], whole["job"]) == ("progress", str(flow.id), None)
    assert (whole["workflow"]["status"], whole["workflow"]["progress"]["failed"]) == ("failed", 1)
    broken = False
    flow.retry()
    drain(queue)
    again = howdah("watch", "--workflow", "import", "--after", whole["position"], dsn=dsn)
    assert again.code == 0
    assert [line.rpartition(f"{flow.id} import ")[2] for line in again.out.splitlines() if str(flow.id) in line] == [
        "status running",
        "status completed",
    ]
    missing = howdah("watch", "--workflow", "nothing", dsn=dsn)
    assert (missing.code, "there is no workflow nothing" in missing.err) == (1, True)
    both = howdah("watch", "fetch", "--workflow", "import", dsn=dsn)
    assert (both.code, "--workflow watches one workflow" in both.err) == (2, True)


def test_top_lists_the_workflows_that_run(dsn: str, queue: JobQueue) -> None:
    @queue.job
    def part(n: int) -> None: ...

    with queue.workflow("ended") as ended:
        ended.map(part, range(2))
    drain(queue)
    with queue.workflow("import", key="17") as flow:
        flow.map(part, range(3), name="parts")
    (job,) = queue.claim(["part"], 1)
    queue.complete(job)
    (top,) = howdah("top", "--json", dsn=dsn).lines
    (shown,) = top["workflows"]
    assert (shown["id"], shown["progress"]["completed"], shown["progress"]["remaining"]) == (str(flow.id), 1, 2)
    out = howdah("top", "--once", dsn=dsn).out
    (row,) = [line for line in out.partition("running workflows\n")[2].splitlines() if line.startswith("import")]
    assert row.split()[:3] == ["import", "17", "1/3"]
