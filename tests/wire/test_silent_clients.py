"""A client of a SASL listener that stays silent is disconnected after connections.max.idle.ms, by ottla and by Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from ottla.simulation.client import Closed
from tests.support.raw_client import RawClient
from tests.wire.secured import LOGIN, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.java]

SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{LOGIN}.plain.PlainLoginModule required user_alice="secret";',
    "connections.max.idle.ms": "1000",
}


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    port = free_port()
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), settings=SETTINGS, listeners={"SASL_PLAINTEXT": port})
    try:
        kafka.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    listeners = {"listeners": "PLAINTEXT://localhost:0,SASL_PLAINTEXT://localhost:0"}
    ottla = SecuredBroker(tmp_path_factory.mktemp("secured"), {**SETTINGS, **listeners})
    yield [ottla.listening["SASL_PLAINTEXT"], f"127.0.0.1:{port}"]
    ottla.close()
    kafka.stop()


@pytest.mark.parametrize("phase", ["connected", "after ApiVersions", "after SaslHandshake", "authenticated", "half a request"])
def test_silent_client_is_disconnected_as_by_kafka(addresses: list[str], phase: str) -> None:
    for address in addresses:
        client = RawClient(address)
        if phase == "after ApiVersions":
            client.call(ApiVersionsRequest(client_software_name="c", client_software_version="1"), 3)
        elif phase == "half a request":
            client.send_bytes(b"\0\0\1\0" + bytes(100))
        elif phase != "connected":
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            if phase == "authenticated":
                assert client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0secret"), 2).error_code == 0
        with pytest.raises(Closed):
            client.receive_frame()
        client.socket.close()
