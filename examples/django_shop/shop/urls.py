from __future__ import annotations

from django.contrib import admin

from django.urls import path
from shop import views

urlpatterns = [
    path("", views.new_order),
    path("progress/<str:result_id>/", views.progress, name="progress"),
    path("status/<str:result_id>/", views.status),
    path("admin/", admin.site.urls),
]
