"""Encrypted and authenticated connections, to genuine brokers and to other servers."""

from __future__ import annotations

import datetime
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from ottla import Broker
from ottla.addresses import Address
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import ClientError, NotKafka
from ottla.client.security.client_config import Connecting
from ottla.client.wire import connection as module
from ottla.client.wire.connection import BrokerConnection
from ottla.client.wire.transport import SocketTransport
from ottla.protocol.codec import API_VERSIONS_KEY
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse
from tests.client.security.certificates import HOST, pem_of, pkcs12_store, server_context, store
from tests.client.security.listener import answering, closed_broker, listening, open_broker, plain_broker, versions

pytestmark = pytest.mark.wire

ALICE = {"kafka.sasl.mechanism": "PLAIN", "kafka.sasl.username": "alice", "kafka.sasl.password": "secret"}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA(organization_name="tests", organization_unit_name="the authority")


@pytest.fixture
def certificate(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(HOST, common_name="the broker")


def connecting(address: Address, authority: trustme.CA | None = None, **options: str) -> Connecting:
    """Return the settings of a connection. Option names have no prefix `kafka.`, and two underscores for each dot."""
    given = {f"kafka.{name.replace('__', '.')}": value for name, value in options.items()}
    if authority is not None:
        given["kafka.ssl.truststore.certificates"] = authority.cert_pem.bytes().decode()
    return Connecting.parse({"kafka.bootstrap.servers": f"{address[0]}:{address[1]}", **given})


def connect(address: Address, authority: trustme.CA | None = None, **options: str) -> BrokerConnection:
    settings = connecting(address, authority, **options)
    transport = SocketTransport(address, 5, settings)
    try:
        return BrokerConnection(address, transport, connecting=settings)
    except BaseException:
        transport.close()
        raise


def secured(address: Address, authority: trustme.CA, **options: str) -> BrokerConnection:
    return connect(address, authority, security__protocol="SSL", **options)


def authenticated(address: Address, password: str = "secret", **options: str) -> BrokerConnection:
    by_name = {"sasl__mechanism": "PLAIN", "sasl__username": "alice", "sasl__password": password}
    return connect(address, **{"security__protocol": "SASL_PLAINTEXT", **by_name, **options})


def ask(connection: BrokerConnection) -> InitProducerIdResponse:
    try:
        answer: InitProducerIdResponse = connection.call(request())
        return answer
    finally:
        connection.close()


def request() -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id="tests")


def refused(call: Callable[[], Any]) -> str:
    """Check that the call raises a one-line ClientError without the password, and return its message."""
    with pytest.raises(ClientError) as error:
        call()
    line = str(error.value)
    assert "\n" not in line
    assert "secret" not in line
    return line


def test_client_accepts_a_trusted_certificate(authority: trustme.CA, certificate: trustme.LeafCert) -> None:
    with listening(answering(open_broker), server_context(certificate)) as address:
        assert ask(secured(address, authority)).error_code == 0


def test_client_accepts_a_certificate_in_its_trust_store(authority: trustme.CA, certificate: trustme.LeafCert) -> None:
    leaf = certificate.cert_chain_pems[0].bytes().decode()
    with listening(answering(open_broker), server_context(certificate)) as address:
        options = {"security__protocol": "SSL", "ssl__truststore__certificates": f"# Größe\n{leaf}"}
        assert ask(connect(address, **options)).error_code == 0


def test_client_refuses_an_untrusted_certificate(certificate: trustme.LeafCert) -> None:
    with listening(answering(open_broker), server_context(certificate)) as address:
        line = refused(lambda: secured(address, trustme.CA()))
    assert f"localhost:{address[1]} presented a certificate of 'the broker' by 'tests, the authority', valid until" in line
    assert "unable to get local issuer certificate" in line
    assert "kafka.ssl.truststore.location" in line


def test_client_refuses_an_expired_certificate(authority: trustme.CA) -> None:
    now = datetime.datetime.now(datetime.UTC)
    expired = authority.issue_cert(HOST, not_before=now - datetime.timedelta(days=9), not_after=now - datetime.timedelta(days=1))
    with listening(answering(open_broker), server_context(expired)) as address:
        line = refused(lambda: secured(address, authority))
    assert "certificate has expired" in line
    assert f"valid until {(now - datetime.timedelta(days=1)):%b}" in line


