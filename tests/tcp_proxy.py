"""A TCP proxy of our own, whose connections a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading


class TcpProxy:
    """Passes on whatever comes, on a port of its own, until it is told to cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.accepted = 0
        self.closed = False
        threading.Thread(target=self._accept, daemon=True, name="proxy").start()

    def cut(self) -> int:
        """Ends every connection at once, and tells how many there were."""
        with self._lock:
            cut, self._open = self._open, set()
        for each in cut:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        return len(cut) // 2

    def close(self) -> None:
        self.closed = True
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while not self.closed:
            try:
                theirs, _ = self._listener.accept()
                ours = socket.create_connection(self._target)
            except OSError:
                continue
            with self._lock:
                self.accepted += 1
                self._open |= {theirs, ours}
            for source, sink in ((theirs, ours), (ours, theirs)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        for each in (source, sink):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock:
            self._open -= {source, sink}
