"""The app: finds the tasks of all apps, and brings the schema up to date with ``manage.py migrate``."""

from __future__ import annotations

import importlib

from django.apps import AppConfig
from django.core import checks as django_checks
from django.core.signals import setting_changed
from django.db.models.signals import post_migrate


class HowdahConfig(AppConfig):
    name = "howdah.django"
    label = "howdah"
    verbose_name = "Howdah"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from howdah.django import backend, checks, registry, schema
        from howdah.django.framework import task_backends

        registry.discover()
        for alias in task_backends:
            for module in task_backends.settings[alias].get("OPTIONS", {}).get("modules", ()):
                importlib.import_module(module)
        django_checks.register(checks.check_app)
        django_checks.register(checks.check_schema, django_checks.Tags.database)
        setting_changed.connect(backend.forget_queues, dispatch_uid="howdah.django")
        post_migrate.connect(schema.upgrade, sender=self, dispatch_uid="howdah.django")
