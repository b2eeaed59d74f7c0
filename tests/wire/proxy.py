"""A TCP proxy that loses answers, cuts connections, and counts what passes."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Stands in for a broker at another port. While ``losing`` is set, answers are swallowed and the connection is cut."""

    def __init__(self, port: int, target: str) -> None:
        host, _, target_port = target.rpartition(":")
        self._target = (host, int(target_port))
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.lose_next = 0
        self.lost = 0
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            threading.Thread(target=self._pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pump, args=(server, client, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(1 << 16)
                if not data:
                    break
                if answers:
                    with self._lock:
                        losing = self.lose_next > 0
                        if losing:
                            self.lose_next -= 1
                            self.lost += 1
                    if losing:
                        break
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        for end in self._sockets:
            with contextlib.suppress(OSError):
                end.close()
