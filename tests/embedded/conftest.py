from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .clients import IS_ROOT, MYSELF, NOBODY, Persona, Project
from .python_copy import link_python


@pytest.fixture
def reachable() -> Iterator[Path]:
    """Other accounts cannot open pytest's own folders."""
    folder = Path(tempfile.mkdtemp(prefix="howdah-test-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def project(reachable: Path) -> Iterator[Project]:
    folder = reachable / "project"
    folder.mkdir()
    project = Project(folder)
    yield project
    project.clear()


@pytest.fixture(scope="session")
def used_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="howdah-test-")).resolve()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def used_project(used_folder: Path) -> Iterator[Project]:
    """A project whose server may have run before, in another test: initdb takes its time."""
    project = Project(used_folder)
    yield project
    project.clear()


@pytest.fixture(scope="session")
def ordinary() -> Iterator[Persona]:
    """An ordinary user, with a Python that this user can run."""
    if not IS_ROOT:
        yield MYSELF
        return
    copy = Path(tempfile.mkdtemp(prefix="howdah-python-"))
    copy.chmod(0o755)
    link_python(copy)
    environment = {
        "PYTHONHOME": str(copy),
        "PYTHONPATH": str(copy / "site"),
        "LD_LIBRARY_PATH": str(copy / "lib"),
    }
    options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    yield Persona(str(copy / "bin" / "python"), environment, options)
    shutil.rmtree(copy)
