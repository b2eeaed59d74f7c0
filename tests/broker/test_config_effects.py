"""Every config key of Apache Kafka is implemented, refused, or documented as having no effect."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from structlog.testing import capture_logs

import ottla
from ottla.broker.config.client_metrics import CLIENT_METRICS_DEFINITIONS
from ottla.broker.config.definitions import OWN, topic_definitions
from ottla.broker.config.effects import ConfigEffect, definitions, effect_of
from ottla.broker.config.groups import group_definitions
from ottla.broker.config.settings import HONOURED
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.config_effects import RESOURCES, keys_without_effect
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.storage.config import LogConfig

KEYS = [(resource_type, name) for resource_type in RESOURCES for name in sorted(definitions(resource_type))]
SOURCES = Path(ottla.__file__).parent
DECLARED_IN = ("broker/config/settings.py", "broker/config/definitions.py", "storage/config.py")
"""Modules that declare fields and keys. A key that occurs only there is not used."""
ROOMS = ("broker", "cli", "control", "coordinator", "storage", "protocol", "registry")
"""Packages of the broker's code that are searched for config keys."""
ATTRIBUTE, STRING = re.compile(r"\.([a-z]\w+)"), re.compile(r'"([^"\n]+)"')

AT_THE_START = {"broker.id", "log.dir"}
"""Other names of ``node.id`` and ``log.dirs``, which `BrokerConfig` reads."""
BOUNDS = "broker/config/groups.py"
"""`_check_bounds` in this module reads the bounds of each numeric group config by a computed name."""


@cache
def read_names() -> frozenset[str]:
    """Return all attribute names and one-line strings in the broker's code, without generated code."""
    names = set[str]()
    for room in ROOMS:
        for path in (SOURCES / room).rglob("*.py"):
            if path.relative_to(SOURCES).as_posix() not in DECLARED_IN and path.parent.name != "messages":
                text = path.read_text()
                names.update(ATTRIBUTE.findall(text), STRING.findall(text))
    return frozenset(names)


def is_topic_key_read(name: str) -> bool:
    field = name.replace(".", "_")
    if field in LogConfig.__struct_fields__:
        # Some fields are read only by properties of LogConfig.
        return field in read_names() or f"self.{field}" in (SOURCES / "storage/config.py").read_text()
    return name in read_names()


def is_group_key_read(name: str) -> bool:
    """Whether the code contains the key's full name, or the part after the group type."""
    return name in read_names() or name.partition(".")[2] in read_names()


def is_bound(name: str) -> bool:
    parts = name.split(".")
    if len(parts) < 4 or parts[0] != "group" or parts[2] not in ("min", "max"):
        return False
    rest = ".".join(parts[3:])
    return any(f"{parts[1]}.{number}{rest}" in group_definitions() for number in ("", "num."))


def is_broker_key_read(name: str) -> bool:
    for_groups = [d.name for d in group_definitions().values() if name in d.synonyms]
    for_topics = [d.name for d in topic_definitions().values() if name in d.synonyms]
    return (
        (name in HONOURED and name.replace(".", "_") in read_names())
        or name in read_names()
        or name in AT_THE_START
        or is_bound(name)
        or any(is_group_key_read(key) and effect_of(GROUP_RESOURCE, key) is ConfigEffect.WORKS for key in for_groups)
        or any(is_topic_key_read(key) and effect_of(TOPIC_RESOURCE, key) is ConfigEffect.WORKS for key in for_topics)
    )


def is_read(resource_type: int, name: str) -> bool:
    if resource_type == BROKER_RESOURCE:
        return is_broker_key_read(name)
    return is_topic_key_read(name) if resource_type == TOPIC_RESOURCE else is_group_key_read(name)


@pytest.mark.parametrize("resource_type", RESOURCES, ids=RESOURCES.values())
def test_every_config_key_is_implemented_refused_or_listed_as_without_effect(resource_type: int) -> None:
    """A key with an effect must occur in the code. If this fails, implement the key or list it in without_effect.txt."""
    names = definitions(resource_type)
    by_effect = {effect: {name for name in names if effect_of(resource_type, name) is effect} for effect in ConfigEffect}
    assert sum(map(len, by_effect.values())) == len(names)
    assert by_effect[ConfigEffect.NONE] == {name for kind, name in keys_without_effect() if kind == resource_type}
    assert [name for name in by_effect[ConfigEffect.WORKS] if not is_read(resource_type, name)] == []
    if resource_type == BROKER_RESOURCE:
        assert not by_effect[ConfigEffect.NONE] & HONOURED
    if resource_type == TOPIC_RESOURCE:
        assert not by_effect[ConfigEffect.NONE] & {field.replace("_", ".") for field in LogConfig.__struct_fields__}
        assert by_effect[ConfigEffect.REFUSED] == {"remote.storage.enable"}


