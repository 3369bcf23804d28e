"""The queue that the options and the environment name."""

from __future__ import annotations

import argparse
import os

from howdah.encryption import ENVIRONMENT, EncryptedCodec
from howdah.model.codec import Codec
from howdah.queue import JobQueue


def open_queue(args: argparse.Namespace, schema: str | None = None) -> JobQueue:
    return JobQueue(args.dsn, schema or args.schema, codec=chosen_codec())


def chosen_codec() -> Codec | None:
    """Keys of the environment. Values that are not encrypted can be read, too."""
    return EncryptedCodec.from_environment(allow_plain=True) if os.environ.get(ENVIRONMENT) else None
