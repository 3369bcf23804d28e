"""Which queue ``howdah work`` runs, and the error if there is none."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from howdah import InvalidInput, InvalidOption, JobQueue
from howdah.cli.arguments.connect import load_queue

GOOD = "from howdah import JobQueue\nqueue = JobQueue('host=nowhere')\n"


@pytest.fixture(autouse=True)
def _imports_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(path: str, text: str) -> None:
    file = Path.cwd() / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_the_queue_is_found_by_its_usual_name_by_another_and_inside_of_something() -> None:
    write("here.py", GOOD + "jobs = JobQueue('host=nowhere', 'other')\nclass App:\n    work = jobs\n")
    assert load_queue("here").schema == "howdah"
    assert load_queue("here:queue") is load_queue("here")
    assert load_queue("here:jobs").schema == "other"
    assert load_queue("here:App.work") is load_queue("here:jobs")


def test_packages_are_imported_from_the_current_directory_first() -> None:
    # A name that the standard library has too.
    write("this/jobs.py", GOOD)
    write("this/__init__.py", "")
    assert load_queue("this.jobs").schema == "howdah"
    assert sys.path[0] == os.getcwd()  # noqa: PTH109


def test_the_modules_that_a_queue_lists_are_imported_and_may_import_it() -> None:
    write("shop/__init__.py", GOOD.replace(")\n", ", modules=['shop.mail', 'shop.reports.daily'])\n"))
    write("shop/mail.py", "from shop import queue\n@queue.job\ndef send(invoice: int) -> None: ...\n")
    write(
        "shop/reports/daily.py", "from shop import mail, queue\n@queue.job\ndef draw() -> None: mail.send.enqueue(1)\n"
    )
    assert load_queue("shop").handlers.keys() == {"send", "draw"}

    write("broken.py", GOOD.replace(")\n", ", modules=['shop.mail', 'shop.reports.dayly'])\n"))
    with pytest.raises(InvalidInput, match=r"there is no module 'shop\.reports\.dayly'"):
        load_queue("broken")


def test_a_worker_in_the_program_itself_has_them_too() -> None:
    write("books/__init__.py", GOOD.replace(")\n", ", modules=['books.mail'])\n"))
    write("books/mail.py", "from books import queue\n@queue.job\ndef send(invoice: int) -> None: ...\n")
    sys.path.insert(0, str(Path.cwd()))
    queue = importlib.import_module("books").queue
    assert not queue.handlers, "the handlers are imported only where they are needed"
    queue.worker()
    assert queue.handlers.keys() == {"send"}


@pytest.mark.parametrize("modules", ["shop.mail", [".mail"], ["shop/mail.py"], ["shop.mail", ""], [5]])
def test_what_is_not_a_list_of_modules_is_refused(modules: Any) -> None:
    with pytest.raises(InvalidOption, match=r"a list of names|not the full name of a module|a module is a str"):
        JobQueue("host=nowhere", modules=modules)


@pytest.mark.parametrize("name", ["nowhere", "here.nowhere", "nowhere.jobs"])
def test_a_module_that_is_not_there(name: str) -> None:
    write("here/__init__.py", "")
    with pytest.raises(InvalidInput, match=r"there is no module '(here\.)?nowhere' in the current directory"):
        load_queue(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import howdah\nimport not_installed",
            "ModuleNotFoundError: No module named 'not_installed' (here.py, line 2)",
        ),
        (
            "import here.part",
            "ModuleNotFoundError: No module named 'here.part'; 'here' is not a package (here.py, line 1)",
        ),
        ("from howdah import nothing", "(here.py, line 1)"),
        ("\n1 / 0", "ZeroDivisionError: division by zero (here.py, line 2)"),
        ("queue = =", "SyntaxError: invalid syntax (here.py, line 1)"),
        ("import sys\nsys.exit('two\\nlines')", "SystemExit: two lines (here.py, line 2)"),
        ("raise ValueError", "importing here failed: ValueError (here.py, line 1)"),
    ],
)
def test_an_error_inside_of_the_module_is_shown_with_its_place(text: str, message: str) -> None:
    write("here.py", text)
    with pytest.raises(InvalidInput) as raised:
        load_queue("here")
    assert str(raised.value).startswith("importing here failed: ")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_there_is_instead_is_named() -> None:
    write("here.py", GOOD + "jobs = queue\n")
    with pytest.raises(InvalidInput, match=r"here has no 'app'; its JobQueues are here:jobs, here:queue"):
        load_queue("here:app")
    with pytest.raises(InvalidInput, match=r"here:JobQueue is a type, not a JobQueue"):
        load_queue("here:JobQueue")
    write("other.py", "from here import queue as jobs")
    with pytest.raises(InvalidInput, match=r"other has no 'queue'; its JobQueue is other:jobs"):
        load_queue("other")
    write("none.py", "")
    with pytest.raises(InvalidInput, match=r"none has no 'queue'; it has no JobQueue"):
        load_queue("none")


@pytest.mark.parametrize("name", ["", ":queue", "here.py", "./here", "app/here.py:queue", ".here"])
def test_a_path_is_not_the_name_of_a_module(name: str) -> None:
    with pytest.raises(InvalidInput, match=r"is not the name of a module: write package\.module"):
        load_queue(name)


def test_further_modules_are_imported_and_register_their_handlers() -> None:
    write("shop/__init__.py", "")
    write("shop/tasks.py", GOOD)
    for name in ("mail", "invoices"):
        write(f"shop/{name}.py", f"from shop.tasks import queue\n@queue.job\ndef {name}(): ...\n")
    queue = load_queue("shop.tasks", ["shop.mail", "shop.invoices"])
    assert sorted(queue.handlers) == ["invoices", "mail"]
    wrong = {
        "shop.mail:queue": "names a second queue",
        "shop/mail.py": "not the name of a module",
        "shop.nowhere": "there is no module 'shop.nowhere'",
    }
    for module, message in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            load_queue("shop.tasks", [module])
