"""Clients and brokers for the wire tests."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla import Broker
from tests.support.shared_kafka import shared_kafka
from tests.wire.clients import Client, Message, WireConsumer
from tools.kafka import Unavailable

CLIENTS = ("kafka-python", "aiokafka", "confluent-kafka", "java")
GROUP_CLIENTS = (
    *((name, "classic") for name in CLIENTS),
    *(pytest.param((name, "consumer"), marks=pytest.mark.full) for name in ("confluent-kafka", "java")),
)
"""Each client with each group protocol that it supports. In `make test` only `test_consumer_groups` covers the newer protocol."""


def stock_client(name: str, protocol: str = "classic") -> Client:
    """Return a client library by its name. Its consumers join groups with this ``group.protocol``."""
    if name == "kafka-python":
        from tests.wire.clients.kafka_python import KafkaPython

        return KafkaPython()
    if name == "aiokafka":
        from tests.wire.clients.aio import AioKafka

        return AioKafka()
    if name == "confluent-kafka":
        from tests.wire.clients.confluent import Confluent

        return Confluent(protocol)
    from tests.wire.clients.java import Java, gateway

    try:
        gateway()
    except Unavailable as missing:
        pytest.skip(f"Java clients: {missing}")
    return Java(protocol)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return stock_client(request.param)


@pytest.fixture(params=GROUP_CLIENTS, ids="-".join)
def group_client(request: pytest.FixtureRequest) -> Client:
    """Clients for group tests: all of them with classic groups, and those that support KIP-848 also with consumer groups."""
    return stock_client(*request.param)


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """Address of a broker that all tests of a run share and that no test may stop. At the end of the run it must have logged no
    errors.

    With ``ORACLE=1`` it is an Apache Kafka broker, which shows whether a test's expectation is right.
    """
    if os.environ.get("ORACLE"):
        yield shared_kafka().bootstrap
        return
    ottla: Broker = request.getfixturevalue("ottla_session")
    yield ottla.bootstrap
    assert not [line for line in ottla.logs if '"level": "error"' in line]


@pytest.fixture
def unique() -> Callable[[str], str]:
    """Return a function that appends a unique suffix to a name."""
    return lambda stem: f"{stem}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def closing() -> Iterator[Callable[[Any], Any]]:
    """Return a function that registers an object to be closed after the test and returns the object."""
    opened: list[Any] = []

    def register(closable: Any) -> Any:
        opened.append(closable)
        return closable

    yield register
    for closable in reversed(opened):
        closable.close()


def read(consumer: WireConsumer, count: int, *, timeout_s: float = 60, settle_s: float = 0.3) -> list[Message]:
    """Return at least ``count`` messages within the timeout, and all further messages that arrive within ``settle_s``."""
    import time

    messages: list[Message] = []
    deadline = time.monotonic() + timeout_s
    while len(messages) < count and time.monotonic() < deadline:
        messages += consumer.poll(0.2)
    if settle_s:
        messages += consumer.poll(settle_s)
    return messages
