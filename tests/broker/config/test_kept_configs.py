"""Configs of groups and of client metrics: descriptions and refusals equal Apache Kafka's, and configs survive a restart."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.broker.config.client_metrics import MAX_PATTERN_CHARACTERS, MAX_PATTERNS, MAX_VALUE_CHARACTERS
from ottla.broker.config.settings import OWN_DEFAULTS
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.config_totals import ConfigTotals
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from tests.support.counting import Limit, Meter, check_best

METRICS, GROUP = 16, 32
SET, DELETE, APPEND = range(3)
SESSION, RESET, TAGS = "consumer.session.timeout.ms", "share.auto.offset.reset", "streams.rack.aware.assignment.tags"
PATTERNS = Limit(lines=20_000, ms=200)
TABLE = Path(__file__).parent / "kafka_configs" / "group_4.4.0.txt"


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    simulated = SimulatedBroker({"group.share.heartbeat.interval.ms": "6000"}).start()
    yield simulated
    simulated.close()
    assert simulated.bugs == 0


def described(client: SimulatedClient, kind: int, name: str) -> dict[str, DescribeConfigsResourceResult]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = client.call(DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)).results
    assert result.error_code == 0
    return {config.name: config for config in result.configs}


def synonyms(config: DescribeConfigsResourceResult) -> list[tuple[str, str | None, int]]:
    return [(s.name, s.value, s.source) for s in config.synonyms]


def change(client: SimulatedClient, kind: int, name: str, *changes: tuple[str, str | None], operation: int = SET) -> int:
    configs = [
        AlterableConfig(name=key, config_operation=DELETE if value is None else operation, value=value) for key, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    code: int = client.call(IncrementalAlterConfigsRequest(resources=[resource])).responses[0].error_code
    return code


def listed(client: SimulatedClient, *kinds: int) -> list[tuple[int, str]]:
    resources = client.call(ListConfigResourcesRequest(resource_types=list(kinds))).config_resources
    return [(r.resource_type, r.resource_name) for r in resources]


def test_group_configs_are_described_like_in_kafka(broker: SimulatedBroker) -> None:
    shown = described(broker.connect(), GROUP, "nobody")
    table = [line.split("\t") for line in TABLE.read_text().splitlines() if not line.startswith("#")]
    assert set(shown) == {row[0] for row in table}
    for name, value, kind, source, read_only, row_synonyms in table:
        config = shown[name]
        assert config.documentation
        assert str(config.read_only) == read_only
        assert config.config_type == int(kind)
        if name == "share.heartbeat.interval.ms":
            # A group's default is the value that the broker is configured with.
            assert (config.value, config.config_source) == ("6000", 4)
            continue
        if f"group.{name}" in OWN_DEFAULTS:
            assert (config.value, config.config_source) == (OWN_DEFAULTS[f"group.{name}"], 4)
            continue
        assert (config.value, config.config_source) == (value, int(source)), name
        assert ",".join("=".join(map(str, synonym)) for synonym in synonyms(config)) == row_synonyms


def test_configs_of_groups_and_client_metrics_survive_a_restart(broker: SimulatedBroker) -> None:
    client = broker.connect()
    assert listed(client, GROUP, METRICS) == []
    assert change(client, GROUP, "g", (SESSION, "50000"), ("share.assignor.offload.enable", "false")) == 0
    assert change(client, GROUP, "g", (TAGS, "zone"), operation=APPEND) == 0
    assert change(client, METRICS, "m", ("interval.ms", "1000"), ("match", "client_id=a.*")) == 0
    client = broker.restart(kill=True).connect()
    assert listed(client, GROUP, METRICS) == [(GROUP, "g"), (METRICS, "m")]
    group, metrics = described(client, GROUP, "g"), described(client, METRICS, "m")
    assert synonyms(group[SESSION]) == [(SESSION, "50000", 8), (f"group.{SESSION}", "45000", 5)]
    assert (group["share.assignor.offload.enable"].value, group[TAGS].value) == ("false", "zone")
    assert synonyms(metrics["interval.ms"]) == [("interval.ms", "1000", 7)]
    assert (metrics["match"].value, metrics["metrics"].value) == ("client_id=a.*", "")
    assert [r.resource_name for r in client.call(ListConfigResourcesRequest(resource_types=[]), 0).config_resources] == ["m"]
    assert change(client, METRICS, "m", ("interval.ms", None), ("match", None)) == 0
    assert listed(client, METRICS) == []
    assert (METRICS, "m") not in broker.broker.cluster.state.configs


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (SESSION, "44999"),
        (SESSION, "60001"),
        (SESSION, "x"),
        (RESET, "by_duration:-PT1H"),
        (RESET, "by_duration:P"),
        ("share.delivery.count.limit", "11"),
        ("streams.num.standby.replicas", "3"),
        ("streams.assignor.name", "other"),
        ("errors.deadletterqueue.topic.name", "__consumer_offsets"),
        ("retention.ms", "1"),
    ],
)
def test_group_config_outside_its_bounds_is_refused(broker: SimulatedBroker, key: str, value: str) -> None:
    client = broker.connect()
    assert change(client, GROUP, "g", (key, value)) == Code.INVALID_CONFIG
    assert change(client, GROUP, "", (SESSION, "50000")) == Code.INVALID_REQUEST
    assert listed(client, GROUP) == []


def test_group_session_timeout_must_exceed_the_heartbeat_interval() -> None:
    settings = {
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.heartbeat.interval.ms": "5000",
        "group.consumer.max.heartbeat.interval.ms": "50000",
    }
    broker = SimulatedBroker(settings).start()
    client = broker.connect()
    assert change(client, GROUP, "g", ("consumer.heartbeat.interval.ms", "45000")) == Code.INVALID_CONFIG
    assert change(client, GROUP, "g", (SESSION, "5000")) == Code.INVALID_CONFIG
    assert change(client, GROUP, "g", (SESSION, "50000"), ("consumer.heartbeat.interval.ms", "45000")) == 0
    broker.close()


def test_group_config_does_not_change_the_topic_of_the_same_name(broker: SimulatedBroker) -> None:
    client = broker.connect()
    assert change(client, GROUP, "g", (SESSION, "50000")) == 0
    assert broker.broker.cluster.state.config_of(2, "g") == {}


def test_number_of_groups_with_stored_configs_is_limited(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.handlers.support.config_changes.MAX_KEPT", 1)
    client = broker.connect()
    assert change(client, GROUP, "a", (SESSION, "50000")) == change(client, GROUP, "a", (SESSION, "51000")) == 0
    assert change(client, GROUP, "b", (SESSION, "50000")) == Code.POLICY_VIOLATION
    assert change(client, METRICS, "b", ("interval.ms", "1000")) == 0
    assert change(client, GROUP, "a", (SESSION, None)) == change(client, GROUP, "b", (SESSION, "50000")) == 0


def test_client_metrics_patterns_are_checked_in_bounded_time(meter: Meter, broker: SimulatedBroker) -> None:
    """Compiling the test's patterns with Python's `re` takes seconds; re2 compiles them in bounded time."""
    client = broker.connect()
    slow = "client_id=(?i)" + "[\\x00-\U0010ffff]" * 20
    patterns = ",".join(slow + str(n) for n in range(MAX_PATTERNS))
    check_best(meter, PATTERNS, lambda _: meter.run(lambda: change(client, METRICS, "m", ("match", patterns))))
    assert described(client, METRICS, "m")["match"].value == patterns
    too_many = ",".join(f"client_id=a{n}" for n in range(MAX_PATTERNS + 1))
    for patterns in (too_many, "client_id=(a{1000}){1000}", "client_id=" + "a" * MAX_PATTERN_CHARACTERS):
        assert change(client, METRICS, "m", ("match", patterns)) == Code.INVALID_CONFIG
    assert change(client, METRICS, "m", ("metrics", "a" * (MAX_VALUE_CHARACTERS + 1))) == Code.INVALID_CONFIG


def test_only_the_length_of_a_client_metrics_pattern_is_checked_without_re2(
    broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    client = broker.connect()
    assert change(client, METRICS, "m", ("match", "client_id=a(")) == 0
    assert change(client, METRICS, "m", ("match", "client_id=" + "a" * MAX_PATTERN_CHARACTERS)) == Code.INVALID_CONFIG


def test_total_length_of_stored_configs_is_limited(broker: SimulatedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.handlers.support.config_changes.MAX_KEPT_CHARACTERS", 100)
    client = broker.connect()
    assert change(client, GROUP, "g" * 100, (SESSION, "50000")) == Code.POLICY_VIOLATION
    assert change(client, GROUP, "g" * 50, (SESSION, "50000")) == 0
    assert change(client, GROUP, "h" * 50, (SESSION, "50000")) == Code.POLICY_VIOLATION
    assert change(client, GROUP, "g" * 50, (SESSION, "51000"), (RESET, None)) == 0
    assert change(client, GROUP, "g" * 50, (SESSION, None)) == change(client, GROUP, "h" * 50, (SESSION, "50000")) == 0
    state, reloaded = broker.broker.cluster.state, ClusterState(1)
    for record in state.snapshot():
        reloaded.replay(record)
    assert state.config_totals == reloaded.config_totals == {GROUP: ConfigTotals(1, 50 + len(SESSION) + 5)}
