"""A minimal broker in threads, which handles a client's first requests and can violate the protocol."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ottla.addresses import Address
from ottla.protocol.codec import api, decode_body, read_client_id, response_parts
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse

Serve = Callable[[socket.socket], None]
Answer = Callable[[str, Any], Any]
"""Returns the response for an API's name and a request. None closes the connection, and bytes are sent unchanged."""

PLAIN_MESSAGE = b"\0alice\0secret"


def versions(**newest: int) -> ApiVersionsResponse:
    """Return the versions that ottla supports, limited to ``newest`` for the named APIs. A limit of -1 removes an API."""
    known = {key: (entry.min_version, newest.get(entry.name, entry.max_version)) for key, entry in APIS.items()}
    keys = [
        ApiVersion(api_key=key, min_version=min(oldest, last), max_version=last)
        for key, (oldest, last) in known.items()
        if last >= 0
    ]
    return ApiVersionsResponse(api_keys=keys)


def served(name: str) -> Any:
    """Return the response to ApiVersions or to InitProducerId."""
    return versions() if name == "ApiVersions" else InitProducerIdResponse()


@contextlib.contextmanager
def listening(serve: Serve, tls: ssl.SSLContext | None = None) -> Iterator[Address]:
    """Run ``serve`` in a thread for each connection. The connection is closed when ``serve`` returns."""
    server = socket.create_server(("localhost", 0))
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def handle(raw: socket.socket) -> None:
        # A client may close the connection at any time.
        with contextlib.suppress(OSError):
            connection = raw if tls is None else tls.wrap_socket(raw, server_side=True)
            connections.append(connection)
            with connection:
                serve(connection)
        raw.close()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = server.accept()
                raw.settimeout(10)
                connections.append(raw)
                threads.append(threading.Thread(target=handle, args=(raw,)))
                threads[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield "localhost", server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        accepting.join()
        for connection in list(connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()
        for connection in connections:
            connection.close()


def answering(answer: Answer) -> Serve:
    def serve(connection: socket.socket) -> None:
        with connection.makefile("rb") as requests:
            while len(size := requests.read(4)) == 4:
                length = int.from_bytes(size, "big")
                if length > 1 << 20:
                    return
                frame = requests.read(length)
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                codec = api(key)
                _, position = read_client_id(frame, flexible=version >= codec.flexible_from)
                response = answer(codec.name, decode_body(codec.decode_request, frame, position, version))
                if response is None:
                    return
                if not isinstance(response, bytes):
                    response = b"".join(response_parts(codec, version, correlation_id, response))
                connection.sendall(response)

    return serve


def plain_broker(lifetime_ms: int = 0, seen: list[str] | None = None) -> Answer:
    """Return a broker that authenticates alice by SASL PLAIN and then serves ApiVersions and InitProducerId."""

    def answer(name: str, request: Any) -> Any:
        if seen is not None:
            seen.append(name)
        if name == "SaslHandshake":
            is_known = request.mechanism == "PLAIN"
            return SaslHandshakeResponse(error_code=0 if is_known else 33, mechanisms=["PLAIN"])
        if name == "SaslAuthenticate":
            if request.auth_bytes != PLAIN_MESSAGE:
                return SaslAuthenticateResponse(error_code=58, error_message="Authentication failed:\nInvalid username or password")
            return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)
        return served(name)

    return answer


def open_broker(name: str, request: Any) -> Any:
    """Responses of a listener without authentication."""
    if name == "SaslHandshake":
        return SaslHandshakeResponse(error_code=34)
    return served(name)


def closed_broker(name: str, request: Any) -> Any:
    """Responses of a listener that requires SASL. It closes the connection on requests except ApiVersions and SaslHandshake."""
    if name == "ApiVersions":
        return versions()
    return SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "SCRAM-SHA-512"]) if name == "SaslHandshake" else None
