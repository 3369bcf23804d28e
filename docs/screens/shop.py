"""A shop that is busy, for the pictures of the dashboard."""

from __future__ import annotations

import asyncio
import logging
import random

from howdah import Exponential, Flow, Job, JobQueue, Priority, Results

queue = JobQueue()
log = logging.getLogger("shop")
chance = random.Random(7)


@queue.job(priority=Priority.EXPLICIT)
async def send_invoice(invoice: int, customer: str) -> str:
    await asyncio.sleep(chance.expovariate(12))
    return f"invoice {invoice} of {customer} is sent"


@queue.job(max_attempts=3, retry=Exponential(delay=0.4, factor=2, jitter=0))
async def resize_photo(photo: int, sizes: list[int]) -> dict[str, int]:
    await asyncio.sleep(chance.expovariate(5))
    if chance.random() < 0.1:
        raise ValueError("the photo ends in the middle")
    return {"photo": photo, "bytes": 40_000 * len(sizes)}


@queue.job(priority=Priority.BACKFILL, per="customer", limit=2)
async def sync_customer(customer: str) -> None:  # noqa: ARG001
    await asyncio.sleep(chance.expovariate(4))


@queue.job(max_attempts=2, retry=Exponential(delay=1, factor=2, jitter=0))
async def fetch_rates(partner: str) -> None:
    await asyncio.sleep(0.2)
    raise ConnectionError(f"{partner} did not answer within 10 s")


@queue.job
async def import_catalog(job: Job, file: str, rows: int) -> int:
    with job.stage("download", weight=20):
        for part in job.track(range(10)):
            log.debug("part %s", part)
            await asyncio.sleep(0.1)
    log.info("%s has %s rows", file, rows)
    with job.stage("load"):
        for row in job.track(range(rows)):
            if row % 250 == 0:
                job.event("batch", first=row, last=row + 249)
            if row % 700 == 699:
                log.warning("row %s has no price", row)
            await asyncio.sleep(0.01)
    return rows


@queue.job
async def fetch_orders(day: str) -> list[int]:  # noqa: ARG001
    await asyncio.sleep(0.5)
    return list(range(1, 601))


@queue.job(max_attempts=1, limit=25)
async def parse_order(order: int) -> int:
    await asyncio.sleep(chance.uniform(0.5, 1.5))
    if order % 97 == 0:
        raise ValueError(f"order {order} has no address")
    return order


@queue.job(max_attempts=1)
async def fetch_prices(partner: str) -> int:
    await asyncio.sleep(2)
    if partner == "initech":
        raise ConnectionError(f"{partner} did not answer within 10 s")
    return len(partner)


@queue.job
async def check_prices() -> None:
    await asyncio.sleep(0.4)


@queue.job
async def merge_orders(parts: Results[int]) -> int:
    return len(parts)


@queue.job
async def write_report(orders: int) -> str:
    await asyncio.sleep(0.4)
    return f"{orders} orders"


@queue.job
async def publish() -> None:
    await asyncio.sleep(0.3)


@queue.job
async def warn_the_buyers() -> None:
    await asyncio.sleep(0.2)


@queue.job
async def clean_up() -> None:
    await asyncio.sleep(0.2)


@queue.job
async def refund(job: Job, order: int) -> str:
    await job.astep("ask", lambda: f"approve the refund of order {order}?")
    answer = await job.await_signal("refund approved", key=str(order), timeout=3 * 24 * 3600)
    return f"approved by {answer['by']}"


def daily_import(day: str, partners: tuple[str, ...]) -> Flow:
    """A workflow with a map, like nodes, and nodes that only run if something fails."""
    with queue.workflow("daily import", data={"day": day}, key=day) as flow:
        orders = flow.map(parse_order, flow.add(fetch_orders, day=day))
        merged = flow.add(merge_orders, parts=orders)
        prices = [flow.add(fetch_prices, name=f"prices of {each}", partner=each) for each in partners]
        checked = flow.add(check_prices, after=prices)
        report = flow.add(write_report, orders=merged)
        flow.add(publish, after=[report, checked])
        flow.add(warn_the_buyers, after=prices, when="failure")
        flow.add(clean_up, after=[report, checked], when="always")
    return flow


@queue.periodic("*/5 * * * *", timezone="Europe/Berlin")
@queue.job
async def nightly_report() -> None:
    await asyncio.sleep(1)


@queue.periodic(every=15)
@queue.job
async def clean_sessions() -> None:
    await asyncio.sleep(0.1)
