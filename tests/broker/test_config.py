"""Settings: files, environment, assignments, and what is said about wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config.definitions import ConfigError
from broker.config.settings import BrokerConfig, from_environment, load, read_properties
from broker.config.topics import log_config, validate
from broker.network.listener import parse_endpoints


def test_properties_as_java_reads_them() -> None:
    text = "# comment\n! another\na=1\nb : 2\n  c = x=y \nlong=one,\\\n  two\nempty=\n"
    assert read_properties(text) == {"a": "1", "b": "2", "c": "x=y", "long": "one,two", "empty": ""}


def test_environment_by_the_rule_of_the_image() -> None:
    found, ignored = from_environment(
        {"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1", "KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_NO_SUCH_THING": "1", "PATH": "/bin"}
    )
    assert found == {"transaction.state.log.min.isr": "1"}
    assert ignored == ["KAFKA_NO_SUCH_THING"]


def test_later_sources_win(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.dirs=/a\nfetch.max.bytes=5000\n")
    config, _ = load(path, {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_DIRS": "/b"}, ["num.partitions=4"], {"log.dirs": "/c"})
    assert (config.settings.num_partitions, config.settings.log_dirs, config.settings.fetch_max_bytes) == (4, "/c", 5000)


def test_an_unknown_key_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        BrokerConfig({"num.partitons": "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [("num.partitions", "many"), ("auto.create.topics.enable", "yes"), ("node.id", "99999999999"), ("log.dirs", "/a,/b")],
)
def test_wrong_values_are_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        BrokerConfig({key: value})


def test_known_keys_without_effect_are_told() -> None:
    config = BrokerConfig({"ssl.keystore.location": "/x", "num.io.threads": "9", "log.retention.ms": "5", "num.partitions": "3"})
    assert config.without_effect() == ["ssl.keystore.location"]


def test_a_server_properties_of_kafkas_own_is_taken() -> None:
    text = """
    process.roles=broker,controller
    node.id=1
    controller.quorum.bootstrap.servers=localhost:9093
    listeners=PLAINTEXT://:9092,CONTROLLER://:9093
    inter.broker.listener.name=PLAINTEXT
    advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
    controller.listener.names=CONTROLLER
    listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
    num.network.threads=3
    num.io.threads=8
    socket.send.buffer.bytes=102400
    socket.receive.buffer.bytes=102400
    socket.request.max.bytes=104857600
    log.dirs=/tmp/kraft-combined-logs
    num.partitions=1
    num.recovery.threads.per.data.dir=2
    offsets.topic.replication.factor=1
    share.coordinator.state.topic.replication.factor=1
    share.coordinator.state.topic.min.isr=1
    transaction.state.log.replication.factor=1
    transaction.state.log.min.isr=1
    log.retention.hours=168
    log.segment.bytes=1073741824
    log.retention.check.interval.ms=300000
    """
    settings = BrokerConfig(read_properties(text)).settings
    assert [e.port for e in parse_endpoints(settings.listeners, "listeners")] == [9092, 9093]


def test_topic_configs_fall_back_to_the_broker_in_its_units() -> None:
    config = BrokerConfig({"log.retention.hours": "1", "log.segment.bytes": "5000", "log.roll.ms": "7"})
    plain = log_config({}, config)
    assert (plain.retention_ms, plain.segment_bytes, plain.segment_ms) == (3_600_000, 5_000, 7)
    assert log_config({"retention.ms": "9", "cleanup.policy": "compact,delete"}, config).cleanup_policy == ("compact", "delete")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("cleanup.policy", "forget"),
        ("retention.ms", "-2"),
        ("no.such", "1"),
        ("min.cleanable.dirty.ratio", "2"),
        ("segment.bytes", "x"),
    ],
)
def test_bad_topic_configs_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        validate(key, value)


@pytest.mark.parametrize("text", ["nonsense", "PLAINTEXT://host:port", "PLAINTEXT//x:1"])
def test_bad_listeners_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        parse_endpoints((text,), "listeners")
