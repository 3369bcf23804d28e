"""What a handler is called with: its job's data, the job itself, and the resources it asked for."""

from __future__ import annotations

from typing import Any

from howdah.handlers import resource
from howdah.model.claimed_job import data_as_json
from howdah.worker.run.run import Run


def bound(run: Run) -> dict[str, Any]:
    """The keyword arguments of a run's call. Raises InvalidArguments where the data does not fit."""
    arguments = run.handler.arguments
    if arguments.job_parameter is not None:
        run.bind()
    if run.handler.batch is not None:
        assert arguments.job_parameter is not None
        called: dict[str, Any] = {arguments.job_parameter: list(run.jobs)}
    else:
        (job,) = run.jobs
        text = data_as_json(job)
        called = arguments.decode(job.data) if text is None else arguments.decode_json(text)
        if arguments.job_parameter is not None:
            called[arguments.job_parameter] = job
    for name, marker in arguments.resources.items():
        called[name] = resource.find(run.resources, arguments.resource_types[name], marker)
    return called