def test_code_reads_only_known_config_keys_that_have_no_effect() -> None:
    """Some keys are read without an effect: client metrics are only validated, and streams groups have a single assignor."""
    read = {(RESOURCES[kind], name) for kind, name in keys_without_effect() if is_read(kind, name)}
    assert read == {("broker", "group.streams.assignors")} | {("client-metrics", name) for name in CLIENT_METRICS_DEFINITIONS}


def test_list_of_config_keys_without_effect_has_each_existing_key_once() -> None:
    assert keys_without_effect() <= set(KEYS)
    lines = (SOURCES / "protocol/without_effect.txt").read_text().splitlines()
    assert max(Counter(lines).values()) == 1
    assert not [d.name for d in OWN if (BROKER_RESOURCE, d.name) in keys_without_effect()]


def test_broker_synonym_has_the_same_effect_as_the_topic_config() -> None:
    for definition in topic_definitions().values():
        of_topic = effect_of(TOPIC_RESOURCE, definition.name)
        for synonym in definition.synonyms:
            assert effect_of(BROKER_RESOURCE, synonym) is of_topic, synonym


# Tests of responses and log lines about configs without effect.


@pytest.fixture
def simulated() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start()
    yield broker
    broker.close()
    assert not broker.bugs


@pytest.fixture
def client(simulated: SimulatedBroker) -> Iterator[SimulatedClient]:
    with simulated.connect() as connected:
        yield connected


def said(logs: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(line["resource"], line["name"]) for line in logs if line["event"] == "setting_ignored"]


def create(client: SimulatedClient, name: str, *, validate_only: bool = False, **configs: str) -> int:
    wanted = [CreatableTopicConfig(name=k.replace("_", "."), value=v) for k, v in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=wanted)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=validate_only)
    return int(client.call(request).topics[0].error_code)


def alter(client: SimulatedClient, kind: int, name: str, key: str, value: str | None, *, validate_only: bool = False) -> int:
    config = AlterableConfig(name=key, config_operation=0 if value is not None else 1, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return int(client.call(IncrementalAlterConfigsRequest([resource], validate_only=validate_only)).responses[0].error_code)


def test_topic_config_without_effect_is_logged_once(client: SimulatedClient) -> None:
    with capture_logs() as logs:
        assert create(client, "dry", validate_only=True, flush_ms="5") == Code.NONE
        assert create(client, "wrong", flush_ms="x") == Code.INVALID_CONFIG
    assert not said(logs)
    with capture_logs() as logs:
        assert create(client, "t", flush_ms="5", retention_ms="5000") == Code.NONE
        assert create(client, "u", flush_ms="5") == Code.NONE
        assert alter(client, TOPIC_RESOURCE, "u", "flush.ms", "6") == Code.NONE
        assert alter(client, TOPIC_RESOURCE, "u", "flush.messages", "6", validate_only=True) == Code.NONE
    assert said(logs) == [("topic", "flush.ms")]


def test_config_without_effect_set_at_run_time_is_logged_per_resource_type(client: SimulatedClient) -> None:
    assert create(client, "t") == Code.NONE
    with capture_logs() as logs:
        for kind, name, key, value in (
            (TOPIC_RESOURCE, "t", "preallocate", "true"),
            (BROKER_RESOURCE, "", "background.threads", "5"),
            (BROKER_RESOURCE, "1", "listener.name.plaintext.ssl.keystore.location", "/x"),
            (BROKER_RESOURCE, "", "my.plugin.config", "5"),
            (GROUP_RESOURCE, "g", "consumer.assignor.offload.enable", "false"),
            (CLIENT_METRICS_RESOURCE, "m", "interval.ms", "1000"),
            (TOPIC_RESOURCE, "t", "retention.ms", "1000"),
            (BROKER_RESOURCE, "", "compression.type", "gzip"),
            (TOPIC_RESOURCE, "t", "segment.jitter.ms", None),
        ):
            assert alter(client, kind, name, key, value) == Code.NONE
        configs = [WholeConfig(name="preallocate", value="true"), WholeConfig(name="flush.messages", value="5")]
        resource = WholeResource(resource_type=TOPIC_RESOURCE, resource_name="t", configs=configs)
        assert client.call(AlterConfigsRequest([resource], validate_only=False)).responses[0].error_code == 0
    assert said(logs) == [
        ("topic", "preallocate"),
        ("broker", "background.threads"),
        ("broker", "listener.name.plaintext.ssl.keystore.location"),
        ("broker", "my.plugin.config"),
        ("group", "consumer.assignor.offload.enable"),
        ("client-metrics", "interval.ms"),
        ("topic", "flush.messages"),
    ]


def test_topic_config_remote_storage_enable_is_refused(client: SimulatedClient) -> None:
    assert create(client, "t", remote_storage_enable="true") == Code.INVALID_CONFIG
