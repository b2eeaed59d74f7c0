"""TLS handshakes with raw sockets: certificates, requests sent with the last message, and the limit of unfinished handshakes."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, cast

import pytest
import structlog
import uvloop

from ottla.broker.config.security import tls_settings
from ottla.broker.config.security_protocols import SecurityProtocol
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.loop.env import RealEnv
from ottla.broker.loop.repeated_errors import RepeatedErrors
from ottla.broker.network.tls import MAX_HANDSHAKES, Handshakes, TlsHandshake, server_context
from ottla.broker.network.tls_alerts import INTERNAL_ERROR
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support import oracle
from tests.wire.secured import SecuredBroker

pytestmark = pytest.mark.wire

TIMEOUT_S = 30
BURST = bytes(range(256)) * (20 << 12)
"""20 MiB, more than the system's buffers."""
VERSIONS = request_frame(18, 3, 7, "c", ApiVersionsRequest(client_software_name="c", client_software_version="1"))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"))
    yield started
    started.close()
    assert not [line for line in started.logged() if line["level"] in ("error", "critical")]


def connected(broker: SecuredBroker, protocol: str) -> socket.socket:
    return socket.create_connection(broker.address(protocol), TIMEOUT_S)


def read_response(channel: Any) -> Any:
    data = b""
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        piece = channel.recv(1 << 16)
        assert piece, "the connection was closed"
        data += piece
    return decode_response_frame(18, 3, data[4:])[1]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_broker_serves_tls_1_2_and_1_3(broker: SecuredBroker, version: ssl.TLSVersion) -> None:
    context = broker.context(broker.own)
    context.minimum_version = context.maximum_version = version
    with connected(broker, "SSL") as raw, context.wrap_socket(raw, server_hostname="localhost") as channel:
        channel.sendall(VERSIONS)
        assert read_response(channel).error_code == 0


@pytest.mark.parametrize("count", [1, 50])
def test_requests_sent_together_with_the_end_of_the_tls_handshake_are_answered(broker: SecuredBroker, count: int) -> None:
    """The client's last message and its first requests leave in one segment, so the broker reads them together."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    channel = broker.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with connected(broker, "SASL_SSL") as raw:
        while True:
            try:
                channel.do_handshake()
                break
            except ssl.SSLWantReadError:
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(1 << 16))
        handshake = request_frame(17, 1, 7, "c", _handshake())
        channel.write(handshake + _tokens(count))
        raw.sendall(outgoing.read())
        answers = b""
        while answers.count(b"\0\0\0\x07") < 2:
            incoming.write(raw.recv(1 << 16))
            try:
                answers += channel.read(1 << 16)
            except ssl.SSLWantReadError:
                continue
        assert answers[4:10] == b"\0\0\0\x07\0\0"


def _handshake() -> Any:
    from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

    return SaslHandshakeRequest(mechanism="PLAIN")


def _tokens(count: int) -> bytes:
    from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from tests.wire.secured import PASSWORD, USER

    token = request_frame(36, 2, 7, "c", SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()))
    return token + VERSIONS * count


@pytest.mark.parametrize(
    ("which", "alert"), [("none", r"(?i)alert.(certificate.required|handshake.failure)"), ("strange", r"(?i)alert.unknown.ca")]
)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_without_a_trusted_certificate_gets_the_alert_that_says_so(
    broker: SecuredBroker, which: str, alert: str, version: ssl.TLSVersion
) -> None:
    context = broker.context(None if which == "none" else broker.strange)
    context.minimum_version = context.maximum_version = version
    with (
        connected(broker, "SSL") as raw,
        pytest.raises(ssl.SSLError, match=alert),
        context.wrap_socket(raw, server_hostname="localhost") as channel,
    ):
        channel.recv(1)
    oracle.wait_for(
        "the broker logs the refusal",
        lambda: [line["reason"] for line in broker.logged() if line["event"] == "tls_handshake_failed"],
        lambda reasons: any("certificate" in reason for reason in reasons),
    )


@pytest.mark.parametrize("raw_bytes", [b"GET / HTTP/1.0\r\n\r\n", VERSIONS, struct.pack(">i", 1 << 30) + bytes(100)])
def test_client_without_tls_gets_a_tls_alert_and_is_disconnected_from_a_tls_listener(
    broker: SecuredBroker, raw_bytes: bytes
) -> None:
    with connected(broker, "SASL_SSL") as raw:
        raw.sendall(raw_bytes)
        assert raw.makefile("rb").read() == INTERNAL_ERROR


def test_unfinished_tls_handshakes_are_limited_in_time_and_number(broker: SecuredBroker) -> None:
    """Silent connections are closed after a time limit; above the limit, the oldest connection is closed immediately."""
    silent = [connected(broker, "SSL") for _ in range(MAX_HANDSHAKES + 20)]
    try:
        with contextlib.suppress(ConnectionError):
            assert silent[0].recv(1) == b""
        with connected(broker, "SSL") as raw, broker.context(broker.own).wrap_socket(raw, server_hostname="localhost") as channel:
            channel.sendall(VERSIONS)
            assert read_response(channel).error_code == 0
        with contextlib.suppress(ConnectionError):
            assert silent[-1].recv(1) == b""
    finally:
        for one in silent:
            one.close()
    reasons = {str(line.get("reason")) for line in broker.logged()}
    assert "there are too many unfinished TLS handshakes" in reasons
    assert "the handshake was not finished within 10 s" in reasons
    context = broker.context(broker.own)
    with connected(broker, "SSL") as raw, context.wrap_socket(raw, server_hostname="localhost") as channel:
        channel.sendall(VERSIONS)
        assert read_response(channel).error_code == 0


def test_principal_of_a_tls_client_is_taken_from_its_certificate(broker: SecuredBroker) -> None:
    context = broker.context(broker.own)
    with connected(broker, "SSL") as raw, context.wrap_socket(raw, server_hostname="localhost") as channel:
        channel.sendall(VERSIONS)
        assert read_response(channel).error_code == 0
    principals = {(line["listener"], line["principal"]) for line in broker.logged() if line["event"] == "client_authenticated"}
    # ssl.principal.mapping.rules takes the common name from the certificate's subject.
    assert ("SSL", "User:shop") in principals


class Echo(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(1 << 16))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._transport.write(bytes(self._buffer[:nbytes]))


Conversation = Callable[[tuple[str, int]], Awaitable[bytes]]


def served(
    broker: SecuredBroker,
    new_loop: Any,
    protocol: Callable[[], asyncio.BufferedProtocol],
    conversation: Conversation,
    *,
    is_watched: bool = False,
) -> tuple[bytes, int]:
    """Serve connections by TLS on a new event loop, with ``protocol`` after the handshake.

    Returns the result of a client's conversation with the server, and the number of handshakes that are unfinished after it.
    """
    settings = BrokerConfig({"ssl.keystore.type": "PEM", "ssl.keystore.location": broker.strange})
    context = server_context(tls_settings(settings, "SSL", SecurityProtocol.SSL, b"secret"))
    handshakes = Handshakes(RepeatedErrors(RealEnv(), structlog.get_logger("connection")))

    async def run() -> bytes:
        def accept() -> asyncio.BufferedProtocol:
            return TlsHandshake(context, handshakes, lambda transport: protocol(), lambda: is_watched)

        server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
        received = await conversation(server.sockets[0].getsockname())
        server.close()
        return received

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(asyncio.wait_for(run(), TIMEOUT_S)), handshakes.count


def trusting() -> ssl.SSLContext:
    """Return a context that accepts every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@pytest.mark.parametrize("is_watched", [False, True], ids=["without faults", "watched by a fault"])
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_asyncio_and_uvloop_upgrade_connections_to_tls(new_loop: Any, is_watched: bool, broker: SecuredBroker) -> None:
    async def conversation(address: tuple[str, int]) -> bytes:
        reader, writer = await asyncio.open_connection(*address, ssl=trusting())
        writer.write(b"x" * 300_000)
        echoed = await reader.readexactly(300_000)
        writer.close()
        return echoed

    assert served(broker, new_loop, Echo, conversation, is_watched=is_watched) == (b"x" * 300_000, 0)


