"""The plan of a cluster: its processes with their settings, ports and directories."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.brokers.plan import CONTROLLER_ID, MAX_BROKERS, PlannedNode, plan, prepare
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import DirectoryError, read_identity
from ottla.storage.last_stop import take_last_stop
from ottla.storage.log_dir import LogDirectory

DATA = "/cluster"


def planned(broker_count: int = 3, **given: Any) -> list[PlannedNode]:
    ports = count(40_000)
    settings = {"log.dirs": DATA, "listeners": "PLAINTEXT://127.0.0.1:9092", **given}
    return plan(BrokerConfig(settings), broker_count, lambda name, host: next(ports))


def test_nodes_of_a_cluster_get_consecutive_ports() -> None:
    controller, *brokers = planned()
    assert (controller.name, controller.node_id, controller.is_controller) == ("controller", CONTROLLER_ID, True)
    assert controller.config.settings.listeners == ("CONTROLLER://127.0.0.1:40000",)
    assert [broker.node_id for broker in brokers] == [1, 2, 3]
    assert [broker.config.settings.listeners[0] for broker in brokers] == [
        "PLAINTEXT://127.0.0.1:9092",
        "PLAINTEXT://127.0.0.1:9093",
        "PLAINTEXT://127.0.0.1:9094",
    ]
    assert {broker.directory for broker in brokers} == {f"{DATA}/broker-{n}" for n in (1, 2, 3)}
    assert {broker.config.text("controller.quorum.voters") for broker in brokers} == {f"{CONTROLLER_ID}@127.0.0.1:40000"}


SECURED = {"listeners": "SASL_SSL://127.0.0.1:9092", "authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}
PROTOCOLS = "SASL_SSL:SASL_SSL,CONTROLLER:SASL_SSL"


@pytest.mark.parametrize("key", ["inter.broker.listener.name", "security.inter.broker.protocol"])
def test_inter_broker_listener_of_a_cluster_may_be_the_secured_listener(key: str) -> None:
    """The setting makes brokers authenticate to each other, so User:ANONYMOUS need not be a super user."""
    given = {**SECURED, key: "sasl_ssl" if key.startswith("inter") else "SASL_SSL", "listener.security.protocol.map": PROTOCOLS}
    controller, *brokers = planned(**given)
    assert [broker.config.settings.listeners for broker in brokers] == [(f"SASL_SSL://127.0.0.1:{n}",) for n in (9092, 9093, 9094)]
    assert {broker.config.settings.inter_broker_listener_name for broker in brokers} == {"SASL_SSL"}
    assert controller.config.settings.listener_security_protocol_map == PROTOCOLS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "super.users: .* at PLAINTEXT"),
        ({"inter.broker.listener.name": "PLAINTEXT"}, "super.users: .* at PLAINTEXT"),
        ({"inter.broker.listener.name": "SASL_SSL"}, "super.users: .* at CONTROLLER"),
        ({"inter.broker.listener.name": "OTHER"}, "inter.broker.listener.name: OTHER is not the listener"),
        ({"security.inter.broker.protocol": "SSL"}, "security.inter.broker.protocol: SSL is not the listener"),
    ],
)
def test_cluster_whose_acls_would_deny_its_own_nodes_is_refused(given: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        planned(**{**SECURED, "listener.security.protocol.map": "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT", **given})


def test_advertised_listeners_get_consecutive_ports() -> None:
    controller, *brokers = planned(**{"advertised.listeners": "PLAINTEXT://outside:9192"})
    assert controller.config.settings.advertised_listeners is None
    assert [(broker.config.settings.advertised_listeners or ("",))[0] for broker in brokers] == [
        "PLAINTEXT://outside:9192",
        "PLAINTEXT://outside:9193",
        "PLAINTEXT://outside:9194",
    ]


def test_listener_port_0_gives_every_cluster_node_a_free_port() -> None:
    _, *brokers = planned(listeners="PLAINTEXT://127.0.0.1:0")
    assert [broker.config.settings.listeners[0][-5:] for broker in brokers] == ["40001", "40002", "40003"]


def test_controller_port_of_a_cluster_can_be_configured() -> None:
    config = BrokerConfig({"log.dirs": DATA, "listeners": "PLAINTEXT://127.0.0.1:9092"})
    controller, *brokers = plan(config, 2, lambda name, host: 0, controller_port=9_000)
    assert controller.config.settings.listeners == ("CONTROLLER://127.0.0.1:9000",)
    assert {broker.config.text("controller.quorum.voters") for broker in brokers} == {f"{CONTROLLER_ID}@127.0.0.1:9000"}
    with pytest.raises(ConfigError, match="--controller-port 9093"):
        plan(config, 2, lambda name, host: 0, controller_port=9_093)


def test_cluster_with_secured_clients_has_a_separate_listener_for_brokers() -> None:
    controller, *brokers = planned(listeners="SASL_SSL://127.0.0.1:9092")
    assert [broker.config.given["listeners"] for broker in brokers] == [
        f"SASL_SSL://127.0.0.1:{port},PLAINTEXT://127.0.0.1:0" for port in (9092, 9093, 9094)
    ]
    assert {broker.config.given["inter.broker.listener.name"] for broker in brokers} == {"PLAINTEXT"}
    assert "PLAINTEXT" not in controller.config.given["listeners"]
    _, *brokers = planned(listeners="SSL://127.0.0.1:9092", **{"advertised.listeners": "SSL://outside:9192"})
    assert brokers[1].config.given["advertised.listeners"] == "SSL://outside:9193,PLAINTEXT://127.0.0.1:0"


@pytest.mark.parametrize("first", [0, 9_500])
def test_every_broker_has_its_own_metrics_and_control_port(first: int) -> None:
    controller, *brokers = planned(**{"ottla.control.port": str(first), "ottla.metrics.port": "9600"})
    assert (controller.config.settings.ottla_control_port, controller.config.settings.ottla_metrics_port) == (None, 9_603)
    assert [b.config.settings.ottla_control_port for b in brokers] == ([first, first + 1, first + 2] if first else [0, 0, 0])
    assert [b.config.settings.ottla_metrics_port for b in brokers] == [9_600, 9_601, 9_602]


def test_broker_rack_is_common_or_one_per_broker() -> None:
    def racks(given: str) -> list[str | None]:
        return [node.config.settings.broker_rack for node in planned(**{"broker.rack": given})]

    assert racks("r") == [None, "r", "r", "r"]
    assert racks("a, b,c") == [None, "a", "b", "c"]
    with pytest.raises(ConfigError, match="one rack for each of the 3 brokers"):
        racks("a,b")


@pytest.mark.parametrize(("broker_count", "factor", "in_sync"), [(1, "1", "1"), (2, "2", "2"), (3, "3", "2"), (5, "3", "2")])
def test_internal_topics_of_a_cluster_have_kafkas_replication_factors(broker_count: int, factor: str, in_sync: str) -> None:
    config = planned(broker_count)[1].config
    assert config.text("offsets.topic.replication.factor") == factor
    assert config.text("transaction.state.log.replication.factor") == factor
    assert config.text("transaction.state.log.min.isr") == in_sync


def test_explicit_settings_apply_to_all_nodes_of_a_cluster() -> None:
    nodes = planned(**{"num.partitions": "7", "offsets.topic.replication.factor": "1"})
    assert {node.config.settings.num_partitions for node in nodes} == {7}
    assert {node.config.text("offsets.topic.replication.factor") for node in nodes} == {"1"}


@pytest.mark.parametrize(
    ("broker_count", "given", "named"),
    [
        (0, {}, "--brokers 0"),
        (MAX_BROKERS + 1, {}, "from 1 to"),
        (3, {"node.id": "4"}, "node.id"),
        (3, {"process.roles": "broker"}, "process.roles"),
        (3, {"advertised.listeners": "INTERNAL://a:1"}, "advertised.listeners"),
        (3, {"listeners": "INTERNAL://127.0.0.1:1"}, "listeners"),
        (3, {"authorizer.class.name": "StandardAuthorizer", "super.users": "User:admin"}, "super.users: .* add User:ANONYMOUS"),
        (3, {"listeners": "PLAINTEXT://127.0.0.1:65534"}, "there are not enough ports from 65534 on"),
        (3, {"advertised.listeners": "PLAINTEXT://a:65534"}, "there are not enough ports from 65534 on"),
        (3, {"ottla.control.port": "65534"}, "there are not enough ports from 65534 on"),
        (3, {"ottla.metrics.port": "65533"}, "there are not enough ports from 65533 on"),
    ],
)
def test_unusable_cluster_settings_are_refused(broker_count: int, given: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        planned(broker_count, **given)


def ids() -> Any:
    numbers = count(1)
    return lambda: next(numbers).to_bytes(16, "big")


def test_data_directories_of_all_nodes_get_the_same_cluster_id() -> None:
    fs, nodes = MemoryFilesystem(), planned()
    cluster_id = prepare(fs, DATA, nodes, ids())
    identities = [read_identity(fs, node.directory) for node in nodes]
    assert {identity.cluster_id for identity in identities if identity} == {cluster_id}
    assert [identity.node_id for identity in identities if identity] == [CONTROLLER_ID, 1, 2, 3]
    assert take_last_stop(fs, nodes[1].directory).unreadable == [], "a new directory has no lost data"
    assert prepare(fs, DATA, planned(4), ids()) == cluster_id, "an added broker gets the same cluster id"


def test_single_broker_refuses_the_directory_of_a_cluster() -> None:
    """The directory ``broker-1`` is named like partition 1 of a topic, so a single broker would set it aside as a stray."""
    fs = MemoryFilesystem()
    prepare(fs, DATA, planned(), ids())
    with pytest.raises(DirectoryError, match="--brokers"):
        LogDirectory(fs, DATA).acquire()
    LogDirectory(fs, f"{DATA}/broker-1").acquire()


def test_cluster_refuses_directories_of_a_single_broker_or_another_cluster() -> None:
    fs, nodes = MemoryFilesystem(), planned()
    fs.make_dir(DATA)
    fs.write_file(f"{DATA}/meta.properties", b"cluster.id=a\nnode.id=1\n")
    with pytest.raises(DirectoryError, match="a single broker"):
        prepare(fs, DATA, nodes, ids())
    fs = MemoryFilesystem()
    prepare(fs, DATA, nodes, ids())
    fs.write_file(f"{nodes[2].directory}/meta.properties", b"cluster.id=another\nnode.id=2\n")
    with pytest.raises(DirectoryError, match="another"):
        prepare(fs, DATA, nodes, ids())
