"""Runs the checklist on the Django that is installed: ``python -m tests.django``.

HOWDAH_DJANGO_DSN: the server, on which a test database is made. Without it, a temporary one.
"""

from __future__ import annotations

import contextlib
import os
import sys

from howdah.testing import temporary_server


def main() -> int:
    given = os.environ.get("HOWDAH_DJANGO_DSN")
    with contextlib.nullcontext(given) if given else temporary_server() as dsn:
        os.environ["HOWDAH_DJANGO_DSN"] = dsn
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.django.settings"
        from django.conf import settings
        from django.test.utils import get_runner

        import django

        django.setup()
        names = [f"tests.django.checklist.{name}" for name in sys.argv[1:]] or ["tests.django.checklist"]
        failures = get_runner(settings)(verbosity=1, interactive=False).run_tests(names)
        print(f"Django {django.get_version()}: {failures} failed")
        return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