def test_client_refuses_a_certificate_of_another_host(authority: trustme.CA) -> None:
    other = authority.issue_cert("kafka.example", "10.0.0.1")
    with listening(answering(open_broker), server_context(other)) as address:
        line = refused(lambda: secured(address, authority))
        assert "presented a certificate of another host (kafka.example, 10.0.0.1)" in line
        anyway = secured(address, authority, ssl__endpoint__identification__algorithm="")
        assert ask(anyway).error_code == 0


@pytest.mark.parametrize("password", ["", "hidden"])
def test_client_certificate_is_presented_on_request(
    password: str, authority: trustme.CA, certificate: trustme.LeafCert, tmp_path: Path
) -> None:
    mine = {"ssl__keystore__location": store(tmp_path / "me.pem", pem_of(authority.issue_cert("me@here"), password))}
    if password:
        mine["ssl__key__password"] = password
    with listening(answering(open_broker), server_context(certificate, authority)) as address:
        assert ask(secured(address, authority, **mine)).error_code == 0
        assert "requires a client certificate" in refused(lambda: ask(secured(address, authority)))
        strange = {"ssl__keystore__location": store(tmp_path / "other.pem", pem_of(trustme.CA().issue_cert("x@here")))}
        assert "does not accept the client's certificate" in refused(lambda: ask(secured(address, authority, **strange)))


@pytest.mark.parametrize("key_password", ["", "of the key"])
def test_client_reads_pkcs12_stores(
    key_password: str, authority: trustme.CA, certificate: trustme.LeafCert, tmp_path: Path
) -> None:
    mine = {
        "ssl__truststore__location": pkcs12_store(tmp_path / "ca.p12", authority, None, "hidden"),
        "ssl__truststore__password": "hidden",
        "ssl__keystore__location": pkcs12_store(tmp_path / "me.p12", authority, authority.issue_cert("me@here"), "hidden"),
        "ssl__keystore__password": "hidden",
        "ssl__keystore__type": "PKCS12",
    }
    if key_password:
        mine["ssl__key__password"] = key_password
    with listening(answering(open_broker), server_context(certificate, authority)) as address:
        assert ask(connect(address, security__protocol="SSL", **mine)).error_code == 0
        assert "the password is wrong" in refused(
            lambda: connect(address, security__protocol="SSL", **{**mine, "ssl__truststore__password": "secret"})
        )


def test_client_refuses_unusable_key_and_trust_stores(authority: trustme.CA, tmp_path: Path) -> None:
    mine = authority.issue_cert("me@here")
    encrypted = {"ssl__keystore__location": store(tmp_path / "me.pem", pem_of(mine, "hidden"))}
    with listening(answering(open_broker)) as address:
        assert "kafka.ssl.key.password is missing for kafka.ssl.keystore.location" in refused(
            lambda: secured(address, authority, **encrypted)
        )
        assert "kafka.ssl.key.password is not the password of" in refused(
            lambda: secured(address, authority, **encrypted, ssl__key__password="wrong")
        )
        unfit = {"ssl__keystore__key": pem_of(trustme.CA().issue_cert("x@y")), "ssl__keystore__certificate__chain": pem_of(mine)}
        assert "do not belong together" in refused(lambda: secured(address, authority, **unfit))
        password = "give its password, kafka.ssl.truststore.password"
        kinds = {
            b"\xfe\xed\xfe\xed\0": "is a JKS store, but must be PEM: convert a Java store with `keytool",
            b"0\x82": f"is a PKCS12 store, but must be PEM: {password}",
            b"": "is not PEM, but must be PEM: convert a Java store with `keytool",
        }
        for content, kind in kinds.items():
            (tmp_path / "store").write_bytes(content)
            given = {"security__protocol": "SSL", "ssl__truststore__location": str(tmp_path / "store")}
            assert f"store {kind}" in refused(lambda given=given: connect(address, **given))
        (tmp_path / "store").write_bytes(b"0\x82")
        given = {
            "security__protocol": "SSL",
            "ssl__keystore__location": str(tmp_path / "store"),
            "ssl__keystore__password": "secret",
        }
        assert "the file is not a PKCS12 file, or the password is wrong" in refused(lambda: connect(address, **given))
        gone = {"security__protocol": "SSL", "ssl__truststore__location": "/nowhere.pem"}
        assert "/nowhere.pem cannot be read on this machine (No such file" in refused(lambda: connect(address, **gone))
        empty = {"security__protocol": "SSL", "ssl__truststore__certificates": "-----BEGIN CERTIFICATE-----\nx\n"}
        assert "kafka.ssl.truststore.certificates has no certificate" in refused(lambda: connect(address, **empty))


