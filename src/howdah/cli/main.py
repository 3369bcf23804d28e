"""The entry point: runs a command, and turns an error into a line and an exit code."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final

import psycopg

from howdah.cli import parser
from howdah.cli.render.output import be_lenient, forget, remark, say
from howdah.cli.render.terminal_escape import presentable
from howdah.errors import DatabaseUnavailable, EmbeddedServerError, HowdahError, InvalidInput, SchemaError
from howdah.model.failure import loggable
from howdah.standard_streams import open_closed_ones

NOT_DONE: Final = 1
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

_EXIT_CODES: Final[dict[type[Exception], int]] = {
    InvalidInput: 2,
    SchemaError: 3,
    DatabaseUnavailable: 4,
    EmbeddedServerError: 5,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    open_closed_ones()
    be_lenient()
    try:
        return _run(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (HowdahError, psycopg.Error) as error:
        return _report(error)
    except KeyboardInterrupt:
        remark("howdah: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        forget(sys.stdout)
        return PIPE_CLOSED


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    grammar = parser.build(words)
    args = grammar.parse_args(words)
    if args.run is None:
        say(grammar.format_help().rstrip())
        return 0
    code: int | None = args.run(args)
    # Here, where a closed pipe can still be handled, and not when Python exits.
    with contextlib.suppress(ValueError):  # already closed by a handler
        sys.stdout.flush()
    return code or 0


def _report(error: HowdahError | psycopg.Error) -> int:
    if os.environ.get("HOWDAH_DEBUG", "0") not in ("", "0"):
        sys.stderr.write(presentable("".join(traceback.format_exception(loggable(error)))))
    remark(" ".join([f"howdah: {str(loggable(error)).strip()}", *getattr(error, "__notes__", ())]))
    return next((code for kind, code in _EXIT_CODES.items() if isinstance(error, kind)), NOT_DONE)
