"""The queue that a command works on: that of the options and the environment, or one of a module (``package.module:queue``)."""

from __future__ import annotations

import argparse
import importlib
import operator
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from howdah.encryption import ENVIRONMENT, EncryptedCodec
from howdah.errors import InvalidInput
from howdah.model.codec import Codec
from howdah.queue import JobQueue

USUAL_NAME: Final = "queue"


def open_queue(args: argparse.Namespace, schema: str | None = None) -> JobQueue:
    return JobQueue(args.dsn, schema or args.schema, codec=chosen_codec())


def chosen_codec() -> Codec | None:
    """Keys of the environment. Values that are not encrypted can be read, too."""
    return EncryptedCodec.from_environment(allow_plain=True) if os.environ.get(ENVIRONMENT) else None


# The queue of a module


def load_queue(target: str, modules: Sequence[str] = ()) -> JobQueue:
    """Imports the module, with the current directory first on the path, and returns its queue.

    modules: imported, too, like those that its queue lists, so that they register their handlers.
    """
    name, _, attribute = target.partition(":")
    if not _is_module(name):
        raise InvalidInput(f"{target!r} is not the name of a module: write package.module, or package.module:queue")
    for module in modules:
        if ":" in module:
            raise InvalidInput(
                f"{module!r} names a second queue: only the first module has one. Run a worker for each queue"
            )
        if not _is_module(module):
            raise InvalidInput(f"{module!r} is not the name of a module: write package.module")
    _look_here_first()
    queue = _queue_in(_import(name), attribute or USUAL_NAME)
    for module in (*queue.modules, *modules):
        _import(module)
    return queue


def _is_module(name: str) -> bool:
    return bool(name) and "/" not in name and not name.startswith(".") and not name.endswith((".", ".py"))


def _look_here_first() -> None:
    here = str(Path.cwd())
    if sys.path[:1] != [here]:
        sys.path.insert(0, here)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise InvalidInput(
                f"there is no module {error.name!r} in the current directory or among the installed packages"
            ) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> InvalidInput:
    message = " ".join(f"{type(error).__name__}: {_message_of(error)}".split())
    return InvalidInput(f"importing {name} failed: {message.removesuffix(':')}{_place_of(error)}")


def _message_of(error: BaseException) -> str:
    return (error.msg if isinstance(error, SyntaxError) else str(error)) or ""


def _place_of(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_short(error.filename)}, line {error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_somewhere(frame.filename)]
    return f" ({_short(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""


def _is_somewhere(filename: str) -> bool:
    # Frames of the import system do not help.
    return not filename.startswith("<frozen") and filename not in (__file__, importlib.__file__)


def _short(filename: str) -> str:
    return filename.removeprefix(f"{Path.cwd()}{os.sep}")


def _queue_in(module: ModuleType, attribute: str) -> JobQueue:
    try:
        found = operator.attrgetter(attribute)(module)
    except AttributeError:
        raise InvalidInput(f"{module.__name__} has no {attribute!r}; {_what_is_there(module)}") from None
    if not isinstance(found, JobQueue):
        raise InvalidInput(
            f"{module.__name__}:{attribute} is a {type(found).__name__}, not a JobQueue; {_what_is_there(module)}"
        )
    return found


def _what_is_there(module: ModuleType) -> str:
    names = sorted(_queues_of(module))
    if not names:
        return "it has no JobQueue"
    return f"its JobQueue is {names[0]}" if len(names) == 1 else f"its JobQueues are {', '.join(names)}"


def _queues_of(module: ModuleType) -> Iterator[str]:
    return (f"{module.__name__}:{name}" for name, value in vars(module).items() if isinstance(value, JobQueue))
