"""Apache Kafka's config tables and its responses to config changes, which tests of ottla compare with."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest
from tests.broker.config_cases import APPEND, CASES, DELETE, SET, STARTED_WITH, B, Case, T, case_id, describe, one, request, shown
from tests.support import oracle
from tests.support.raw_client import RawClient, create
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

TABLES = Path(__file__).parent.parent / "broker/config/kafka_configs"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RawClient]:
    try:
        kafka.java()
        kafka.jars("all", kafka.KAFKA_VERSION)
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    # With ELR, the format tool would set min.insync.replicas as a default for all brokers.
    arguments = ("--standalone", "--feature", "eligible.leader.replicas.version=0")
    # Use the release that ottla follows for keys, defaults and rules.
    directory, version = tmp_path_factory.mktemp("kafka"), kafka.KAFKA_VERSION
    oracle = kafka.ApacheKafka(directory, format_arguments=arguments, version=version)
    with oracle, RawClient(oracle.bootstrap) as connected:
        yield connected


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_described_broker_and_topic_configs_equal_those_of_kafka(
    client: RawClient, kind: str, request: pytest.FixtureRequest
) -> None:
    if kind == "topic":
        create(client, "described")
    asked = describe(B, "1") if kind == "broker" else describe(T, "described")
    table = TABLES / f"{kind}.txt"
    if request.config.getoption("--rewrite"):
        table.write_text("\n".join(_lines(client, asked)) + "\n")
    wanted = table.read_text().splitlines()
    # The broker applies changes later than the controller, so a config that another test has deleted may still be set.
    oracle.wait_for(f"the {kind} table equals the file", lambda: _lines(client, asked), wanted.__eq__, at=client.bootstrap)


def _lines(client: RawClient, asked: DescribeConfigsRequest) -> list[str]:
    return sorted(shown(e) for e in client.call(asked).results[0].configs if e.name not in STARTED_WITH)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_config_changes_behave_like_in_kafka(client: RawClient, case: Case) -> None:
    name = f"t-{uuid.uuid4().hex[:8]}" if case.kind == T else case.name
    if case.kind == T:
        create(client, name)
    try:
        for asked in case.asked[:-1]:
            assert client.call(request(case, name, asked, False)).responses[0].error_code == 0
        answer = client.call(request(case, name, case.asked[-1], case.validate_only)).responses[0]
        assert Code(answer.error_code) is case.code, answer.error_message
        assert case.says is None or case.says in answer.error_message
        wanted = {k: v for k, v in case.values.items() if v is not None or k == "no.such"}
        if wanted:
            # The broker applies the change later than the controller.
            _wait_for_values(client, case.kind, name or "1", list(case.values), wanted)
    finally:
        if case.kind == B:
            taken_back = tuple((key, DELETE, None) for key in {operation[0] for asked in case.asked for operation in asked})
            client.call(request(case, name, taken_back, False))


def _wait_for_values(client: RawClient, kind: int, name: str, keys: list[str], wanted: dict[str, str | None]) -> None:
    oracle.wait_for(
        f"configs of {name!r} are {wanted}", lambda: _values(client, kind, name, keys), wanted.__eq__, at=client.bootstrap
    )


def _values(client: RawClient, kind: int, name: str, keys: list[str]) -> dict[str, str | None]:
    return {e.name: e.value for e in client.call(describe(kind, name, keys)).results[0].configs}


def test_append_to_a_list_config_of_a_topic_starts_from_kafkas_default(client: RawClient) -> None:
    of_the_broker = Case(what="", kind=B, asked=(one("log.cleanup.policy", SET, "compact"),), values={})
    of_the_topic = Case(what="", kind=T, asked=(one("cleanup.policy", APPEND, "delete"),), values={})
    create(client, "begins")
    try:
        client.call(request(of_the_broker, "", of_the_broker.asked[0], False))
        _wait_for_values(client, T, "begins", ["cleanup.policy"], {"cleanup.policy": "compact"})
        client.call(request(of_the_topic, "begins", of_the_topic.asked[0], False))
        _wait_for_values(client, T, "begins", ["cleanup.policy"], {"cleanup.policy": "delete"})
    finally:
        client.call(request(of_the_broker, "", one("log.cleanup.policy", DELETE, None), False))
