from __future__ import annotations

from django.test import TestCase

from howdah.django.models import Job
from howdah.django.testing import run_pending
from shop.models import Order
from shop.tasks import export, forget_unpaid


class OrderTests(TestCase):
    def test_a_paid_order_is_exported(self) -> None:
        self.client.post("/", {"customer": "Ada", "rows": 3, "paid": "on"})
        (result,) = run_pending()
        self.assertEqual(result.return_value, "3 rows for Ada")
        self.assertTrue(Order.objects.get().exported)

    def test_an_order_that_is_not_paid_is_not_tried_again(self) -> None:
        order = Order.objects.create(customer="Grace", rows=1)
        export.enqueue(order=order.pk)
        (result,) = run_pending()
        self.assertEqual((result.status, result.attempts), ("FAILED", 1))
        self.assertEqual(run_pending(advance=3600), [])

    def test_an_order_is_exported_once(self) -> None:
        order = Order.objects.create(customer="Ada", paid=True)
        self.assertEqual(export.enqueue(order=order.pk).id, export.enqueue(order=order.pk).id)
        self.assertEqual(Job.objects.count(), 1)

    def test_nothing_is_enqueued_for_an_order_that_is_not_valid(self) -> None:
        self.client.post("/", {"customer": "", "rows": 3})
        self.assertEqual(Job.objects.count(), 0)

    def test_unpaid_orders_are_forgotten_at_night(self) -> None:
        Order.objects.create(customer="Grace")
        results = run_pending(advance=24 * 3600, schedules=True)
        self.assertEqual([each.task.name for each in results], [forget_unpaid.name])
        self.assertEqual(Order.objects.count(), 0)
