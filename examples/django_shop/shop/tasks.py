"""The tasks of this app: found because the module is named tasks."""

from __future__ import annotations

import time

from django.db import transaction

from howdah.django import TaskContext, periodic, task
from shop.models import Order


class NotPaid(Exception):
    """Another attempt would not help."""


@task(queue_name="exports", takes_context=True, timeout=300, retry=[1, 10, 60], give_up=[NotPaid], unique=["order"])
def export(context: TaskContext, order: int, pause: float = 0.05) -> str:
    exported = Order.objects.get(pk=order)
    if not exported.paid:
        raise NotPaid(f"{exported} is not paid")
    for _ in context.job.track(range(exported.rows), "rows"):
        time.sleep(pause)
    result = f"{exported.rows} rows for {exported.customer}"
    with transaction.atomic():
        # The effect and the end of the job are one transaction: neither is there without the other.
        Order.objects.filter(pk=order).update(exported=True)
        context.job.complete(result, conn="default")
    return result


@periodic("0 3 * * *")
@task
def forget_unpaid() -> int:
    deleted, _ = Order.objects.filter(paid=False, exported=False).delete()
    return deleted
