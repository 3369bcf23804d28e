"""``howdah web``: what it refuses to start with, and that it serves and stops."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from howdah import JobQueue
from howdah.cli.commands import web
from howdah.cli.parser import build
from howdah.errors import InvalidInput
from howdah.web import Password, ProxyHeader
from tests.cli.runner import howdah
from tests.docs.pages import ROOT

NOTHING: dict[str, Any] = {"proxy_header": None, "proxy": [], "operator": []}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "jobs.example.com", "127.0.0.1.example.com"])
def test_another_address_needs_authentication(dsn: str, host: str) -> None:
    refused = howdah("web", "--host", host, "--port", "0", dsn=dsn)
    assert refused.code == 2
    assert "HOWDAH_WEB_PASSWORD" in refused.err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "jobs.localhost"])
def test_this_machine_needs_none(host: str) -> None:
    web.refuse_open(host, None)


def test_passwords_and_proxies_come_from_the_environment_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    assert web.authentication(Namespace(**NOTHING)) is None
    monkeypatch.setenv("HOWDAH_WEB_PASSWORD", "long enough to guess")
    assert isinstance(web.authentication(Namespace(**NOTHING)), Password)
    proxied = Namespace(proxy_header="X-User", proxy=["10.0.0.0/8"], operator=["ann"])
    with pytest.raises(InvalidInput, match="exclude"):
        web.authentication(proxied)
    monkeypatch.delenv("HOWDAH_WEB_PASSWORD")
    assert isinstance(web.authentication(proxied), ProxyHeader)
    with pytest.raises(InvalidInput, match="--proxy-header"):
        web.authentication(Namespace(**{**NOTHING, "operator": ["ann"]}))


def test_a_short_password_and_a_missing_schema_are_errors(dsn: str) -> None:
    assert howdah("web", "--port", "0", dsn=dsn, HOWDAH_WEB_PASSWORD="short").code == 2
    assert howdah("web", "--port", "0", "--schema", "nothing_here", dsn=dsn).code == 3


@pytest.mark.parametrize("port", ["80000", "65536", "-1", str(10**30)])
def test_a_port_that_there_cannot_be_is_said(dsn: str, port: str) -> None:
    refused = howdah("web", "--port", port, dsn=dsn)
    assert refused.code == 2
    assert "port must be between 0 and 65535" in refused.err
    assert "Traceback" not in refused.err


def test_a_port_in_use_is_said(dsn: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refused = howdah("web", "--port", str(taken.getsockname()[1]), dsn=dsn)
    assert refused.code == 2
    assert "choose another one with --port" in refused.err


def test_without_the_packages_of_the_dashboard_the_import_names_the_extra() -> None:
    for name in ("starlette", "jinja2", "uvicorn"):
        code = f"import sys; sys.modules[{name!r}] = None; import howdah.web"
        failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        said = failed.stderr.splitlines()[-1]
        assert said == f"ModuleNotFoundError: howdah.web needs more packages ({name}): pip install 'howdah[web]'"


def test_the_command_lines_of_the_page_are_understood() -> None:
    page = (ROOT / "docs/how-to/dashboard.md").read_text(encoding="utf-8")
    lines = re.findall(r"^(?:\$ |[A-Z_]+=… )*howdah (web (?!--help).*)$", page, flags=re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        arguments = build(["web"]).parse_args(shlex.split(line))
        if "--proxy" in line:
            assert isinstance(web.authentication(arguments), ProxyHeader)


def test_it_serves_until_it_is_stopped(dsn: str, queue: JobQueue, tmp_path: Path) -> None:
    queue.enqueue("mail")
    process = subprocess.Popen(
        [sys.executable, "-m", "howdah", "--dsn", dsn, "--json", "web", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        # Where it is set, Python writes at once, whatever the command does.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    address = json.loads(process.stdout.readline())["url"]
    with urllib.request.urlopen(f"{address}api/v1/counts", timeout=30) as answer:
        assert json.load(answer)["types"][0]["job_type"] == "mail"
    with urllib.request.urlopen(f"{address}live", timeout=30) as stream:
        assert b"retry" in stream.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) in (0, -signal.SIGTERM, 143)
    process.stdout.close()
