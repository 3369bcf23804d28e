"""The settings of the checklist. Without migrations of its own, the app's table is made by the test runner."""

from __future__ import annotations

import os
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from howdah.django.framework import IS_BACKPORT

dsn = conninfo_to_dict(os.environ["HOWDAH_DJANGO_DSN"])
DATABASES: dict[str, dict[str, Any]] = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": dsn["dbname"],
        **{name.upper(): dsn[name] for name in ("user", "host", "port", "password") if name in dsn},
    }
}
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    *(["django_tasks"] if IS_BACKPORT else []),
    "howdah.django",
    "tests.django.app",
]
TASKS = {
    "default": {
        "BACKEND": "howdah.django.HowdahBackend",
        "QUEUES": ["default", "mail", "one"],
        "OPTIONS": {"queues": {"one": {"limit": 1, "max_attempts": 1}}},
    },
    "immediate": {
        "BACKEND": ("django_tasks" if IS_BACKPORT else "django.tasks") + ".backends.immediate.ImmediateBackend"
    },
}
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "tests.django.urls"
SECRET_KEY = "for tests only"
USE_TZ = True
TIME_ZONE = "Europe/Berlin"
STATIC_URL = "static/"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "loggers": {name: {"level": "CRITICAL"} for name in ("howdah", "django.tasks", "django_tasks", "django.request")},
}
