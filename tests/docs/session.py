"""Runs the blocks of one page as a reader would: one Python session, one psql, one shell, one database."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from howdah import JobQueue
from tests.cli.runner import default_signals
from tests.conftest import WITHOUT_OUR_PLUGINS
from tests.docs.pages import ROOT, Block

# What differs from one run to the next. Everything else that a page shows must be what comes out.
_VARYING = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?( UTC|[+-]\d\d(:?\d\d)?)?"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "<day>"),
    (re.compile(r"\b[\w.-]+:\d+:[0-9a-f]{8}\b"), "<worker>"),
    (re.compile(r"\b\d+(\.\d+)?(ms|[smhd])\b"), "<span>"),
    (re.compile(r" in \S+ at \S+, schema"), " in <database>, schema"),
    (re.compile(r" table jobs, of \S+\."), " table jobs, of <login>."),
    (re.compile(r"[ \t]+"), " "),
    (re.compile(r"-{3,}|-\+-"), "-"),
)


_PATIENCE = 240


class Session:
    """What the blocks of a page share."""

    def __init__(self, dsn: str, folder: Path, *, search_path: str | None) -> None:
        self.dsn = dsn
        self.folder = folder
        self.search_path = search_path
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.variables: dict[str, str] = {}
        self.last_code = 0
        self._psql: psycopg.Connection[Any] | None = None
        self._second_terminal: subprocess.Popen[str] | None = None
        self.environment = {
            **os.environ,
            "HOWDAH_DSN": dsn,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "100",
            "NO_COLOR": "1",
            "PYTEST_ADDOPTS": WITHOUT_OUR_PLUGINS,
        }
        if search_path:
            # A page that begins with an empty database starts a server for its tests, too; the others need no second one.
            self.environment["HOWDAH_TEST_DSN"] = dsn

    def run(self, block: Block) -> None:
        """Runs a block; fails if it does, or if what it prints is not what the page shows."""
        kinds: dict[str, Callable[[Block], None]] = {
            "python": self._run_python,
            "sql": self._run_sql,
            "console": self._run_console,
        }
        kinds[block.language](block)

    def close(self) -> None:
        if self._second_terminal is not None:
            self._second_terminal.kill()
            self._second_terminal.communicate()
        for value in self.namespace.values():
            if isinstance(value, JobQueue | psycopg.Connection):
                value.close()
        if self._psql is not None:
            self._psql.close()

    # Python

    def _run_python(self, block: Block) -> None:
        if named := re.match(r"# (?P<name>(?:\w+/)*\w+\.py)(?P<at_its_end>, at its end)?\n", block.text):
            self._save(
                named["name"],
                block.text[named.end() :] if named["at_its_end"] else block.text,
                bool(named["at_its_end"]),
            )
            return
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
        with contextlib.redirect_stdout(printed):
            exec(code, self.namespace)
        _compare(block, printed.getvalue(), block.output)

    # SQL, in as much of psql as the pages use: \gset and :'name'

    def _run_sql(self, block: Block) -> None:
        printed: list[str] = []
        for statement in _statements(block.text):
            printed += self._psql_answers(statement)
        if block.output is None:
            failed = [line for line in printed if line.startswith("ERROR:")]
            assert not failed, f"{block}: {failed}"
        _compare(block, "\n".join(printed), block.output)

    def _psql_answers(self, statement: str) -> Iterator[str]:
        conn = self._psql_connection()
        statement = re.sub(r":'(\w+)'", lambda name: sql.Literal(self.variables[name[1]]).as_string(conn), statement)
        notices: list[str] = []

        def note(notice: psycopg.errors.Diagnostic) -> None:
            notices.append(f"{notice.severity}: {notice.message_primary}")
            if notice.message_hint:
                notices.append(f"HINT: {notice.message_hint}")

        conn.add_notice_handler(note)
        try:
            cursor = conn.execute(statement.removesuffix(r"\gset"), prepare=False)
        except psycopg.Error as error:
            yield from notices
            yield f"ERROR: {error.diag.message_primary}"
            if error.diag.message_hint:
                yield f"HINT: {error.diag.message_hint}"
            return
        finally:
            conn.remove_notice_handler(note)
        yield from notices
        if cursor.description is None:
            yield cursor.statusmessage or ""
            return
        names, rows = [column.name for column in cursor.description], cursor.fetchall()
        if statement.endswith(r"\gset"):
            (row,) = rows
            self.variables.update({name: str(value) for name, value in zip(names, row, strict=True)})
        else:
            yield from _table(names, rows)

    def _psql_connection(self) -> psycopg.Connection[Any]:
        if self._psql is None:
            self._psql = psycopg.connect(self.dsn, autocommit=True, cursor_factory=psycopg.ClientCursor)
            for oid_name in ("jsonb", "timestamptz", "interval", "date", "numeric"):
                # As psql shows it, not as Python would.
                self._psql.adapters.register_loader(oid_name, psycopg.types.string.TextLoader)
            if self.search_path:
                self._psql.execute("SELECT set_config('search_path', %s, false)", (self.search_path,))
        return self._psql

    def _save(self, name: str, text: str, at_its_end: bool) -> None:
        """A block that begins with the name of a file is a file, for the blocks that follow."""
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            (file.read_text(encoding="utf-8") + "\n\n" if at_its_end else "") + text + "\n", encoding="utf-8"
        )

    # The shell

    def _run_console(self, block: Block) -> None:
        for command, output in _commands(block):
            if command == "echo $?":
                _compare(block, str(self.last_code), output)
            elif command == "Ctrl-C":
                self._interrupt(block)
            elif block.in_second_terminal:
                self._begin(block, command)
            elif _is_for_the_shell(command, self.folder):
                self._run_command(block, command, output)
            else:
                assert _is_there(command), f"{block}: {command!r} is neither run nor known to exist"

    def _run_command(self, block: Block, command: str, output: str) -> None:
        capture = re.fullmatch(r"(\w+)=\$\((.+)\)", command)
        process = self._spawn("sh", "-c", capture[2] if capture else command)
        printed = _printed_until_its_end(process)
        self.last_code = process.returncode
        expects_failure = f"$ {command}\n{output}".rstrip() + "\n$ echo $?" in block.text
        assert (self.last_code != 0) == expects_failure, f"{block}: {command!r} ended with {self.last_code}:\n{printed}"
        if capture:
            self.environment[capture[1]] = printed.strip()
        else:
            _compare(block, printed, output or None)

    def _begin(self, block: Block, command: str) -> None:
        assert self._second_terminal is None, f"{block}: the second terminal is not free"
        self._second_terminal = self._spawn(*shlex.split(command))

    def _interrupt(self, block: Block) -> None:
        assert self._second_terminal is not None, f"{block}: nothing runs in the second terminal"
        terminal, self._second_terminal = self._second_terminal, None
        assert terminal.poll() is None, f"{block}: it has ended by itself:\n{terminal.communicate()[0]}"
        terminal.send_signal(signal.SIGINT)
        printed = _printed_until_its_end(terminal)
        assert terminal.returncode in (0, 130), f"{block}: ended with {terminal.returncode}:\n{printed}"

    def _spawn(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            argv,
            env=self.environment,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=default_signals,
        )


def _printed_until_its_end(process: subprocess.Popen[str]) -> str:
    try:
        return process.communicate(timeout=_PATIENCE)[0]
    except BaseException:
        process.kill()
        process.communicate()
        raise


def _compare(block: Block, printed: str, shown: str | None) -> None:
    if shown is not None:
        assert _without_varying(printed) == _without_varying(shown), f"{block} prints:\n{printed}"


def _without_varying(text: str) -> list[str]:
    for pattern, name in _VARYING:
        text = pattern.sub(name, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def _statements(text: str) -> Iterator[str]:
    """The statements of a block; each ends a line with a semicolon or with a gset."""
    text = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE)
    for statement in re.findall(r".+?(?:;|\\gset)[ \t]*$", text, flags=re.MULTILINE | re.DOTALL):
        yield statement.strip().removesuffix(";")


def _table(names: list[str], rows: list[Any]) -> Iterator[str]:
    yield " | ".join(names)
    yield "-+-".join("---" for _ in names)
    for row in rows:
        yield " | ".join(_cell(value) for value in row)
    yield f"({len(rows)} row{'' if len(rows) == 1 else 's'})"


def _cell(value: object) -> str:
    return {None: "", True: "t", False: "f"}[value] if value is None or isinstance(value, bool) else str(value)


def _commands(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with the output that is shown below it."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, output = part.replace("\\\n", "").partition("\n")
        yield command.partition("  #")[0].strip(), output.strip()


def _is_for_the_shell(command: str, folder: Path) -> bool:
    if script := re.fullmatch(r"(?:\w+=\$\()?python (\w+\.py)(?: .*)?\)?", command):
        return (folder / script[1]).exists()
    return (
        re.match(r"(\w+=\$\()?([A-Z_]+=(\$\(.+\)|\S+) )?(howdah|printf|cat|pytest|mypy|python -c) ", command)
        is not None
    )


def _can_be_installed(package: str, pyproject: Mapping[str, Any]) -> bool:
    """Howdah with extras that it has, or a package that the tests have."""
    if howdah := re.fullmatch(r"howdah(?:\[([\w,]+)\])?", package):
        return set((howdah[1] or "").split(",")) <= {"", *pyproject["project"]["optional-dependencies"]}
    groups = pyproject["dependency-groups"]
    return package in {str(each).partition(">")[0] for name in ("test", "dev") for each in groups[name]}


def _is_there(command: str) -> bool:
    """Whether what a command names exists: such commands take long, or change the machine."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    match command.split():
        case ["export", setting]:
            return setting.partition("=")[0] in ("HOWDAH_DSN", "DATABASE_URL", "PGOPTIONS")
        case ["mkdir" | "cd", _] | ["python3", "-m", "venv", ".venv"] | [".", ".venv/bin/activate"]:
            return True
        case ["make", *words]:
            return all(word in targets for word in words if "=" not in word)
        case [setting, "make", target, "JOBS=0"]:
            return setting.startswith("HOWDAH_TEST_DSN=") and target in targets
        case ["pip", "install", *packages]:
            return all(_can_be_installed(package.strip("'"), pyproject) for package in packages)
        case ["python", script] | [".venv/bin/python", script]:
            return (ROOT / script).is_file()
        case ["ruby", script]:
            return (ROOT / script).is_file()
        case [".venv/bin/python", "-m", "pytest", *words]:
            return all((ROOT / word).exists() for word in words if word not in ("-q", "-n", "2"))
    return False
