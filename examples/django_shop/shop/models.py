from __future__ import annotations

from django.db import models


class Order(models.Model):
    customer = models.CharField(max_length=100)
    rows = models.PositiveIntegerField(default=40)
    paid = models.BooleanField(default=False)
    exported = models.BooleanField(default=False, editable=False)

    def __str__(self) -> str:
        return f"order {self.pk} of {self.customer}"
