"""Fixtures with a producer and a consumer of the client library that is installed, and their variants for asyncio.

The ``client`` of ``@pytest.mark.ottla`` is ``confluent`` or ``kafka-python``; ``producer`` and ``consumer`` are further settings.
Clients connect to the test's cluster, or to its broker, as a super user. The asyncio variants are clients of aiokafka.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import Any

import pytest

CLIENTS = {"confluent": ("confluent_kafka", "confluent-kafka"), "kafka-python": ("kafka", "kafka-python")}
"""Module and package of each client library. The first installed library is used."""
CLOSE_TIMEOUT_S = 10.0

# An asynchronous fixture belongs to the plugin that runs the test. pytest-asyncio wants its own decorator; anyio does not.
_fixture: Callable[..., Any] = pytest.fixture
if find_spec("pytest_asyncio") is not None:
    import pytest_asyncio

    _fixture = pytest_asyncio.fixture


def _options(request: pytest.FixtureRequest, name: str) -> dict[str, Any]:
    """Return an option of the pytest marker ``ottla``. A test's own marker takes precedence over that of its class or module."""
    for marker in request.node.iter_markers("ottla"):
        if marker.kwargs.get(name) is not None:
            return dict(marker.kwargs[name])
    return {}


def _library(request: pytest.FixtureRequest) -> str:
    given = next((one for m in request.node.iter_markers("ottla") if (one := m.kwargs.get("client")) is not None), None)
    wanted = [given] if given is not None else list(CLIENTS)
    for name in wanted:
        if find_spec(CLIENTS[name][0]) is not None:
            return name
    pytest.fail(f"no client library is installed: pip install {' or '.join(CLIENTS[name][1] for name in wanted)}", pytrace=False)


def _handle(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("ottla_cluster" if "ottla_cluster" in request.fixturenames else "ottla")


def _arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with Kafka's names as keyword arguments of a Python library."""
    return {name.replace(".", "_"): value for name, value in options.items()}


@pytest.fixture
def ottla_producer(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A producer of the installed client library: `confluent_kafka.Producer`, else `kafka.KafkaProducer`. The marker's ``producer``
    has further settings. With a ``transactional.id`` the producer is initialized."""
    library, options = _library(request), _options(request, "producer")
    config = _handle(request).client_config(library)
    if library == "confluent":
        from confluent_kafka import KafkaException, Producer

        producer = Producer({**config, **options})
        if "transactional.id" in options:
            producer.init_transactions(CLOSE_TIMEOUT_S)
        yield producer
        # A fenced producer raises an error here, which is no failure of the test.
        with suppress(KafkaException):
            producer.purge()
            producer.flush(CLOSE_TIMEOUT_S)
            # Without `close` the producer logs that the broker has stopped. Old versions of the library have no `close`.
            getattr(producer, "close", bool)()
    else:
        from kafka import KafkaProducer

        producer = KafkaProducer(**{**config, **_arguments(options)})
        if "transactional_id" in _arguments(options):
            producer.init_transactions()
        yield producer
        producer.close(timeout=0)


@pytest.fixture
def ottla_consumer(request: pytest.FixtureRequest, ottla_topic: str, ottla_group: str) -> Iterator[Any]:
    """A consumer of the installed client library, `confluent_kafka.Consumer`, else `kafka.KafkaConsumer`, which reads the committed
    records of ``ottla_topic`` from the beginning, in ``ottla_group``."""
    library, options = _library(request), _options(request, "consumer")
    config = _handle(request).client_config(library)
    reading = {"group.id": ottla_group, "auto.offset.reset": "earliest", "isolation.level": "read_committed", **options}
    if library == "confluent":
        from confluent_kafka import Consumer

        consumer = Consumer({**config, **reading})
        consumer.subscribe([ottla_topic])
        yield consumer
        consumer.close()
    else:
        from kafka import KafkaConsumer

        consumer = KafkaConsumer(ottla_topic, **config, **_arguments(reading))
        yield consumer
        consumer.close()


@_fixture
async def ottla_aio_producer(request: pytest.FixtureRequest, _ottla_aio_config: dict[str, Any]) -> AsyncIterator[Any]:
    """A started `aiokafka.AIOKafkaProducer`. The marker's ``producer`` has further settings."""
    from aiokafka import AIOKafkaProducer

    async with AIOKafkaProducer(**_ottla_aio_config, **_arguments(_options(request, "producer"))) as producer:
        yield producer


@_fixture
async def ottla_aio_consumer(
    request: pytest.FixtureRequest, _ottla_aio_config: dict[str, Any], ottla_topic: str, ottla_group: str
) -> AsyncIterator[Any]:
    """A started `aiokafka.AIOKafkaConsumer`, which reads the committed records of ``ottla_topic`` from the beginning, in
    ``ottla_group``."""
    from aiokafka import AIOKafkaConsumer

    reading = {"group.id": ottla_group, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    options = _arguments({**reading, **_options(request, "consumer")})
    async with AIOKafkaConsumer(ottla_topic, **_ottla_aio_config, **options) as consumer:
        yield consumer


@pytest.fixture
def _ottla_aio_config(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of aiokafka, created outside of the event loop, because a broker may have to start."""
    config: dict[str, Any] = _handle(request).client_config("aiokafka")
    return config