def test_client_reads_a_replaced_key_store_again(authority: trustme.CA, certificate: trustme.LeafCert, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    options = {"security__protocol": "SSL", "ssl__truststore__location": store(path, trustme.CA().cert_pem.bytes().decode())}
    with listening(answering(open_broker), server_context(certificate)) as address:
        assert "not trusted" in refused(lambda: connect(address, **options))
        authority.cert_pem.write_to_path(str(path))
        assert ask(connect(address, **options)).error_code == 0


def test_plaintext_listener_is_reported_to_a_tls_client() -> None:
    with listening(answering(open_broker)) as address:
        line = refused(lambda: secured(address, trustme.CA()))
    assert "does not use TLS on this listener, but kafka.security.protocol is SSL: give PLAINTEXT" in line


def test_tls_listener_is_reported_to_a_plaintext_client(certificate: trustme.LeafCert) -> None:
    with listening(answering(open_broker), server_context(certificate)) as address:
        line = refused(lambda: ask(connect(address)))
        assert "uses TLS on this listener, but kafka.security.protocol is PLAINTEXT: give SSL" in line
        assert "kafka.security.protocol is SASL_PLAINTEXT: give SASL_SSL" in refused(lambda: authenticated(address))


def test_sasl_listener_is_reported_to_a_client_without_sasl() -> None:
    with listening(answering(closed_broker)) as address:
        line = refused(lambda: ask(connect(address)))
    assert "requires clients to authenticate (PLAIN, SCRAM-SHA-512), but kafka.security.protocol is PLAINTEXT" in line


def test_client_reports_that_a_plaintext_ottla_listener_does_not_authenticate() -> None:
    with Broker() as broker:
        host, _, port = broker.bootstrap.rpartition(":")
        line = refused(lambda: authenticated((host, int(port))))
        assert (
            "does not authenticate clients on this listener, but kafka.security.protocol is SASL_PLAINTEXT: give PLAINTEXT" in line
        )
        assert "does not use TLS on this listener" in refused(lambda: secured((host, int(port)), trustme.CA()))


def test_sasl_user_is_authenticated_or_refused() -> None:
    with listening(answering(plain_broker())) as address:
        assert ask(authenticated(address)).error_code == 0
        line = refused(lambda: authenticated(address, password="secrets"))
        where = f"localhost:{address[1]}"
        assert line.startswith(f"authentication of 'alice' by PLAIN at {where} failed: SASL_AUTHENTICATION_FAILED: Authentication")
        assert line.endswith("failed: Invalid username or password")
        line = refused(lambda: authenticated(address, sasl__mechanism="SCRAM-SHA-256"))
        assert line.endswith("does not support kafka.sasl.mechanism SCRAM-SHA-256, but PLAIN")


def test_wrong_sasl_password_is_not_retried() -> None:
    seen: list[str] = []
    with listening(answering(plain_broker(seen=seen))) as address:
        options = {"sasl__mechanism": "PLAIN", "sasl__username": "alice", "sasl__password": "wrong"}
        settings = connecting(address, security__protocol="SASL_PLAINTEXT", **options)
        client = BrokerConnections(settings.bootstrap, connecting=settings)
        assert "authentication of 'alice' by PLAIN" in refused(client.features)
    assert seen == ["ApiVersions", "SaslHandshake", "SaslAuthenticate"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[float]]:
    now = [0.0]

    monkeypatch.setattr(module, "monotonic_s", lambda: now[0])
    return now


def test_sasl_session_is_reauthenticated_with_requests_in_flight(clock: list[float]) -> None:
    seen: list[str] = []
    with listening(answering(plain_broker(lifetime_ms=10_000, seen=seen))) as address:
        connection = authenticated(address)
        first = connection.send(request())
        clock[0] = 8.4
        second = connection.send(request())
        clock[0] = 8.5
        third = connection.send(request())
        assert [connection.receive(sent).error_code for sent in (first, second, third)] == [0, 0, 0]
        clock[0] = 16.9
        assert ask(connection).error_code == 0
    shaken = ["SaslHandshake", "SaslAuthenticate"]
    asked = ["InitProducerId"] * 2
    assert seen == ["ApiVersions", *shaken, *asked, *shaken, *asked]


def test_client_sends_no_requests_in_an_expired_sasl_session(clock: list[float]) -> None:
    with listening(answering(plain_broker(lifetime_ms=10_000))) as address:
        connection = authenticated(address)
        clock[0] = 10.0
        with pytest.raises(ConnectionError, match="session has ended"):
            connection.send(request())
        connection.close()


def closing(connection: socket.socket) -> None:
    connection.recv(1)


def test_connection_closed_during_authentication_is_a_retriable_error(certificate: trustme.LeafCert) -> None:
    with listening(closing) as address:
        for call in (lambda: secured(address, trustme.CA()), lambda: authenticated(address), lambda: ask(connect(address))):
            with pytest.raises(OSError):
                call()
    for after in ("SaslHandshake", "SaslAuthenticate"):
        broker = plain_broker()
        answer = answering(lambda name, sent, after=after, broker=broker: None if name == after else broker(name, sent))
        with listening(answer) as address, pytest.raises(ConnectionError, match="closed the connection"):
            authenticated(address)


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (b"\x7f\xff\xff\xff", "is not Kafka"),
        (b"\x00\x20\x00\x00" + bytes(4), "is not Kafka"),
        (b"\0\0\0\0", "is not Kafka"),
        (b"\0\0\0\5" + b"\0\0\0\1\0", "cannot be decoded"),
        (b"\0\0\0\x0c" + b"\0\0\0\1\0\0\x7f\xff\xff\xff\0\0", "cannot be decoded"),
        (b"\0\0\0\x0a" + b"\0\0\0\7\0\0\0\0\0\0", "belongs to no request"),
    ],
)
def test_malformed_sasl_response_is_refused(answer: bytes, line: str) -> None:
    with listening(answering(lambda name, sent: answer)) as address, pytest.raises(NotKafka, match=line):
        authenticated(address)


