"""``howdah workflow``: workflows, and what each of their nodes waits for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Final, get_args

from rich.text import Text

from howdah.cli.arguments.connect import open_queue
from howdah.cli.arguments.datetimes import full, relative
from howdah.cli.command import Command, action_adder
from howdah.cli.render.output import answers, facts, indented, plain, plural, print_json, remark, say, table, text
from howdah.model.workflow import Node, NodeStatus, Workflow, WorkflowProgress, WorkflowStatus

_STYLES: Final[dict[NodeStatus, str]] = {
    "waiting": "yellow",
    "running": "cyan",
    "completed": "green",
    "failed": "red",
    "cancelled": "magenta",
    "skipped": "dim",
}
_MOST_NODES: Final = 200


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = action_adder(parser)
    listing = add("list", "workflows, the newest first", _list)
    listing.add_argument("--name", metavar="NAME", help="only those of this name")
    listing.add_argument("--status", choices=get_args(WorkflowStatus), help="only those in this status")
    listing.add_argument("--limit", metavar="N", type=int, default=50, help="how many at most (default: 50)")
    _add_id(add("show", "one, with its nodes as a tree", _show))
    cancel = add("cancel", "cancel one: no more nodes start, except those that always run", _cancel)
    _add_id(cancel)
    cancel.add_argument("--reason", metavar="TEXT", help="stored with the workflow and its jobs")
    again = add("retry", "continue one from the nodes that failed", _retry)
    _add_id(again)
    again.add_argument("--node", metavar="NAME", help="run this node again, and all that depends on it")


def _add_id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("workflow", metavar="ID", help="its id, or its name for the newest one of that name")
    parser.add_argument("--key", metavar="KEY", help="with a name: the one of this key")


# Actions


def _list(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        found = queue.workflows.list(name=args.name, status=args.status, limit=args.limit)
    if args.json:
        for each in found:
            print_json(each)
    elif found:
        _print_table(found)
    else:
        remark("there are no such workflows")


def _show(args: argparse.Namespace) -> None:
    with open_queue(args) as queue:
        flow = queue.workflows.get(args.workflow, args.key)
        workflow, nodes = flow.get(), flow.nodes()
    if args.json:
        print_json(plain(workflow) | {"nodes": nodes})
        return
    say(text(workflow.name, "bold") + Text("  ") + text(workflow.status, _STYLES[workflow.status]))
    answers().print(indented(facts(_facts(workflow))))
    for line in _tree(nodes[:_MOST_NODES]):
        answers().print(line, soft_wrap=True)
    if len(nodes) > _MOST_NODES:
        remark(f"and {plural(len(nodes) - _MOST_NODES, 'more node')}: --json has all")


def _cancel(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        flow = queue.workflows.get(args.workflow, args.key)
        changed = flow.cancel(args.reason)
    if args.json:
        print_json({"id": str(flow.id), "changed": changed})
    elif changed:
        say(f"workflow {flow.id} is cancelled")
    else:
        remark(f"workflow {flow.id} has ended, or was cancelled before")
    return 0 if changed else 1


def _retry(args: argparse.Namespace) -> int:
    with open_queue(args) as queue:
        flow = queue.workflows.get(args.workflow, args.key)
        nodes = flow.retry(args.node)
    if args.json:
        print_json({"id": str(flow.id), "nodes": nodes})
    elif nodes:
        say(f"workflow {flow.id} continues: {plural(nodes, 'node')} {'runs' if nodes == 1 else 'run'} again")
    else:
        remark(f"workflow {flow.id} has no failed, cancelled or skipped node")
    return 0 if nodes else 1


# Workflows, to read


def _print_table(workflows: Sequence[Workflow]) -> None:
    made = table("id", "name", "key", "status", "jobs", "created", right=("jobs",), flexible=("name", "key"))
    for each in workflows:
        made.add_row(
            text(each.id),
            text(each.name, "bold"),
            text(each.key or ""),
            text(each.status, _STYLES[each.status]),
            text(_of(each.progress)),
            text(relative(each.created_at)),
        )
    answers().print(made)


def _of(progress: WorkflowProgress) -> str:
    return f"{progress.ended:,}/{progress.total:,}"


def _facts(workflow: Workflow) -> Iterator[tuple[str, object]]:
    progress = workflow.progress
    yield "id", workflow.id
    yield "key", workflow.key
    counted = ((progress.completed, "completed"), (progress.failed, "failed"), (progress.cancelled, "cancelled"))
    of_these = ", ".join(f"{count:,} {status}" for count, status in counted if count)
    yield "jobs", f"{progress.ended:,} of {progress.total:,} have ended{f': {of_these}' if of_these else ''}"
    yield "created", full(workflow.created_at)
    yield "finished", workflow.finished_at and full(workflow.finished_at)
    yield "deadline", workflow.deadline_at and full(workflow.deadline_at)
    yield "error", workflow.error
    yield "cancelled", workflow.cancel_reason


def _tree(nodes: Sequence[Node]) -> Iterator[Text]:
    """Each node once, below the parent that was added last; the others are named behind it."""
    children: dict[str | None, list[Node]] = {}
    shown = {node.name for node in nodes}
    for node in nodes:
        parents = [parent for parent in node.parents if parent in shown]
        children.setdefault(parents[-1] if parents else None, []).append(node)
    pending = [("", node) for node in reversed(children.get(None, []))]
    while pending:
        indent, node = pending.pop()
        yield _line(indent, node)
        pending += [(indent + "  ", child) for child in reversed(children.get(node.name, []))]


def _line(indent: str, node: Node) -> Text:
    line = Text(f"  {indent}") + text(node.name, "bold") + Text("  ") + text(node.status, _STYLES[node.status])
    if node.kind != "job" or node.progress.total > 1:
        line += text(f"  {_of(node.progress)}")
    if node.when != "success":
        line += text(f"  {'always' if node.when == 'always' else 'on failure'}", "dim")
    if node.status == "waiting" and node.parents:
        line += text(f"  waits for {', '.join(node.parents)}", "dim")
    elif len(node.parents) > 1:
        line += text(f"  after {', '.join(node.parents)}", "dim")
    if node.error:
        line += text(f"  {node.error}", "dim")
    return line


COMMAND = Command(
    name="workflow",
    summary="show, cancel and retry workflows",
    story="""
        A workflow is a graph of jobs. howdah workflow show prints its nodes as a tree, each below the last of the nodes that it waits
        for, with its status and how many of its jobs have ended.
    """,
    examples=(
        ("howdah workflow list --status running", "what is under way"),
        ("howdah workflow show import", "the newest one of this name, with its nodes"),
        ("howdah workflow retry import", "continue it from the nodes that failed"),
        ("howdah workflow retry import --node merge", "this node again, and all that depends on it"),
    ),
    add_arguments=_add_arguments,
)
