"""TLS on accepted connections: the TLS context of a listener, and the handshake before a connection begins.

`TlsHandshake` upgrades a connection by `loop.start_tls`, which uvloop and asyncio implement, and then passes it to `Connection`.
The time and the number of handshakes are limited, so a client that only connects uses memory only briefly.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any, cast

from ottla.addresses import client_address
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security import TLS_VERSIONS, TlsSettings
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.network.tls_alerts import Below, ServerContext
from ottla.broker.network.tls_writing import PacedTransport
from ottla.security.tls.cipher_suites import CipherSuiteError, enable
from ottla.security.tls.key_stores import KeyMaterial

HANDSHAKE_TIMEOUT_S = 10.0
"""Time limit of a handshake, in s. With Kafka's limit, connections.max.idle.ms (10 minutes), a client could occupy memory too long.
"""
SHUTDOWN_TIMEOUT_S = 5.0
"""Time in s that a closed connection waits for the client's close_notify."""
MAX_HANDSHAKES = 500
"""Maximum number of unfinished handshakes of a broker. A handshake needs about 100 KB of memory."""
HANDSHAKE_FAILURE = b"\x15\x03\x03\x00\x02\x02\x28"
"""The fatal alert ``handshake_failure`` as a record of TLS (RFC 8446, sections 5.1 and 6.2)."""
EARLY_BYTES = 1 << 12
"""Size in bytes of the buffer for data that arrives together with the end of a handshake."""

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(settings: TlsSettings) -> ServerContext:
    """The TLS context of a listener. Raises `ConfigError`."""
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in TLS_VERSIONS if name in settings.protocols]
    try:
        versions = enable(context, settings.cipher_suites, versions)
    except CipherSuiteError as error:
        raise ConfigError(f"ssl.cipher.suites: {error}") from None
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_keys(context, settings.keys)
    context.verify_mode = _CLIENT_AUTH[settings.client_auth]
    if settings.client_auth != "none":
        if settings.trusted is None:
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        else:
            try:
                context.load_verify_locations(cadata=settings.trusted.decode("ascii"))
            except (ssl.SSLError, ValueError):
                raise ConfigError("ssl.truststore.location: a certificate in the trust store cannot be read") from None
    return context


def _load_keys(context: ssl.SSLContext, keys: KeyMaterial) -> None:
    """Load the key and the certificates. Python reads both only from a file, so they are written to a temporary file with mode
    0600."""
    with NamedTemporaryFile(prefix="ottla-", suffix=".pem") as file:
        file.write(keys.key + keys.chain)
        file.flush()
        try:
            # Without a password function OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(file.name, password=lambda: keys.password or b"")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "malformed"
            raise ConfigError(
                f"the key store has a key or a certificate that cannot be used ({reason}); check it, and ssl.key.password"
            ) from None


def certificate_of(transport: asyncio.Transport) -> bytes | None:
    """The verified certificate of a client, in DER; None if the client has sent no certificate."""
    channel = transport.get_extra_info("ssl_object")
    certificate: bytes | None = channel.getpeercert(binary_form=True)
    return certificate


class Handshakes:
    """The unfinished handshakes of a broker, at most `MAX_HANDSHAKES`.

    A further handshake ends the oldest one, so that silent connections do not shut out clients that finish their handshakes in
    time.
    """

    def __init__(self, errors: RepeatedErrors) -> None:
        self._errors = errors
        self._unfinished: dict[asyncio.Transport, str] = {}
        """Transports, the oldest first, with the addresses of the clients."""

    @property
    def count(self) -> int:
        return len(self._unfinished)

    def begin(self, transport: asyncio.Transport, peer: str) -> None:
        if len(self._unfinished) >= MAX_HANDSHAKES:
            oldest = next(iter(self._unfinished))
            ended = self._unfinished.pop(oldest)
            oldest.abort()
            self._errors.failed("connection_aborted", "there are too many unfinished TLS handshakes", key=ended, peer=ended)
        self._unfinished[transport] = peer

    def end(self, transport: asyncio.Transport) -> None:
        self._unfinished.pop(transport, None)

    def failed(self, peer: str, reason: str) -> None:
        self._errors.failed("tls_handshake_failed", reason, key=peer, level="info", peer=peer)


