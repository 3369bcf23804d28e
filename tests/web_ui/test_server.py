"""The dashboard, served alone: what connections may do to it."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from howdah import JobQueue
from howdah.web import app, serve
from howdah.web.server import PromptProtocol


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", b"GET /static/howdah.svg HTTP/1.1\r\nHost: localhost\r\n\r\nGET /"]
)
def test_a_connection_without_a_request_is_closed(
    queue: JobQueue, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(PromptProtocol, "PATIENCE", 0.3)
    with serve(app(queue)) as address:
        place = ("127.0.0.1", urlsplit(address).port or 0)
        with socket.create_connection(place, 60) as stream, socket.create_connection(place, 60) as idle:
            stream.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in stream.recv(65536)
            idle.sendall(sent)
            while idle.recv(65536):
                pass
            # One whose request is being answered stays open.
            stream.setblocking(False)
            try:
                while True:
                    assert stream.recv(65536)
            except BlockingIOError:
                pass
