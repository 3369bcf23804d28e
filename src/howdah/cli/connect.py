"""The queue that the options and the environment name."""

from __future__ import annotations

import argparse
import os

from howdah.database import DEFAULT_SCHEMA
from howdah.queue import JobQueue


def chosen_schema(args: argparse.Namespace) -> str:
    schema: str | None = args.schema
    return schema or os.environ.get("HOWDAH_SCHEMA") or DEFAULT_SCHEMA


def open_queue(args: argparse.Namespace, schema: str | None = None) -> JobQueue:
    return JobQueue(args.dsn, schema or chosen_schema(args))
