"""A wire that can be cut: it passes bytes between two ports of this machine."""

import contextlib
import socket
import threading
from typing import Self

from e2e_programs import free_port


class Relay:
    """Passes connections on to `target`, unless it is cut or holds back what clients send."""

    def __init__(self, target: int) -> None:
        """Listen on `port`."""
        self.port = free_port()
        self.waiting = threading.Event()
        """Set when a client has sent something that is held back."""
        self._target = target
        self._open = threading.Event()
        self._open.set()
        self._passes = True
        self._sockets: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Cut for good."""
        self.cut()
        self._open.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def cut(self) -> None:
        """Break all connections, and each new one as soon as it comes."""
        with self._lock:
            self._passes = False
            sockets, self._sockets = self._sockets, set()
        for end in sockets:
            _shut(end)

    def mend(self) -> None:
        """Pass new connections on again."""
        with self._lock:
            self._passes = True

    def hold(self) -> None:
        """Keep what clients send until `release`."""
        self.waiting.clear()
        self._open.clear()

    def release(self) -> None:
        """Pass on what was held back."""
        self._open.set()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            with self._lock:
                if self._passes:
                    self._sockets |= {client, server}
                passes = self._passes
            if not passes:
                client.close()
                server.close()
                continue
            for source, sink, held in ((client, server, True), (server, client, False)):
                threading.Thread(target=self._pass, args=(source, sink, held), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, held: bool) -> None:  # noqa: FBT001  # a thread's argument
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if held and not self._open.is_set():
                    self.waiting.set()
                    self._open.wait()
                sink.sendall(data)
        with self._lock:
            self._sockets -= {source, sink}
        for end in (source, sink):
            _shut(end)
            if not held:
                end.close()


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
