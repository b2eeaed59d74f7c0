"""TLS on accepted connections: the TLS context of a listener, and the handshake before a connection begins.

`TlsHandshake` upgrades a connection by `loop.start_tls`, which uvloop and asyncio implement, and then passes it to `Connection`.
Handshakes have a limit of time and number, so a client that only connects costs memory for a short time.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from tempfile import NamedTemporaryFile
from typing import Any, cast

from ottla.addresses import client_address
from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.security import TLS_VERSIONS, TlsSettings
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.security.tls.cipher_suites import TLS_1_3, openssl_name
from ottla.security.tls.key_stores import KeyMaterial

HANDSHAKE_TIMEOUT_S = 10.0
"""Time limit of a handshake, in s. Kafka's limit is connections.max.idle.ms, 10 minutes, in which a client holds memory too long.
"""
SHUTDOWN_TIMEOUT_S = 5.0
"""Time in s that a closed connection waits for the client's close_notify."""
MAX_HANDSHAKES = 500
"""Maximum number of unfinished handshakes of a broker. A handshake needs about 100 KB of memory."""
EARLY_BYTES = 1 << 12
"""Size in bytes of the buffer for data that arrives together with the end of a handshake."""

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def server_context(settings: TlsSettings) -> ssl.SSLContext:
    """The TLS context of a listener. Raises `ConfigError`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    versions = [_VERSIONS[name] for name in TLS_VERSIONS if name in settings.protocols]
    if settings.cipher_suites:
        versions = _set_cipher_suites(context, settings.cipher_suites, versions)
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
                raise ConfigError("ssl.truststore.location: a certificate in it cannot be read") from None
    return context


def _load_keys(context: ssl.SSLContext, keys: KeyMaterial) -> None:
    """Load the key and the certificates. Python reads them only from a file, so they are in a temporary file with mode 0600."""
    with NamedTemporaryFile(prefix="ottla-", suffix=".pem") as file:
        file.write(keys.key + keys.chain)
        file.flush()
        try:
            # Without the function OpenSSL would ask for a password on the terminal.
            context.load_cert_chain(file.name, password=lambda: keys.password or b"")
        except (ssl.SSLError, ValueError) as error:
            reason = getattr(error, "reason", None) or "malformed"
            raise ConfigError(
                f"the key store has a key or a certificate that cannot be used ({reason}); check it, and ssl.key.password"
            ) from None


def _set_cipher_suites(context: ssl.SSLContext, suites: tuple[str, ...], versions: list[ssl.TLSVersion]) -> list[ssl.TLSVersion]:
    """Enable cipher suites. Returns the TLS versions that have an enabled suite. Raises `ConfigError`."""
    older = [suite for suite in suites if suite not in TLS_1_3]
    names = [openssl_name(suite) or suite for suite in older]
    for suite, name in zip(older, names, strict=True):
        try:
            context.set_ciphers(name)
        except ssl.SSLError:
            raise ConfigError(f"ssl.cipher.suites: {suite} is not supported") from None
    if names:
        context.set_ciphers(":".join(names))
    usable = {ssl.TLSVersion.TLSv1_2: bool(names), ssl.TLSVersion.TLSv1_3: len(older) < len(suites)}
    versions = [version for version in versions if usable[version]]
    if not versions:
        raise ConfigError("ssl.cipher.suites: none of them belongs to a version in ssl.enabled.protocols")
    return versions


def certificate_of(transport: asyncio.Transport) -> bytes | None:
    """The verified certificate of a client, in DER; None if the client has sent no certificate."""
    channel = transport.get_extra_info("ssl_object")
    certificate: bytes | None = channel.getpeercert(binary_form=True)
    return certificate


class Handshakes:
    """Counts the unfinished handshakes of a broker."""

    def __init__(self, errors: RepeatedErrors) -> None:
        self.count = 0
        self._errors = errors

    def begin(self, peer: str) -> bool:
        """Count a handshake. Returns False if there are too many."""
        if self.count >= MAX_HANDSHAKES:
            self._errors.failed("connection_aborted", "there are too many unfinished TLS handshakes", key=peer, peer=peer)
            return False
        self.count += 1
        return True

    def failed(self, peer: str, reason: str) -> None:
        self._errors.failed("tls_handshake_failed", reason, key=peer, level="info", peer=peer)


class TlsHandshake(asyncio.BufferedProtocol):
    """The protocol of an accepted connection during its handshake.

    ``connection_of`` makes the protocol for the time after the handshake, or returns None to close the connection. Clients may send
    data together with the last message of the handshake; this object receives the data and passes it on.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        handshakes: Handshakes,
        connection_of: Callable[[asyncio.Transport], asyncio.BufferedProtocol | None],
    ) -> None:
        self._context = context
        self._handshakes = handshakes
        self._connection_of = connection_of
        self._is_lost = False
        self._early = bytearray()
        # A view, because asyncio's own TLS writes a second record into a slice of the buffer.
        self._buffer = memoryview(bytearray(EARLY_BYTES))
        self._peer = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._peer:
            return
        peer = transport.get_extra_info("peername")
        self._peer = client_address(peer[0]) if peer else "unknown"
        raw = cast(asyncio.Transport, transport)
        if not self._handshakes.begin(self._peer):
            raw.abort()
            return
        starting = asyncio.get_running_loop().start_tls(
            raw,
            self,
            self._context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=SHUTDOWN_TIMEOUT_S,
        )
        self._drive(starting)

    def _drive(self, starting: Coroutine[Any, Any, asyncio.Transport | None]) -> None:
        """Run the upgrade up to its first wait. A task would begin too late, and lose bytes that arrive earlier."""
        try:
            waiter: asyncio.Future[Any] = starting.send(None)
        except StopIteration as ended:
            self._handshakes.count -= 1
            self._done(ended.value)
        except (OSError, ssl.SSLError) as error:
            self._handshakes.count -= 1
            self._handshakes.failed(self._peer, _described(error))
        else:
            waiter.add_done_callback(lambda _: self._drive(starting))

    def _done(self, transport: asyncio.Transport | None) -> None:
        """Give the connection to the protocol of clients."""
        if transport is None or self._is_lost or transport.is_closing():
            return
        connection = self._connection_of(transport)
        if connection is None:
            transport.abort()
            return
        transport.set_protocol(connection)
        connection.connection_made(transport)
        if self._early and not transport.is_closing():
            # A new connection has room for at least these bytes.
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


def _described(error: Exception) -> str:
    """Why a handshake failed, in words that are equal for equal failures."""
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    if reason:
        return str(reason).lower().replace("_", " ")
    if isinstance(error, ConnectionAbortedError):
        return f"the handshake was not finished within {HANDSHAKE_TIMEOUT_S:.0f} s"
    return "the client closed the connection" if isinstance(error, ConnectionError) else type(error).__name__
