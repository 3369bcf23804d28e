"""A workflow: a fan-out over a result that is not known yet, its join, a part that breaks, and how it goes on from there."""

from __future__ import annotations

import asyncio

from howdah import Flow, Job, JobQueue

queue = JobQueue()
broken = {3}


@queue.job(name="example_list")
def list_parts(book: str) -> list[int]:
    return list(range(1, len(book) + 1))


@queue.job(name="example_translate", max_attempts=1)
def translate(part: int, book: str) -> str:
    if part in broken:
        raise ValueError(f"part {part} is not legible")
    return f"{book} {part}"


@queue.job(name="example_bind")
def bind(parts: list[str]) -> str:
    return ", ".join(parts)


@queue.job(name="example_tell")
def tell(job: Job) -> None:
    print(f"an editor reads about a workflow: {job.workflow_id is not None}")


def show(flow: Flow) -> None:
    for node in flow.nodes():
        ended = node.progress.ended
        print(f"{node.name:10} {node.status:10} {ended} of {node.progress.total} {node.error or ''}".rstrip())


def main() -> None:
    with queue.workflow("example", data={"book": "Emma"}) as flow:
        parts = flow.map(translate, flow.add(list_parts, book="Emma", name="list"), book="Emma", name="translate")
        flow.add(bind, parts=parts, name="bind")
        flow.add(tell, after=parts, when="failure", name="tell")
    run()
    print(f"the workflow has {flow.wait_for(30).status}: {flow.get().error}")
    show(flow)
    broken.clear()
    print(f"{flow.retry()} nodes run again")
    run()
    print(f"the workflow has {flow.wait_for(30).status}, {flow.progress().completed} jobs have completed")
    show(flow)
    bound = next(node for node in flow.nodes() if node.name == "bind")
    assert bound.first_id is not None
    print(f"bound: {queue.get(bound.first_id).value()}")


def run() -> None:
    asyncio.run(queue.run_worker(drain=True))


if __name__ == "__main__":
    main()
