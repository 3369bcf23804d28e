from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render

from django import forms
from howdah.django import task_backends
from shop.models import Order
from shop.tasks import export


class OrderForm(forms.ModelForm):
    class Meta:
        model = Order
        fields = ("customer", "rows", "paid")


def new_order(request: HttpRequest) -> HttpResponse:
    form = OrderForm(request.POST or None)
    if not form.is_valid():
        return render(request, "shop/order.html", {"form": form})
    with transaction.atomic():
        # No on_commit: the job is there when the order is.
        order = form.save()
        result = export.enqueue(order=order.pk)
    return redirect("progress", result.id)


def progress(request: HttpRequest, result_id: str) -> HttpResponse:
    return render(request, "shop/progress.html", {"result_id": result_id})


def status(_: HttpRequest, result_id: str) -> JsonResponse:
    backend = task_backends["default"]
    result, job = backend.get_result(result_id), backend.get_job(result_id)
    value = result.return_value if job.status == "completed" else job.last_error or ""
    return JsonResponse({"status": result.status, "percent": job.percent, "ended": result.is_finished, "value": value})
