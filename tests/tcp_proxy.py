"""A TCP proxy of our own: a test can cut its connections, make them fall silent, or lose an answer."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path

# Linux's, which the socket module does not name. A filter of one instruction, "return 0", keeps no byte of any packet.
SO_ATTACH_FILTER, SO_DETACH_FILTER = 26, 27
NOTHING_PASSES = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))


class Link:
    """One connection through the proxy, in both directions."""

    def __init__(self, proxy: TcpProxy, client: socket.socket, server: socket.socket) -> None:
        self.asked = b""
        """What the client has sent so far, as far back as a test may look."""
        self.answered = b""
        """What it was sent, likewise."""
        self.answer_is_lost = False
        self._proxy = proxy
        self._client, self._server = client, server
        self._may_pass = threading.Event()
        self._may_pass.set()

    def start(self) -> None:
        for pump in (self._ask, self._answer):
            threading.Thread(target=self._until_the_end, args=(pump,), daemon=True, name="proxy").start()

    def silence(self) -> None:
        """From now on nothing comes through, and neither end gets an error: the kernel acknowledges nothing either."""
        self._may_pass.clear()
        filtered = struct.pack("HL", 1, ctypes.addressof(NOTHING_PASSES))
        with contextlib.suppress(OSError):  # it has ended
            self._client.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, filtered)

    def resume(self) -> None:
        """What was sent meanwhile arrives, late."""
        with contextlib.suppress(OSError):
            self._client.setsockopt(socket.SOL_SOCKET, SO_DETACH_FILTER, 0)
        self._may_pass.set()

    def end(self) -> None:
        for each in (self._client, self._server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._may_pass.set()

    def _ask(self) -> None:
        while data := self._client.recv(65536):
            self.asked = (self.asked + data)[-65536:]
            self._may_pass.wait()
            if self._proxy.loses_the_answer_to(data):
                self.answer_is_lost = True
            self._server.sendall(data)

    def _answer(self) -> None:
        while data := self._server.recv(65536):
            self._may_pass.wait()
            if self.answer_is_lost or self._proxy.loses(data):
                return
            self._client.sendall(data)
            self.answered = (self.answered + data)[-65536:]

    def _until_the_end(self, pump: Callable[[], None]) -> None:
        with contextlib.suppress(OSError):
            pump()
        self.end()
        self._proxy.forget(self)


class TcpProxy:
    """Passes on whatever comes, on a port of its own, to a port or to a socket in a folder."""

    def __init__(self, host: str | Path, port: int = 0) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._links: set[Link] = set()
        self._silent = False
        self._lost: list[bytes] = []
        self._lost_answers: list[bytes] = []
        self.accepted = 0
        self.answers_lost = 0
        self.closed = False
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()

    def cut(self) -> int:
        """Ends every connection at once, and returns how many there were."""
        cut = self.links
        for link in cut:
            link.end()
        return len(cut)

    @property
    def links(self) -> list[Link]:
        with self._lock:
            return list(self._links)

    def silence(self, having_asked: bytes = b"", *, new: bool = True) -> int:
        """Makes every connection fall silent, or those over which this was asked; new ones too, if all are. Returns how many."""
        self._silent = new and not having_asked
        chosen = [link for link in self.links if having_asked in link.asked]
        for link in chosen:
            link.silence()
        return len(chosen)

    def resume(self) -> None:
        """The network is back."""
        self._silent = False
        for link in self.links:
            link.resume()

    def lose_the_answer_to(self, question: bytes, times: int = 1) -> None:
        """The next times that this is asked, the server gets it and answers, and the connection ends before the answer arrives."""
        with self._lock:
            self._lost += [question] * times

    def lose_an_answer_with(self, words: bytes, times: int = 1) -> None:
        """The next times that an answer has this text, the connection ends before it arrives."""
        with self._lock:
            self._lost_answers += [words] * times

    def loses_the_answer_to(self, data: bytes) -> bool:
        return self._takes_one(self._lost, data)

    def loses(self, answer: bytes) -> bool:
        return self._takes_one(self._lost_answers, answer)

    def _takes_one(self, among: list[bytes], data: bytes) -> bool:
        with self._lock:
            found = next((each for each in among if each in data), None)
            if found is None:
                return False
            among.remove(found)
            self.answers_lost += 1
            return True

    def close(self) -> None:
        self.closed = True
        self._listener.close()
        self.cut()

    def forget(self, link: Link) -> None:
        with self._lock:
            self._links.discard(link)

    def _accept(self) -> None:
        while not self.closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            try:
                server = self._reach()
            except OSError:
                client.close()
                continue
            link = Link(self, client, server)
            with self._lock:
                self.accepted += 1
                self._links.add(link)
            if self._silent:
                link.silence()
            link.start()

    def _reach(self) -> socket.socket:
        host, port = self._target
        if isinstance(host, str):
            return socket.create_connection((host, port))
        reached = socket.socket(socket.AF_UNIX)
        reached.connect(str(host))
        return reached