def test_unknown_sasl_error_code_is_reported_by_number() -> None:
    answers = {"ApiVersions": versions(), "SaslHandshake": SaslHandshakeResponse(error_code=999)}
    with listening(answering(lambda name, sent: answers[name])) as address:
        assert "refused SaslHandshake with error 999" in refused(lambda: authenticated(address))


def test_api_versions_falls_back_to_version_0() -> None:
    """The broker answers in version 0 that it does not support the client's version, and keeps the connection open (KIP-511)."""
    seen: list[int] = []

    def serve(connection: socket.socket) -> None:
        with connection.makefile("rb") as requests:
            for _ in range(2):
                frame = requests.read(int.from_bytes(requests.read(4), "big"))
                key, version, correlation_id = struct.unpack_from(">hhi", frame)
                seen.append(version)
                code = 35 if version else 0
                body = struct.pack(">ihihhh", correlation_id, code, 1, API_VERSIONS_KEY, 0, 0)
                assert key == API_VERSIONS_KEY
                connection.sendall(struct.pack(">i", len(body)) + body)

    with listening(serve) as address:
        connection = connect(address)
        line = refused(lambda: connection.call(request()))
        connection.close()
    assert seen == [5, 0]
    assert line == f"InitProducerId is not supported at localhost:{address[1]}: the broker does not have this API"


def test_client_tries_an_unreachable_address_once() -> None:
    attempts: list[Address] = []

    def connect(address: Address, timeout_s: float) -> SocketTransport:
        attempts.append(address)
        return SocketTransport(address, timeout_s)

    with socket.create_server(("localhost", 0)) as server:
        dead = server.getsockname()[1]
    with listening(answering(open_broker)) as (host, port):
        client = BrokerConnections(f"localhost:{dead},{host}:{port}", connect=connect)
        for _ in range(3):
            assert client.anyone().address == (host, port)
            client.close()
    assert attempts.count(("localhost", dead)) == 1
