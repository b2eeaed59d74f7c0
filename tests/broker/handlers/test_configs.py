"""Configs that are described and changed while the broker runs, compared with Apache Kafka's responses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.apis.api import RequestContext
from ottla.broker.handlers import describe_configs, incremental_alter_configs
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.broker.config_cases import APPEND, CASES, SET, STARTED_WITH, B, Case, T, case_id, describe, request, shown
from tests.support.raw_client import create

TABLES = Path(__file__).parents[1] / "config/kafka_configs"

AS_WANTED_HERE = {
    "group.consumer.assignment.interval.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.initial.rebalance.delay.ms",
    "group.min.session.timeout.ms",
    "group.share.assignment.interval.ms",
    "group.share.heartbeat.interval.ms",
    "group.share.min.heartbeat.interval.ms",
    "group.share.min.record.lock.duration.ms",
    "group.streams.assignment.interval.ms",
    "group.streams.heartbeat.interval.ms",
    "group.streams.initial.rebalance.delay.ms",
    "group.streams.min.heartbeat.interval.ms",
    "offsets.topic.replication.factor",
    "queued.max.request.bytes",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}
"""Configs whose default differs from Kafka's on purpose. Their value, source and first synonym are not compared."""


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def client(simulated: SimulatedBroker) -> Iterator[SimulatedClient]:
    with simulated.connect() as connected:
        yield connected


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_config_change_has_the_error_code_and_resulting_value_of_kafka(case: Case, client: SimulatedClient) -> None:
    name = "t" if case.kind == T else case.name
    if case.kind == T:
        create(client, name)
    for asked in case.asked[:-1]:
        assert client.call(request(case, name, asked, False)).responses[0].error_code == 0
    answer = client.call(request(case, name, case.asked[-1], case.validate_only)).responses[0]
    assert Code(answer.error_code) is case.code, answer.error_message
    assert case.says is None or case.says in answer.error_message
    if case.values:
        described = client.call(describe(case.kind, name or "1", list(case.values))).results[0].configs
        assert {e.name: e.value for e in described} == {k: v for k, v in case.values.items() if v is not None or k == "no.such"}


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_every_config_is_described_like_in_kafka(client: SimulatedClient, kind: str) -> None:
    create(client, "t")
    described = client.call(describe(B, "1") if kind == "broker" else describe(T, "t")).results[0].configs
    ours = {e.name: shown(e) for e in described if e.name not in STARTED_WITH and not e.name.startswith("ottla.")}
    kafkas = {line.partition(" ")[0]: line for line in (TABLES / f"{kind}.txt").read_text().splitlines()}
    assert ours.keys() == kafkas.keys()
    assert {n: ours[n] for n in ours if n not in AS_WANTED_HERE} == {n: kafkas[n] for n in kafkas if n not in AS_WANTED_HERE}
    for name in AS_WANTED_HERE & ours.keys():
        # The last synonym is Kafka's own default, even if ottla's default differs.
        assert ours[name].split()[-1] == kafkas[name].split()[-1]


@pytest.mark.parametrize(("kind", "name"), [(B, "1"), (T, "t")])
def test_config_documentation_is_included_on_request(client: SimulatedClient, kind: int, name: str) -> None:
    create(client, "t")
    documented = client.call(describe(kind, name, documented=True)).results[0].configs
    assert [e.name for e in documented if not e.documentation] == []
    assert {e.documentation for e in client.call(describe(kind, name)).results[0].configs} == {None}


def test_refused_config_change_writes_no_metadata_record(simulated: SimulatedBroker, client: SimulatedClient) -> None:
    """Regression test: an invalid value was logged before it was validated, and the broker could no longer start."""
    before = simulated.broker.cluster.features_epoch
    wrong = AlterableConfig(name="max.connections.per.ip.overrides", config_operation=SET, value="nonsense")
    answer = client.call(
        IncrementalAlterConfigsRequest([AlterConfigsResource(resource_type=B, resource_name="", configs=[wrong])])
    ).responses[0]
    assert answer.error_code == Code.INVALID_REQUEST
    assert simulated.broker.cluster.features_epoch == before
    simulated.restart(kill=True)


def test_unusable_config_in_the_metadata_log_does_not_prevent_the_start(simulated: SimulatedBroker) -> None:
    configs = {"message.max.bytes": "many", "max.connections": "77", "max.connections.per.ip.overrides": "nonsense"}
    cluster = simulated.broker.cluster
    for name, value in configs.items():
        cluster.metadata_log.execute(cluster.state.set_configs(B, "", {name: value}))
    simulated.restart()
    settings = simulated.broker.settings
    assert (settings.max_connections, settings.max_connections_per_ip_overrides) == (77, "")


def test_cleanup_policy_appended_by_incremental_alter_configs_takes_effect(
    simulated: SimulatedBroker, client: SimulatedClient
) -> None:
    create(client, "t", retention_ms="5")
    create(client, "own", cleanup_policy="compact")
    asked = AlterConfigsResource(
        resource_type=B,
        resource_name="",
        configs=[AlterableConfig(name="log.cleanup.policy", config_operation=APPEND, value="compact")],
    )
    client.call(IncrementalAlterConfigsRequest([asked]))
    partitions = simulated.broker.partitions
    assert partitions.get("t", 0).log.config.cleanup_policy == ("delete", "compact")
    assert partitions.get("own", 0).log.config.cleanup_policy == ("compact",)


