"""The pages, and the forms on them: a module for each screen."""

from __future__ import annotations

from starlette.routing import BaseRoute

from howdah.web.pages import (
    audit,
    bulk,
    health,
    job,
    jobs,
    limits,
    overview,
    schedules,
    signals,
    types,
    workers,
    workflows,
)
from howdah.web.site import Site


def page_routes(site: Site) -> list[BaseRoute]:
    modules = (overview, bulk, jobs, job, workflows, signals, types, workers, schedules, limits, health, audit)
    return [route for module in modules for route in module.routes(site)]
