"""One environment for each peer under .bench, from its pinned file; built once, and anew when the pins change."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOME = ROOT / ".bench"
PINS = Path(__file__).parent / "pins"
ADAPTERS = Path(__file__).parent / "adapters"
PREFERRED = "3.13"


class BuildFailed(Exception):
    """The environment of a peer could not be built."""


@dataclass(frozen=True)
class Environment:
    name: str
    command: tuple[str, ...]
    """What runs the adapter, in the repository's folder."""


def known() -> list[str]:
    """The names of all peers that have pins."""
    return sorted({path.stem if path.suffix == ".txt" else path.name for path in PINS.iterdir()})


def build(name: str, python: Path) -> Environment:
    """The environment of a peer, which is built unless it is there already."""
    requirements = PINS / f"{name}.txt"
    if requirements.exists():
        return _python_environment(name, requirements, python)
    if (PINS / name / "package.json").exists():
        return _node_environment(name, PINS / name / "package.json")
    raise BuildFailed(f"there are no pins for {name!r}; known are {', '.join(known())}")


def preferred_python() -> Path:
    """Python 3.13 where it is found, else the running interpreter."""
    on_path = shutil.which(f"python{PREFERRED}")
    candidates = [Path(on_path)] if on_path else []
    candidates += sorted(Path.home().glob(f".pyenv/versions/{PREFERRED}*/bin/python"))
    for candidate in candidates:
        if _version(candidate).startswith(f"Python {PREFERRED}"):
            return candidate
    return Path(sys.executable)


def _version(python: Path) -> str:
    # A shim of pyenv is on the path even where its version is not chosen; then it fails.
    result = subprocess.run([str(python), "--version"], capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else ""


def _python_environment(name: str, requirements: Path, python: Path) -> Environment:
    folder = HOME / name
    binary = folder / "bin" / "python"
    pins = requirements.read_text()
    ours = (ROOT / "pyproject.toml").read_text() if "--editable" in pins else ""
    stamp = _stamp(_version(python), pins, ours)
    if not _is_built(folder, stamp):
        print(f"building {folder.relative_to(ROOT)} with {_version(python)} …", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        _run(name, str(python), "-m", "venv", str(folder))
        _run(name, str(binary), "-m", "pip", "--quiet", "install", "--requirement", str(requirements))
        _mark(folder, stamp)
    return Environment(name, (str(binary), "-m", f"benchmarks.peers.adapters.{name}"))


def _node_environment(name: str, package: Path) -> Environment:
    folder = HOME / name
    stamp = _stamp(package.read_text())
    if not _is_built(folder, stamp):
        print(f"building {folder.relative_to(ROOT)} with npm …", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(package, folder)
        _run(name, "npm", "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--loglevel", "error")
        _mark(folder, stamp)
    # Node looks for packages beside the program, so the program goes beside the packages.
    for source in ("_protocol.mjs", f"{name}.mjs"):
        shutil.copy(ADAPTERS / source, folder)
    return Environment(name, (_node(folder), str(folder / f"{name}.mjs")))


def _node(folder: Path) -> str:
    """The Node that the pins ask for, which comes from the registry like everything else, else the installed one."""
    pinned = folder / "node_modules" / ".bin" / "node"
    return str(pinned) if pinned.exists() else "node"


def _run(name: str, *command: str) -> None:
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, check=False)
    if result.returncode:
        raise BuildFailed(f"{name}: {' '.join(command)}\n{result.stdout[-2000:]}{result.stderr[-2000:]}")


def _stamp(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _is_built(folder: Path, stamp: str) -> bool:
    mark = folder / ".built"
    return mark.exists() and mark.read_text() == stamp


def _mark(folder: Path, stamp: str) -> None:
    (folder / ".built").write_text(stamp)