def test_incremental_append_to_a_topic_config_starts_from_kafkas_default(client: SimulatedClient) -> None:
    create(client, "t")
    of_the_broker = AlterConfigsResource(
        resource_type=B,
        resource_name="",
        configs=[AlterableConfig(name="log.cleanup.policy", config_operation=SET, value="compact")],
    )
    client.call(IncrementalAlterConfigsRequest([of_the_broker]))
    of_the_topic = AlterConfigsResource(
        resource_type=T,
        resource_name="t",
        configs=[AlterableConfig(name="cleanup.policy", config_operation=APPEND, value="delete")],
    )
    client.call(IncrementalAlterConfigsRequest([of_the_topic]))
    assert client.call(describe(T, "t", ["cleanup.policy"])).results[0].configs[0].value == "delete"


def test_alter_configs_that_lists_a_resource_twice_is_refused_for_both_entries(client: SimulatedClient) -> None:
    create(client, "t")
    create(client, "u")
    retention = [AlterableConfig(name="retention.ms", config_operation=SET, value="5")]
    resources = [AlterConfigsResource(resource_type=T, resource_name=name, configs=retention) for name in ("t", "u", "t")]
    answers = client.call(IncrementalAlterConfigsRequest(resources)).responses
    assert [(a.resource_name, a.error_code) for a in answers] == [("t", 42), ("u", 0), ("t", 42)]
    assert answers[0].error_message == "Each resource must appear at most once."


@pytest.mark.parametrize(
    ("kind", "name", "code", "says"),
    [
        (T, "nope", 3, "The topic 'nope' does not exist."),
        (T, "", 42, "Default topic resources are not allowed."),
        (T, "a b", 17, "invalid"),
        (B, "2", 42, "Unexpected broker id, expected 1, but received 2"),
        (B, "x", 42, "Node id must be an integer, but it is: x"),
        (99, "x", 42, "Unknown resource type 99"),
    ],
)
def test_unknown_config_resources_are_refused(client: SimulatedClient, kind: int, name: str, code: int, says: str) -> None:
    asked = [
        AlterConfigsResource(
            resource_type=kind, resource_name=name, configs=[AlterableConfig(name="retention.ms", config_operation=SET, value="5")]
        )
    ]
    answer = client.call(IncrementalAlterConfigsRequest(asked)).responses[0]
    assert (answer.error_code, says in answer.error_message) == (code, True)
    described = client.call(describe(kind, name)).results[0]
    assert described.error_code == (17 if (kind, name) == (T, "") else code)


def test_topic_is_not_created_with_an_invalid_config(client: SimulatedClient) -> None:
    for name, value in (("segment.bytes", "100"), ("cleanup.policy", None), ("no.such", "1"), ("cleanup.policy", "forget")):
        topic = CreatableTopic(
            name="t", num_partitions=1, replication_factor=1, configs=[CreatableTopicConfig(name=name, value=value)]
        )
        assert client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000)).topics[0].error_code == Code.INVALID_CONFIG


def test_configs_of_many_resources_are_handled_in_steps(simulated: SimulatedBroker, client: SimulatedClient) -> None:
    names = [f"t{number}" for number in range(30)]
    for name in names:
        create(client, name)
    retention = [AlterableConfig(name="retention.ms", config_operation=SET, value="5")]
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(resource_type=T, resource_name=name, configs=retention) for name in names]
    )
    sent = client.send(request, 1)
    assert [a.error_code for a in client.receive(sent).responses] == [0] * 30
    described = client.call(describe_all(names)).results
    assert [next(c.value for c in r.configs if c.name == "retention.ms") for r in described] == ["5"] * 30
    context = RequestContext(1, "", "", 0, "PLAINTEXT")
    for handled in (
        incremental_alter_configs.handle(simulated.broker, request, context),
        describe_configs.handle(simulated.broker, describe_all(names), context),
    ):
        # The request has more resources than the first step handles.
        handled.send(None)
        handled.close()


def describe_all(names: list[str]) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        [DescribeConfigsResource(resource_type=T, resource_name=name, configuration_keys=None) for name in names]
    )


def test_internal_segment_bytes_takes_precedence_over_segment_bytes(simulated: SimulatedBroker, client: SimulatedClient) -> None:
    create(client, "t", internal_segment_bytes="300", segment_bytes="2000000")
    assert simulated.broker.partitions.get("t", 0).log.config.segment_bytes == 300


@pytest.mark.parametrize(
    ("settings", "first_ms"),
    [
        ({"log.initial.task.delay.ms": "7000", "log.retention.check.interval.ms": "100"}, 7_000),
        ({"log.retention.check.interval.ms": "100"}, 100),
        ({}, 30_000),
    ],
    ids=["configured", "check interval", "default of Kafka"],
)
def test_log_initial_task_delay_decides_the_first_retention_check(settings: dict[str, str], first_ms: int) -> None:
    simulated = SimulatedBroker(settings).start()
    passes: list[int] = []
    apply = simulated.broker.directory.apply_retention
    simulated.broker.directory.apply_retention = lambda now_ms, refused: passes.append(now_ms) or apply(now_ms, refused)  # type: ignore
    simulated.env.advance(first_ms - 50)
    assert passes == []
    simulated.env.advance(100)
    assert passes
    simulated.close()