class WatchedHandshake(asyncio.Protocol):
    """The protocol of a connection whose handshake a fault may fail.

    The fault is checked when the client's first bytes arrive, so a client that sends nothing, such as a port probe, does not count
    as a hit. ``begin`` continues the handshake with these bytes. ``ended`` is called if the connection is lost before.
    """

    def __init__(
        self, transport: asyncio.Transport, is_failed: Callable[[], bool], begin: Callable[[bytes], None], ended: Callable[[], None]
    ) -> None:
        self._transport = transport
        self._is_failed = is_failed
        self._begin = begin
        self._ended = ended
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_TIMEOUT_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._is_failed():
            # The ClientHello was read before, because closing a socket with unread bytes could discard the alert.
            self._transport.write(HANDSHAKE_FAILURE)
            self._transport.close()
        else:
            self._timer.cancel()
            self._begin(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._ended()


class TlsHandshake(asyncio.BufferedProtocol):
    """The protocol of an accepted connection during its handshake.

    ``connection_of`` makes the protocol for the time after the handshake, or returns None to close the connection. Clients may send
    data together with the last message of the handshake; this object receives the data and passes it on. ``is_watched`` returns
    whether faults may fail handshakes; ``is_failed`` returns whether a fault fails the handshake of the client at an address.
    ``count_failure`` is called for a handshake that TLS or a fault has failed, but not for a client that closed the connection.
    ``count_closed`` is called for every connection that ends before ``connection_of`` has made its protocol.
    """

    def __init__(
        self,
        context: ServerContext,
        handshakes: Handshakes,
        connection_of: Callable[[asyncio.Transport], asyncio.BufferedProtocol | None],
        is_watched: Callable[[], bool] = lambda: False,
        is_failed: Callable[[str], bool] = lambda peer: False,
        count_failure: Callable[[], None] = lambda: None,
        count_closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._is_watched = is_watched
        self._is_failed = is_failed
        self._count_failure = count_failure
        self._count_closed = count_closed
        self._context = context
        self._handshakes = handshakes
        self._connection_of = connection_of
        self._is_lost = False
        self._below: Below | None = None
        self._early = bytearray()
        # A memoryview: asyncio's TLS writes the second record into a slice of the buffer, and a slice of a bytearray is a copy.
        self._buffer = memoryview(bytearray(EARLY_BYTES))
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._peer:
            return
        peer = transport.get_extra_info("peername")
        self._peer = client_address(peer[0]) if peer else "unknown"
        raw = cast(asyncio.Transport, transport)
        self._handshakes.begin(raw, self._peer)
        if self._is_watched():
            raw.set_protocol(WatchedHandshake(raw, self._is_failed_now, partial(self._begin, raw), partial(self._lost, raw)))
        else:
            self._begin(raw, b"")

    def _lost(self, raw: asyncio.Transport) -> None:
        self._handshakes.end(raw)
        self._count_closed()

    def _is_failed_now(self) -> bool:
        is_failed = self._is_failed(self._peer)
        if is_failed:
            self._count_failure()
        return is_failed

    def _begin(self, raw: asyncio.Transport, data: bytes) -> None:
        """Begin the handshake. ``data`` are bytes of the client that were already read."""
        loop = asyncio.get_running_loop()
        self._below = Below(raw)
        self._context.starting.append(self._below)
        starting = loop.start_tls(
            raw,
            self,
            self._context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )
        self._drive(raw, starting)
        if data:
            # Pass the buffered bytes to the TLS protocol, after the callback by which `start_tls` begins the handshake has run.
            loop.call_soon(_feed, raw, data)

    def _drive(self, raw: asyncio.Transport, starting: Coroutine[Any, Any, asyncio.Transport | None]) -> None:
        """Run the TLS upgrade up to its next wait. A task would begin too late, and lose bytes that arrive before."""
        try:
            waiter: asyncio.Future[Any] = starting.send(None)
        except StopIteration as ended:
            self._end(raw)
            self._done(ended.value, raw)
        except (OSError, ssl.SSLError) as error:
            self._end(raw)
            self._count_closed()
            self._handshakes.failed(self._peer, _described(error))
            if isinstance(error, ssl.SSLError):
                self._count_failure()
        except BaseException:
            self._end(raw)
            raise
        else:
            waiter.add_done_callback(lambda _: self._drive(raw, starting))

    def _end(self, raw: asyncio.Transport) -> None:
        self._handshakes.end(raw)
        if self._below is not None:
            self._below.transport = None
            if self._below in self._context.starting:
                self._context.starting.remove(self._below)

    def _done(self, transport: asyncio.Transport | None, raw: asyncio.Transport) -> None:
        if transport is None or self._is_lost or transport.is_closing():
            self._count_closed()
            return
        connection = self._connection_of(transport)
        if connection is None:
            self._count_closed()
            transport.abort()
            return
        paced = PacedTransport(transport, raw, connection)
        transport.set_protocol(paced)
        connection.connection_made(paced)
        if self._early and not transport.is_closing():
            # The buffer of a new connection has room for `EARLY_BYTES` bytes.
            memoryview(connection.get_buffer(-1))[: len(self._early)] = self._early
            connection.buffer_updated(len(self._early))

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._early += self._buffer[:nbytes]

    def eof_received(self) -> bool:
        self._is_lost = True
        return False


def _feed(transport: asyncio.Transport, data: bytes) -> None:
    """Give bytes that were already read to the transport's protocol."""
    protocol = cast(asyncio.BufferedProtocol, transport.get_protocol())
    left = memoryview(data)
    while left and not transport.is_closing():
        buffer = memoryview(protocol.get_buffer(len(left)))
        count = min(len(buffer), len(left))
        buffer[:count] = left[:count]
        protocol.buffer_updated(count)
        left = left[count:]


def _described(error: Exception) -> str:
    """Why a handshake failed, in words that are equal for equal failures."""
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    if reason:
        return str(reason).lower().replace("_", " ")
    if isinstance(error, ConnectionAbortedError):
        return f"the handshake was not finished within {HANDSHAKE_TIMEOUT_S:.0f} s"
    return "the client closed the connection" if isinstance(error, ConnectionError) else type(error).__name__
