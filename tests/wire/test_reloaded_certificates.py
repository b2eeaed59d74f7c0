"""Key stores that kafka-configs changes while the broker runs, in ottla and in Apache Kafka (KIP-226)."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
import trustme

from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.api_versions import API_KEY, ApiVersionsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.network.test_reloading import named
from tests.client.security.certificates import pem_of, store
from tests.support.either_broker import EITHER
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.wire.secured import SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.full]

NODE, BROKER, SET, DELETE = "1", 4, 0, 1
OF_SSL = "listener.name.ssl."


class Running(NamedTuple):
    directory: Path
    plain: str
    secured: tuple[str, int]


@contextmanager
def running(kind: str, directory: Path, more: Mapping[str, str]) -> Iterator[Running]:
    first = directory / "first.pem"
    first.write_bytes(named(1, "localhost"))
    settings = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(first), **more}
    if kind == "ottla":
        listeners = "PLAINTEXT://localhost:0,SSL://localhost:0"
        given = {"ssl.client.auth": "none", "ssl.key.password": "", **settings, "listeners": listeners}
        own = SecuredBroker(directory, given)
        try:
            yield Running(directory, own.listening["PLAINTEXT"], own.address("SSL"))
        finally:
            own.close()
        return
    port = free_port()
    kafka = ApacheKafka(directory / "kafka", settings=settings, listeners={"SSL": port})
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    try:
        yield Running(directory, kafka.bootstrap, ("127.0.0.1", port))
    finally:
        kafka.stop()


@pytest.fixture(params=EITHER)
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Running]:
    with running(request.param, tmp_path, {}) as broker:
        yield broker


class Admin:
    """Alters configs, and reads the certificates that new connections get."""

    def __init__(self, broker: Running) -> None:
        self._broker = broker
        self._client = RawClient(broker.plain)

    def alter(self, name: str, value: str | None, node: str = NODE) -> str:
        config = AlterableConfig(name=name, config_operation=DELETE if value is None else SET, value=value)
        asked = AlterConfigsResource(resource_type=BROKER, resource_name=node, configs=[config])
        return Code(self._client.call(IncrementalAlterConfigsRequest(resources=[asked])).responses[0].error_code).name

    def use(self, name: str, data: bytes) -> str:
        """Write a key store, and set its path."""
        path = self._broker.directory / name
        path.write_bytes(data)
        return self.alter(f"{OF_SSL}ssl.keystore.location", str(path))

    def certificate(self) -> str:
        return ssl.get_server_certificate(self._broker.secured)

    def expect(self, data: bytes) -> None:
        """Wait until new connections get the certificate of a key store."""
        wait_until(lambda: self.certificate().strip().encode() in data)


def answers(connection: ssl.SSLSocket) -> bool:
    """Whether the broker answers a request on a connection."""
    connection.sendall(request_frame(API_KEY, 0, 1, "c", ApiVersionsRequest()))
    size = int.from_bytes(connection.recv(4), "big")
    data = b""
    while len(data) < size:
        data += connection.recv(size - len(data))
    return bool(decode_response_frame(API_KEY, 0, data)[1].api_keys)


def test_reloaded_certificate_applies_to_new_connections_and_closes_no_old_connection(broker: Running) -> None:
    admin = Admin(broker)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    raw = RawClient(f"{broker.secured[0]}:{broker.secured[1]}").socket
    with context.wrap_socket(raw, server_hostname="localhost") as connection:
        assert answers(connection)
        second, third = named(2, "localhost"), named(3, "localhost")
        assert admin.use("second.pem", second) == "NONE"
        admin.expect(second)
        assert answers(connection)
        # Key store files are read again when their path is set, even if the path is unchanged.
        assert admin.use("second.pem", third) == "NONE"
        admin.expect(third)
        assert answers(connection)
    assert admin.alter(f"{OF_SSL}ssl.keystore.location", None) == "NONE"
    admin.expect((broker.directory / "first.pem").read_bytes())


def test_config_change_to_an_unusable_key_store_is_refused(broker: Running) -> None:
    admin = Admin(broker)
    first = admin.certificate()
    assert admin.alter(f"{OF_SSL}ssl.keystore.location", "/gone") == "INVALID_REQUEST"
    assert admin.use("junk.pem", b"junk") == "INVALID_REQUEST"
    assert admin.use("subject.pem", named(2, "localhost", subject="other")) == "INVALID_REQUEST"
    assert admin.use("names.pem", named(2, "elsewhere")) == "INVALID_REQUEST"
    assert admin.alter(f"{OF_SSL}ssl.truststore.location", "/gone") == "INVALID_REQUEST"
    assert admin.certificate() == first


def test_key_stores_are_reloaded_for_one_listener_of_one_broker(broker: Running) -> None:
    admin = Admin(broker)
    for name in ("ssl.keystore.location", "ssl.keystore.password", "ssl.truststore.type"):
        assert admin.alter(name, "x") == admin.alter(name, "x", node="") == "INVALID_REQUEST"
    assert admin.alter(f"{OF_SSL}ssl.keystore.location", str(broker.directory / "first.pem"), node="") == "INVALID_REQUEST"
    assert admin.alter("ssl.allow.dn.changes", "true") == "INVALID_REQUEST"
    # The config names a listener that the broker does not have.
    assert admin.alter("listener.name.internal.ssl.keystore.location", "/tmp/test.jks") == "NONE"


def is_accepted(broker: Running, certificate: str) -> bool:
    """Whether the broker answers a client with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate)
    raw = RawClient(f"{broker.secured[0]}:{broker.secured[1]}").socket
    try:
        with context.wrap_socket(raw, server_hostname="localhost") as connection:
            return answers(connection)
    except ssl.SSLError:
        return False


@pytest.mark.parametrize("kind", EITHER)
def test_client_of_a_new_authority_is_accepted_after_its_certificate_is_added_to_the_trust_store(kind: str, tmp_path: Path) -> None:
    old, new = trustme.CA(), trustme.CA()
    of_old, of_new = (
        store(tmp_path / f"client-{number}.pem", pem_of(authority.issue_cert("client.invalid", common_name="client")))
        for number, authority in enumerate((old, new))
    )
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.cert_pem.bytes())
    location = f"{OF_SSL}ssl.truststore.location"
    given = {"ssl.client.auth": "required", "ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted)}
    with running(kind, tmp_path, given) as broker:
        admin = Admin(broker)
        assert is_accepted(broker, of_old) and not is_accepted(broker, of_new)
        trusted.write_bytes(old.cert_pem.bytes() + new.cert_pem.bytes())
        assert admin.alter(location, str(trusted)) == "NONE"
        wait_until(lambda: is_accepted(broker, of_new))
        assert is_accepted(broker, of_old)
        trusted.write_bytes(new.cert_pem.bytes())
        assert admin.alter(location, str(trusted)) == "NONE"
        wait_until(lambda: not is_accepted(broker, of_old))
        assert is_accepted(broker, of_new)
