"""Brokers for scenarios, started when they are first needed."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.brokers import Brokers, Target, Wire, start
from tests.scenarios.script import Answers, rewrite
from tests.support.raw_client import RawClient, create
from tests.support.shared_kafka import shared_kafka
from tools.kafka import ORACLE_VERSION, Unavailable


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brokers]:
    """Brokers of this session, which stay up until they are closed."""

    def start_or_skip(target: str, name: str) -> Target:
        try:
            return start(target, name, tmp_path_factory.mktemp(f"{target}-{name}"))
        except Unavailable as missing:
            pytest.skip(f"Apache Kafka: {missing}")

    of_the_session = Brokers(start_or_skip)
    yield of_the_session
    of_the_session.close_all()


KAFKA_MARKS = [pytest.mark.full, pytest.mark.java]


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=KAFKA_MARKS)])
def target(request: pytest.FixtureRequest) -> str:
    """The broker under test: ottla or Apache Kafka."""
    name: str = request.param
    return name


@pytest.fixture
def bootstrap(target: str, brokers: Brokers) -> str:
    if target == "kafka":
        return shared_kafka().bootstrap
    broker = brokers.of(target, "default")
    assert isinstance(broker, Wire)
    return broker.process.bootstrap


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient) -> str:
    """A new topic with one partition. It keeps records with old timestamps, although retention is checked twice a second."""
    name = f"bad-{uuid.uuid4().hex[:8]}"
    create(raw, name, retention_ms="-1")
    return name


@pytest.fixture(scope="session")
def rewriting(request: pytest.FixtureRequest) -> Iterator[dict[Path, dict[int, Answers]] | None]:
    """Responses by file and line if ``--rewrite`` was passed, else None. They are written into the transcripts at the end."""
    if not request.config.getoption("--rewrite"):
        yield None
        return
    answers: dict[Path, dict[int, Answers]] = defaultdict(lambda: defaultdict(list))
    yield answers
    for file, given in answers.items():
        rewrite(file, given, ORACLE_VERSION)
