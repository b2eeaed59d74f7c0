"""A TCP proxy that drops responses, closes connections, and counts the dropped responses."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Looks to clients like a broker that advertises the proxy's ``address``.

    While `lose_next` is above 0, each response is dropped and its connection is closed. `break_off` blocks all traffic until
    `mend`.
    """

    def __init__(self) -> None:
        self._target = ("", 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.lose_next = 0
        self.lost = 0
        self._is_broken = False
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stand_before(self, target: str) -> None:
        """Set the address of the real broker, which starts after the proxy because it advertises the proxy's port."""
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self._is_broken:
                    raise ConnectionAbortedError
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

    def break_off(self) -> None:
        self._is_broken = True
        self._cut()

    def mend(self) -> None:
        self._is_broken = False

    def close(self) -> None:
        self._listener.close()
        self._cut()

    def _cut(self) -> None:
        for end in self._sockets:
            with contextlib.suppress(OSError):
                # shutdown() wakes up a thread that reads from the socket; close() does not.
                end.shutdown(socket.SHUT_RDWR)
            end.close()
