"""Settings of TLS that each listener may have of its own, in ottla and in Apache Kafka."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.testing.security.client_configs import CLIENTS, ClientCredentials, properties
from tests.support.either_broker import EITHER
from tests.support.waiting import wait_until
from tests.wire.secured_clients.programs import PYTHON_BLOCKS, go_program, java_program, run_documented
from tests.wire.tls_listeners import (
    BY_CERTIFICATE,
    BY_PASSWORD,
    CIPHER,
    OTHER_CIPHER,
    PASSWORD,
    STORE_PASSWORD,
    TOPICS,
    Running,
    running,
)

pytestmark = [pytest.mark.wire, pytest.mark.full]

CALL_S = 60
PROGRAM_S = 300
INTERNAL_ERROR = bytes.fromhex("15030300020250")
"""The fatal TLS alert ``internal_error``, which Java sends for data that are not TLS."""
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


@pytest.fixture(scope="module", params=EITHER)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(request.param, tmp_path_factory.mktemp("listeners")) as broker:
        yield broker


def librdkafka(broker: Running, listener: str, own: str, **more: Any) -> dict[str, Any]:
    config = {
        "bootstrap.servers": broker.listening[listener],
        "security.protocol": "SASL_SSL" if listener == "BOTH" else "SSL",
        "ssl.ca.location": broker.certificates.trusted,
        "log_level": 0,
        **more,
    }
    return config | ({"ssl.certificate.location": own, "ssl.key.location": own} if own else {})


def visible_topics(config: dict[str, Any]) -> set[str]:
    """Return the topics that a stock client may describe, which depend on its user."""
    listed = AdminClient(config).list_topics(timeout=CALL_S).topics
    return {name for name in listed if name in TOPICS.values()}


def refusal(config: dict[str, Any]) -> list[int]:
    """Return the codes of the errors of a stock client that the broker refuses."""
    errors: list[KafkaError] = []
    admin = AdminClient({**config, "error_cb": errors.append})
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    wait_until(lambda: bool(admin.poll(0.05)) or any(error.code() != KafkaError._ALL_BROKERS_DOWN for error in errors))
    return [error.code() for error in errors]


def test_client_certificate_is_optional_where_it_is_only_requested(broker: Running) -> None:
    files = broker.certificates
    assert visible_topics(librdkafka(broker, "REQUESTED", files.own)) == {TOPICS[BY_CERTIFICATE]}
    assert visible_topics(librdkafka(broker, "REQUESTED", "")) == set(TOPICS.values())
    for version in (TLS_1_2, TLS_1_3):
        # librdkafka would send no certificate, because Kafka names the authorities that it trusts.
        with pytest.raises(ssl.SSLError, match=r"(?i)alert.(certificate.unknown|unknown.ca)"):
            negotiated(broker, "REQUESTED", (version, version), own=files.strange)


def test_client_of_sasl_ssl_needs_a_certificate_and_a_password_where_both_are_required(broker: Running) -> None:
    files = broker.certificates
    user = {"sasl.mechanism": "PLAIN", "sasl.username": BY_PASSWORD, "sasl.password": PASSWORD}
    # The principal is the user of the password, not the one of the certificate.
    assert visible_topics(librdkafka(broker, "BOTH", files.own, **user)) == {TOPICS[BY_PASSWORD]}
    for own in ("", files.strange):
        assert set(refusal(librdkafka(broker, "BOTH", own, **user))) & {KafkaError._SSL, KafkaError._TRANSPORT}
    wrong = refusal(librdkafka(broker, "BOTH", files.own, **user | {"sasl.password": "wrong"}))
    assert KafkaError._AUTHENTICATION in wrong


def negotiated(
    broker: Running,
    listener: str,
    versions: tuple[ssl.TLSVersion, ssl.TLSVersion] = (TLS_1_2, TLS_1_3),
    ciphers: str = "",
    own: str = "",
) -> tuple[str | None, str]:
    """Return the version of TLS and the cipher suite of a connection on which the broker answers a request. Raises SSLError."""
    context = broker.certificates.context(own)
    context.minimum_version, context.maximum_version = versions
    if ciphers:
        context.set_ciphers(ciphers)
    host, _, port = broker.listening[listener].rpartition(":")
    with (
        socket.create_connection((host, int(port)), CALL_S) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as channel,
    ):
        channel.sendall(request_frame(18, 3, 1, "c", ApiVersionsRequest(client_software_name="c", client_software_version="1")))
        received = channel.makefile("rb")
        size = int.from_bytes(received.read(4), "big")
        assert decode_response_frame(18, 3, received.read(size))[1].error_code == 0
        used = channel.cipher()
        assert used is not None
        return channel.version(), used[0]


@pytest.mark.parametrize(
    ("listener", "used", "refused"), [("MODERN", "TLSv1.3", TLS_1_2), ("OLDER", "TLSv1.2", TLS_1_3)], ids=["1.3", "1.2"]
)
def test_listener_of_one_tls_version_refuses_clients_of_the_other(
    broker: Running, listener: str, used: str, refused: ssl.TLSVersion
) -> None:
    assert negotiated(broker, listener)[0] == used
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version"):
        negotiated(broker, listener, (refused, refused))


def received(broker: Running, listener: str, sent: bytes) -> bytes:
    """Send data without TLS, and return what the broker sends until it ends the connection."""
    host, _, port = broker.listening[listener].rpartition(":")
    with socket.create_connection((host, int(port)), CALL_S) as raw:
        raw.sendall(sent)
        return raw.makefile("rb").read()


@pytest.mark.parametrize("listener", ["BOTH", "OLDER"])
@pytest.mark.parametrize(
    "sent",
    [
        request_frame(18, 3, 1, "c", ApiVersionsRequest(client_software_name="c", client_software_version="1")),
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"SSH-2.0-x\r\n",
        bytes(5),
        (1 << 30).to_bytes(4) + bytes(100),
        b"\x16\0\0\0\5\1\0\0\1\0",
    ],
    ids=["kafka", "http", "ssh", "zeros", "large", "version 0"],
)
def test_client_without_tls_gets_a_tls_alert_and_is_disconnected(broker: Running, listener: str, sent: bytes) -> None:
    assert received(broker, listener, sent) == INTERNAL_ERROR


def client_hello() -> bytes:
    context, outgoing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("size", [0, 1, 4, 5, 100])
def test_client_that_closes_the_connection_within_its_client_hello_gets_no_alert(broker: Running, size: int) -> None:
    host, _, port = broker.listening["BOTH"].rpartition(":")
    with socket.create_connection((host, int(port)), CALL_S) as raw:
        raw.sendall(client_hello()[:size])
        raw.shutdown(socket.SHUT_WR)
        assert raw.makefile("rb").read() == b""


def test_broker_waits_for_the_rest_of_a_client_hello(broker: Running) -> None:
    host, _, port = broker.listening["BOTH"].rpartition(":")
    hello = client_hello()
    with socket.create_connection((host, int(port)), CALL_S) as raw:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in hello:
            raw.sendall(bytes([byte]))
        # The broker's first record has its handshake (22), and not an alert (21).
        assert raw.makefile("rb").read(1) == b"\x16"


def test_listener_of_one_cipher_suite_negotiates_only_this_suite(broker: Running) -> None:
    # The suite belongs to TLS 1.2, so that a client of both versions gets TLS 1.2.
    assert negotiated(broker, "SUITE") == ("TLSv1.2", CIPHER)
    assert negotiated(broker, "SUITE", ciphers=f"{OTHER_CIPHER}:{CIPHER}") == ("TLSv1.2", CIPHER)
    for versions, ciphers in (((TLS_1_2, TLS_1_2), OTHER_CIPHER), ((TLS_1_3, TLS_1_3), "")):
        with pytest.raises(ssl.SSLError, match=r"(?i)handshake.failure|protocol.version"):
            negotiated(broker, "SUITE", versions, ciphers)
    # Another listener lets the client choose the other suite.
    assert negotiated(broker, "OLDER", ciphers=OTHER_CIPHER) == ("TLSv1.2", OTHER_CIPHER)


class OfStores:
    """The configurations of clients of the listener STORE."""

    def __init__(self, broker: Running) -> None:
        self._broker = broker

    def client_config(self, client: str, user: str = BY_CERTIFICATE) -> dict[str, Any]:
        """Return a client's configuration, with PKCS12 stores if the client can read them."""
        files = self._broker.certificates
        pem = ClientCredentials(
            bootstrap=self._broker.listening["STORE"], protocol="SSL", trusted=Path(files.trusted), own=Path(files.own)
        )
        config = CLIENTS[client](pem)
        if client == "confluent":
            del config["ssl.certificate.location"], config["ssl.key.location"]
            config |= {"ssl.keystore.location": files.own_store, "ssl.keystore.password": STORE_PASSWORD}
        if client == "java":
            for store, file in (("keystore", files.own_store), ("truststore", files.trusted_store)):
                config |= {f"ssl.{store}.type": "PKCS12", f"ssl.{store}.location": file, f"ssl.{store}.password": STORE_PASSWORD}
            config["ssl.key.password"] = STORE_PASSWORD
        return config


@pytest.mark.parametrize("client", [*PYTHON_BLOCKS, "franz-go", "sarama", pytest.param("java", marks=pytest.mark.java)])
def test_stock_clients_commit_and_read_on_a_listener_with_pkcs12_stores(broker: Running, client: str, tmp_path: Path) -> None:
    clients = OfStores(broker)
    if client in PYTHON_BLOCKS:
        run_documented(client, clients)
        return
    if client == "java":
        file = tmp_path / "client.properties"
        file.write_text(properties(clients.client_config("java")))
        command = [*java_program(), str(file)]
    else:
        command = [*go_program(client), json.dumps(clients.client_config(client))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "paid"
