"""Which configs have no effect, from the scripted responses of brokers of ottla and of Apache Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.admin.config_effects import OWN_CONFIG, without_effect
from ottla.client.admin.topics import ConfigKind
from ottla.protocol.errors import Code
from ottla.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

KNOWN = {"background.threads": 3, "log.retention.ms": 5, "set.but.unknown": 0}
"""Configs of both scripted brokers: type numbers by config name."""


def described(request: Any, *, types: dict[str, int], code: int = 0) -> DescribeConfigsResponse:
    (resource,) = request.resources
    configs = [
        DescribeConfigsResourceResult(name=name, value="1", read_only=False, config_source=5, is_sensitive=False, config_type=kind)
        for name, kind in types.items()
    ]
    result = DescribeConfigsResult(
        error_code=code,
        error_message=None,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=configs,
    )
    return DescribeConfigsResponse(throttle_time_ms=0, results=[result])


def broker(*, is_ottla: bool = True, code: int = 0) -> ScriptedBroker:
    types = {**KNOWN, OWN_CONFIG: 2} if is_ottla else KNOWN
    answers = {
        "Metadata": [metadata(nodes={1: "kafka"}, leaders={})],
        "DescribeConfigs": lambda request: described(request, types={} if code else types, code=code),
    }
    return ScriptedBroker(answers=answers)


CASES = [
    (ConfigKind.TOPIC, "t", ["retention.ms", "preallocate", "flush.ms"], ["flush.ms", "preallocate"]),
    (ConfigKind.TOPIC, "t", ["background.threads"], []),
    (ConfigKind.GROUP, "g", ["consumer.assignor.offload.enable"], ["consumer.assignor.offload.enable"]),
    (ConfigKind.CLIENT_METRICS, "m", ["interval.ms"], ["interval.ms"]),
    (ConfigKind.BROKER, "", ["background.threads", "log.retention.ms"], ["background.threads"]),
    (ConfigKind.BROKER, "1", ["backgruond.threads", "set.but.unknown"], ["backgruond.threads", "set.but.unknown"]),
    (ConfigKind.BROKER, "", ["listener.name.plaintext.background.threads"], ["listener.name.plaintext.background.threads"]),
    (ConfigKind.BROKER, "1", ["listener.name.a.plain.background.threads"], ["listener.name.a.plain.background.threads"]),
    (ConfigKind.BROKER, "1", ["listener.name.ssl.ssl.keystore.location"], []),
    (ConfigKind.BROKER_LOGGER, "1", ["kafka.server"], []),
]


@pytest.mark.parametrize(("kind", "name", "keys", "expected"), CASES)
def test_config_keys_without_effect_are_reported_for_ottla_but_not_for_apache_kafka(
    kind: ConfigKind, name: str, keys: list[str], expected: list[str]
) -> None:
    assert without_effect(ScriptedCluster(kafka=broker()).brokers(), kind, name, keys) == expected
    assert without_effect(ScriptedCluster(kafka=broker(is_ottla=False)).brokers(), kind, name, keys) == []


def test_client_denied_to_describe_the_cluster_gets_no_config_warning() -> None:
    cluster = ScriptedCluster(kafka=broker(code=Code.CLUSTER_AUTHORIZATION_FAILED))
    assert without_effect(cluster.brokers(), ConfigKind.TOPIC, "t", ["flush.ms"]) == []


def test_warning_check_of_configs_with_an_effect_sends_no_request() -> None:
    asked = broker()
    assert without_effect(ScriptedCluster(kafka=asked).brokers(), ConfigKind.TOPIC, "t", ["retention.ms"]) == []
    assert without_effect(ScriptedCluster(kafka=asked).brokers(), ConfigKind.BROKER, "", []) == []
    assert asked.names() == []