@pytest.mark.parametrize("is_watched", [False, True], ids=["without faults", "watched by a fault"])
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_asyncio_and_uvloop_send_a_tls_alert_to_a_client_without_tls(
    new_loop: Any, is_watched: bool, broker: SecuredBroker
) -> None:
    async def conversation(address: tuple[str, int]) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(VERSIONS)
        sent = await reader.read()
        writer.close()
        return sent

    assert served(broker, new_loop, Echo, conversation, is_watched=is_watched) == (INTERNAL_ERROR, 0)


class Burst(asyncio.BufferedProtocol):
    """Sends a large response and closes the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        sending = cast(asyncio.Transport, transport)
        sending.writelines([BURST[:100], memoryview(BURST)[100:]])
        sending.close()

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1 << 10)

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_large_response_before_the_end_of_a_connection_arrives_completely(new_loop: Any, broker: SecuredBroker) -> None:
    async def conversation(address: tuple[str, int]) -> bytes:
        reader, writer = await asyncio.open_connection(*address, ssl=trusting())
        received = await reader.read()
        writer.close()
        return received

    received, _ = served(broker, new_loop, Burst, conversation)
    assert received == BURST


def test_client_that_refuses_the_certificate_gets_no_alert_in_return(broker: SecuredBroker) -> None:
    """The client has sent an alert itself, so there is nothing to report to it."""
    context = ssl.create_default_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with connected(broker, "SASL_SSL") as raw:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        channel = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLCertVerificationError):
            while True:
                with contextlib.suppress(ssl.SSLWantReadError):
                    channel.do_handshake()
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(1 << 16))
        raw.sendall(outgoing.read())
        assert raw.makefile("rb").read() == b""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_renegotiation_of_tls_1_2_is_refused(broker: SecuredBroker) -> None:
    """Each handshake costs the broker more than the client (CVE-2011-1473), and could be repeated without a new connection."""
    host, port = broker.address("SASL_SSL")
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-tls1_2", "-CAfile", broker.trusted, "-msg"]
    # The line R begins a handshake on the open connection.
    client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert client.stdin is not None and client.stdout is not None
    # After a second handshake the client would wait for input.
    limit = threading.Timer(oracle.LIMIT_S, client.kill)
    limit.start()
    shown = ""
    for line in client.stdout:
        shown += line
        if "Extended master secret" in line:
            client.stdin.write("R\n")
            client.stdin.flush()
    limit.cancel()
    client.stdin.close()
    client.stdout.close()
    assert client.wait(TIMEOUT_S) != 0
    first, again = shown.split("RENEGOTIATING\n")
    assert "Verify return code: 0 (ok)" in first
    assert "no_renegotiation" in again and "ServerHello" not in again
    assert "no renegotiation" in again.splitlines()[-1], again
    context = broker.context()
    with connected(broker, "SASL_SSL") as raw, context.wrap_socket(raw, server_hostname="localhost") as channel:
        channel.sendall(VERSIONS)
        assert read_response(channel).error_code == 0
