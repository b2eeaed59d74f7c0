"""Asks a broker for its API versions over a plain socket: no client library, no rooms."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)


def answers(host: str, port: int, timeout_s: float) -> bool:
    """Whether a broker at this address answers ApiVersions with error 0."""
    try:
        with socket.create_connection((host, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(struct.pack(">i", len(_API_VERSIONS_V0)) + _API_VERSIONS_V0)
            head = b""
            while len(head) < 10:
                piece = connection.recv(10 - len(head))
                if not piece:
                    return False
                head += piece
    except OSError:
        return False
    correlation_id, error_code = struct.unpack_from(">ih", head, 4)
    return bool(correlation_id == 1 and error_code == 0)
