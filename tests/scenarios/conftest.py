"""Brokers for scenarios, started when they are first needed and kept for the session."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.raw import RawClient, create
from tests.scenarios.brokers import Target, Wire, start
from tools.kafka import Unavailable


@pytest.fixture(scope="session")
def broker_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str, str], Target]]:
    """A running broker by target and set-up, kept for the session."""
    running: dict[tuple[str, str], Target] = {}

    def find(target: str, name: str) -> Target:
        if (target, name) not in running:
            try:
                running[target, name] = start(target, name, tmp_path_factory.mktemp(f"{target}-{name}"))
            except Unavailable as missing:
                pytest.skip(f"Apache Kafka: {missing}")
        return running[target, name]

    yield find
    for broker in running.values():
        broker.close()


KAFKA_MARKS = [pytest.mark.slow, pytest.mark.java]


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=KAFKA_MARKS)])
def target(request: pytest.FixtureRequest) -> str:
    """Whose answers a test asks for."""
    name: str = request.param
    return name


@pytest.fixture
def bootstrap(target: str, broker_of: Callable[[str, str], Target]) -> str:
    broker = broker_of(target, "default")
    assert isinstance(broker, Wire)
    return broker.process.bootstrap


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient) -> str:
    """A fresh topic of one partition."""
    name = f"bad-{uuid.uuid4().hex[:8]}"
    create(raw, name)
    return name
