"""A config that is set neither for the topic nor for the cluster is taken from the controller's own settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.broker.config.settings import BrokerConfig
from ottla.protocol.errors import Code
from ottla.protocol.messages import alter_configs
from ottla.protocol.messages import incremental_alter_configs as incremental
from ottla.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.simulation.controller import SimulatedController
from tests.broker.controller.world import Broker

MIN_INSYNC = "min.insync.replicas"
ELR = "eligible.leader.replicas.version"
SERVER = {
    MIN_INSYNC: "2",
    "num.partitions": "3",
    "default.replication.factor": "2",
    "log.cleaner.min.compaction.lag.ms": "1000",
}
SET, DELETE = 0, 1
BROKER, TOPIC = 4, 2


@pytest.fixture
def controller() -> Iterator[SimulatedController]:
    controller = SimulatedController(SERVER).start()
    yield controller
    controller.close()
    assert controller.bugs == 0


def create(controller: SimulatedController, name: str, **configs: str) -> Any:
    asked = CreatableTopic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )
    return controller.connect().call(CreateTopicsRequest(topics=[asked])).topics[0]


def alter(controller: SimulatedController, kind: int, name: str, key: str, value: str | None) -> tuple[int, str | None]:
    change = incremental.AlterableConfig(name=key, config_operation=DELETE if value is None else SET, value=value)
    asked = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    (answer,) = controller.connect().call(incremental.IncrementalAlterConfigsRequest(resources=[asked])).responses
    return answer.error_code, answer.error_message


def min_insync(controller: SimulatedController, node: str = "") -> str | None:
    return controller.server.controller.state.config_of(BROKER, node).get(MIN_INSYNC)


def test_new_topics_have_the_defaults_of_the_controllers_configuration(controller: SimulatedController) -> None:
    for number in (1, 2):
        Broker(controller, number).join()
    made = create(controller, "t")
    assert (made.error_code, made.num_partitions, made.replication_factor) == (Code.NONE, 3, 2)
    assert [(c.value, c.config_source) for c in made.configs if c.name == MIN_INSYNC] == [("2", 3)]


def test_topic_configs_are_checked_against_server_configs(controller: SimulatedController) -> None:
    for number in (1, 2):
        Broker(controller, number).join()
    reason = "conflict topic config setting min.compaction.lag.ms (1000) > max.compaction.lag.ms (5)"
    refused = create(controller, "t", max_compaction_lag_ms="5")
    assert (refused.error_code, refused.error_message) == (Code.INVALID_CONFIG, reason)
    assert create(controller, "t").error_code == Code.NONE
    assert alter(controller, TOPIC, "t", "max.compaction.lag.ms", "5") == (Code.INVALID_CONFIG, reason)


def test_new_metadata_log_has_the_controllers_min_insync_replicas_as_cluster_default(controller: SimulatedController) -> None:
    """The record makes controller and brokers use the same value, whatever their settings (ActivationRecordsGenerator)."""
    assert min_insync(controller) == "2"
    controller.restart()
    assert min_insync(controller) == "2"


def test_existing_metadata_log_keeps_its_cluster_min_insync_replicas() -> None:
    first = SimulatedController({MIN_INSYNC: "2"}).start()
    first.stop()
    second = SimulatedController({MIN_INSYNC: "1"}, fs=first.fs).start()
    assert min_insync(second) == "2"
    assert second.server.live_config.topic_config(MIN_INSYNC) == "2"
    second.close()
    assert second.bugs == 0


def test_new_metadata_log_without_elr_has_no_cluster_min_insync_replicas() -> None:
    controller = SimulatedController(SERVER, {ELR: 0}).start()
    Broker(controller, 1).join()
    assert min_insync(controller) is None
    assert alter(controller, BROKER, "1", MIN_INSYNC, "3") == (Code.NONE, None)
    assert alter(controller, BROKER, "", MIN_INSYNC, "4") == (Code.NONE, None)
    assert alter(controller, BROKER, "", MIN_INSYNC, None) == (Code.NONE, None)
    enable = FeatureUpdateKey(feature=ELR, max_version_level=1, upgrade_type=1)
    assert controller.connect().call(UpdateFeaturesRequest(feature_updates=[enable])).error_code == Code.NONE
    assert (min_insync(controller), min_insync(controller, "1")) == ("2", None)
    controller.restart()
    assert (min_insync(controller), min_insync(controller, "1")) == ("2", None)
    controller.close()
    assert controller.bugs == 0


def test_cluster_min_insync_replicas_cannot_be_overridden_or_removed(controller: SimulatedController) -> None:
    """The expected messages are Apache Kafka's."""
    Broker(controller, 1).join()
    at_broker = (Code.INVALID_CONFIG, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
    removed = (Code.INVALID_CONFIG, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    assert alter(controller, BROKER, "1", MIN_INSYNC, "1") == at_broker
    assert alter(controller, BROKER, "1", MIN_INSYNC, None) == at_broker
    assert alter(controller, BROKER, "", MIN_INSYNC, None) == removed
    other = [alter_configs.AlterableConfig(name="max.connections", value="9")]
    asked = alter_configs.AlterConfigsResource(resource_type=BROKER, resource_name="", configs=other)
    (answer,) = controller.connect().call(alter_configs.AlterConfigsRequest(resources=[asked])).responses
    assert (answer.error_code, answer.error_message) == removed, "AlterConfigs removes configs that it does not list"
    assert alter(controller, BROKER, "", MIN_INSYNC, "1") == (Code.NONE, None)
    assert alter(controller, BROKER, "", "max.connections", "9") == (Code.NONE, None)
    assert min_insync(controller) == "1"


def test_cluster_config_limits_connections_to_the_controller(controller: SimulatedController) -> None:
    assert alter(controller, BROKER, "", "max.connections", "17") == (Code.NONE, None)
    assert controller.server.connections.limit == 17


class Loaded:
    """Counts how often a config is loaded. Implements `live_config.Reconfigurable`."""

    reloads = frozenset({"listener.name.controller.ssl.keystore.location"})

    def __init__(self) -> None:
        self.count = 0

    def check(self, config: BrokerConfig) -> None:
        """Accept every configuration."""

    def use(self, config: BrokerConfig) -> None:
        self.count += 1


def test_controller_key_store_is_loaded_again_when_the_same_config_is_set_again(controller: SimulatedController) -> None:
    loaded = Loaded()
    controller.server.live_config.parts.append(loaded)
    (key,) = loaded.reloads
    own = str(controller.server.settings.node_id)
    for _ in range(2):
        assert alter(controller, BROKER, own, key, "/server.pem") == (Code.NONE, None)
    assert loaded.count == 2
    assert alter(controller, BROKER, own, "max.connections", "9") == (Code.NONE, None)
    assert loaded.count == 2
    assert alter(controller, BROKER, own, key, None) == (Code.NONE, None)
    assert loaded.count == 3
