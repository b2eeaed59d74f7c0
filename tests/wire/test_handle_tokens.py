"""Stock clients that authenticate at an `ottla.Broker` by unsecured tokens, and tokens that end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiokafka
import kafka
import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient

from ottla import Acl, Broker
from tests.support.waiting import wait_until
from tools import kafka as tools

pytestmark = pytest.mark.wire

CALL_S = 60
TOKENS = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512,OAUTHBEARER"}


@pytest.mark.parametrize("security", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_token_of_an_authenticated_client_ends_on_a_manual_clock(security: str) -> None:
    grants = [Acl("carol", "write", topic="orders")]
    with Broker(security=security, acls=grants, settings=TOKENS, clock="manual") as broker:
        broker.create_topic("orders", 1)
        errors: list[Any] = []
        config = broker.client_config("confluent", "carol", mechanism="OAUTHBEARER")
        producer = Producer({**config, "error_cb": errors.append, "log_level": 0})
        producer.produce("orders", b"paid")
        assert producer.flush(CALL_S) == 0
        assert [record.value for record in broker.records("orders")] == [b"paid"]
        broker.clock.advance("2h")
        producer.produce("orders", b"late")

        def is_refused() -> bool:
            producer.poll(0.1)
            # The broker answers a refused client after connection.failed.authentication.delay.ms of its own clock.
            broker.clock.advance("1s")
            return any(error.code() == KafkaError._AUTHENTICATION for error in errors)

        # The token has ended for the broker, but not for librdkafka, which connects with the same token again.
        wait_until(is_refused, CALL_S)
        assert any("the session has ended" in line for line in broker.logs)
        assert len(broker.records("orders")) == 1


@pytest.mark.parametrize("library", ["kafka-python", "aiokafka", "confluent"])
def test_clients_authenticate_by_an_unsecured_token(library: str) -> None:
    with Broker(security="SASL_PLAINTEXT", settings=TOKENS) as broker:
        broker.create_topic("orders", 1)
        config = broker.client_config(library, "carol", mechanism="OAUTHBEARER")
        assert TOPICS[library](config) >= {"orders"}


@pytest.mark.java
@pytest.mark.full
def test_kafkas_tools_authenticate_by_an_unsecured_token() -> None:
    try:
        tools.java()
        tools.jars("all")
    except tools.Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools: {missing}")
    with Broker(security="SASL_SSL", settings=TOKENS) as broker:
        broker.create_topic("orders", 1)
        config = str(broker.client_properties("carol", mechanism="OAUTHBEARER"))
        command = (
            "org.apache.kafka.tools.TopicCommand",
            "--bootstrap-server",
            broker.bootstrap,
            "--command-config",
            config,
            "--list",
        )
        assert tools.tool(*command).split() == ["orders"]


async def aiokafka_topics(config: dict[str, Any]) -> set[str]:
    client = aiokafka.AIOKafkaConsumer(**config)
    await client.start()
    try:
        return set(await client.topics())
    finally:
        await client.stop()


def kafka_python_topics(config: dict[str, Any]) -> set[str]:
    client = kafka.KafkaConsumer(**config)
    try:
        return set(client.topics())
    finally:
        client.close()


TOPICS: dict[str, Callable[[dict[str, Any]], set[str]]] = {
    "kafka-python": kafka_python_topics,
    "aiokafka": lambda config: asyncio.run(aiokafka_topics(config)),
    "confluent": lambda config: set(AdminClient(config).list_topics(timeout=CALL_S).topics),
}
