"""Stock clients produce, consume and commit transactions over TLS, with client certificates, and by every mechanism of SASL."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import oracle
from tests.wire.secured import PASSWORD, USER, SecuredBroker

pytestmark = pytest.mark.wire

WAYS = [
    ("SSL", None),
    *((protocol, m) for protocol in ("SASL_PLAINTEXT", "SASL_SSL") for m in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
]
IDS = [f"{protocol}-{mechanism or 'mTLS'}" for protocol, mechanism in WAYS]
CALL_S = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"))
    yield started
    started.close()
    logged = started.logged()
    assert not [line for line in logged if line["level"] in ("error", "critical")]
    assert PASSWORD not in started.log.read_text() and "of the key" not in started.log.read_text()


def librdkafka(broker: SecuredBroker, protocol: str, mechanism: str | None, **more: Any) -> dict[str, Any]:
    host, port = broker.address(protocol)
    given: dict[str, Any] = {"bootstrap.servers": f"{host}:{port}", "security.protocol": protocol, "log_level": 0}
    if protocol.endswith("SSL"):
        given["ssl.ca.location"] = broker.trusted
    if mechanism is None:
        given |= {"ssl.certificate.location": broker.own, "ssl.key.location": broker.own}
    elif mechanism == "OAUTHBEARER":
        given |= {"sasl.mechanism": mechanism, "enable.sasl.oauthbearer.unsecure.jwt": True}
        given["sasl.oauthbearer.config"] = f"principal={USER}"
    else:
        given |= {"sasl.mechanism": mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
    return given | more


@pytest.mark.parametrize(("protocol", "mechanism"), [*WAYS, ("SASL_SSL", "OAUTHBEARER")], ids=[*IDS, "SASL_SSL-OAUTHBEARER"])
def test_librdkafka_commits_a_transaction_over_tls_and_sasl(broker: SecuredBroker, protocol: str, mechanism: str | None) -> None:
    from confluent_kafka import Consumer, Producer

    topic = f"t-{uuid.uuid4().hex[:8]}"
    # The value is larger than a TLS record, the socket's buffers, and the largest frame before authentication.
    values = [b"a" * 900_000, b"b", b"c" * 700_000]
    producer = Producer(librdkafka(broker, protocol, mechanism, **{"transactional.id": topic}))
    producer.init_transactions(CALL_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value)
        producer.flush(CALL_S)
        end(CALL_S)
    consumer = Consumer(librdkafka(broker, protocol, mechanism, **{"group.id": topic, "auto.offset.reset": "earliest"}))
    consumer.subscribe([topic])
    read: list[bytes] = []
    deadline = time.monotonic() + CALL_S
    while len(read) < len(values) and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            read.append(message.value())
    consumer.close()
    assert read == values


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS, ids=IDS)
def test_kafka_python_produces_and_consumes_over_tls_and_sasl(broker: SecuredBroker, protocol: str, mechanism: str | None) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    host, port = broker.address(protocol)
    given: dict[str, Any] = {"bootstrap_servers": f"{host}:{port}", "security_protocol": protocol}
    if protocol.endswith("SSL"):
        given |= {"ssl_cafile": broker.trusted}
    if mechanism is None:
        given |= {"ssl_certfile": broker.own, "ssl_keyfile": broker.own}
    else:
        given |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"t-{uuid.uuid4().hex[:8]}"
    producer = KafkaProducer(**given)
    producer.send(topic, b"x" * 500_000).get(CALL_S)
    producer.close(10)
    consumer = KafkaConsumer(**given, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    sizes = oracle.wait_for(
        "the record is read",
        lambda: [len(m.value) for found in consumer.poll(timeout_ms=1_000).values() for m in found],
        bool,
    )
    consumer.close()
    assert sizes == [500_000]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS, ids=IDS)
def test_aiokafka_produces_and_consumes_over_tls_and_sasl(broker: SecuredBroker, protocol: str, mechanism: str | None) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    host, port = broker.address(protocol)
    given: dict[str, Any] = {"bootstrap_servers": f"{host}:{port}", "security_protocol": protocol}
    if protocol.endswith("SSL"):
        given["ssl_context"] = broker.context(None if mechanism else broker.own)
    if mechanism is not None:
        given |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    topic = f"t-{uuid.uuid4().hex[:8]}"

    async def run() -> bytes:
        producer = AIOKafkaProducer(**given, enable_idempotence=True)
        await producer.start()
        await producer.send_and_wait(topic, b"x" * 500_000)
        await producer.stop()
        consumer = AIOKafkaConsumer(topic, **given, auto_offset_reset="earliest")
        await consumer.start()
        message = await asyncio.wait_for(consumer.getone(), CALL_S)
        await consumer.stop()
        value: bytes = message.value
        return value

    assert len(asyncio.run(run())) == 500_000


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_stock_client_reports_a_wrong_sasl_password(broker: SecuredBroker, mechanism: str, tmp_path: Path) -> None:
    from confluent_kafka import KafkaError, Producer

    errors: list[Any] = []
    given = librdkafka(broker, "SASL_SSL", mechanism, **{"sasl.password": "wrong", "error_cb": errors.append})
    producer = Producer(given)
    oracle.wait_for("the client reports the error", lambda: producer.poll(0.2) or errors, bool)
    assert any(error.code() == KafkaError._AUTHENTICATION and "Authentication failed" in str(error) for error in errors)
