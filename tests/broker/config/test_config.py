"""Settings from files, environment variables and assignments, and the error messages for invalid settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.effects import without_effect
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.config.sources import MAX_FILE_BYTES, from_environment, load, read_file, read_properties, variable_near
from ottla.broker.config.topics import log_config, validate
from ottla.broker.network.listener import client_endpoints, parse_endpoints
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE


def test_properties_are_parsed_like_in_java() -> None:
    text = "# comment\n! another\na=1\nb : 2\n  c = x=y \nlong=one,\\\n  two\nempty=\n"
    assert read_properties(text) == {"a": "1", "b": "2", "c": "x=y", "long": "one,two", "empty": ""}


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\\", {"a": "1"}),
        ("a=1,\\\n  #2,\\\n\t3\nb=4", {"a": "1,#2,3", "b": "4"}),
        ("# a comment does not go on \\\na=1", {"a": "1"}),
        ("path=C\\:\\\\kafka\\\\\nb=2", {"path": "C:\\kafka\\", "b": "2"}),
        ("a 1\nb\t=\t2\nc : 3\nd", {"a": "1", "b": "2", "c": "3", "d": ""}),
        ("a\\=b=c", {"a=b": "c"}),
        ("name=caf\\u00e9", {"name": "caf\u00e9"}),
        ("name=\\ud83d\\ude00", {"name": "\U0001f600"}),
        ("a=one\u2028two\x0bthree", {"a": "one\u2028two\x0bthree"}),
        ("a=1\na=2", {"a": "2"}),
    ],
)
def test_property_lines_keys_and_escapes_are_parsed_like_in_java(text: str, values: dict[str, str]) -> None:
    assert read_properties(text) == values


def test_invalid_property_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0\1")
    (tmp_path / "large").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    for name, reason in (("binary", "not a properties file"), ("large", "not a properties"), (".", "directory"), ("no", "No such")):
        with pytest.raises(ConfigError, match=reason) as refused:
            read_file(tmp_path / name)
        assert "\n" not in str(refused.value)


def test_settings_that_are_not_utf_8_are_refused_without_showing_them(tmp_path: Path) -> None:
    (tmp_path / "half").write_text("ssl.key.password=hush\\ud800")
    with pytest.raises(ConfigError, match=r"/half: ssl\.key\.password: the value is not UTF-8 text$"):
        read_file(tmp_path / "half")
    for variables, assignments in (({"KAFKA_SSL_KEY_PASSWORD": "hush\udcff"}, []), ({}, ["ssl.key.password=hush\udcff"])):
        with pytest.raises(ConfigError, match=r"^ssl\.key\.password: the value is not UTF-8 text$"):
            load(None, variables, assignments, {})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_property_files_in_utf_8_and_latin_1_are_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "f").write_bytes("num.partitions=2\nbroker.rack=K\u00f6ln\n".encode(encoding))
    assert read_file(tmp_path / "f") == {"num.partitions": "2", "broker.rack": "K\u00f6ln"}


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("KAFKA_NUM_PARTITONS", "KAFKA_NUM_PARTITIONS"),
        ("KAFKA_ADVERTISED_LISTENER", "KAFKA_ADVERTISED_LISTENERS"),
        ("KAFKA_OTTLA_DURABILTY", "KAFKA_OTTLA_DURABILITY"),
        ("KAFKA_ZZZ_QQQ_XXX_JJJ", None),
    ],
)
def test_misspelt_environment_variable_gets_a_suggestion(misspelt: str, meant: str | None) -> None:
    assert from_environment({misspelt: "1"}) == ({}, [misspelt])
    assert variable_near(misspelt) == meant
    if meant is not None:
        assert from_environment({meant: "1"})[1] == []


def test_kafka_environment_variables_set_configs_as_in_kafkas_image() -> None:
    settings, ignored = from_environment(
        {"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1", "KAFKA_HEAP_OPTS": "-Xmx1G", "KAFKA_NO_SUCH_THING": "1", "PATH": "/bin"}
    )
    assert settings == {"transaction.state.log.min.isr": "1"}
    assert ignored == ["KAFKA_NO_SUCH_THING"]


def test_command_line_takes_precedence_over_environment_and_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text("num.partitions=2\nlog.dirs=/a\nfetch.max.bytes=5000\n")
    config, _ = load(path, {"KAFKA_NUM_PARTITIONS": "3", "KAFKA_LOG_DIRS": "/b"}, ["num.partitions=4"], {"log.dirs": "/c"})
    assert (config.settings.num_partitions, config.settings.log_dirs, config.settings.fetch_max_bytes) == (4, "/c", 5000)


def test_unknown_config_key_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        BrokerConfig({"num.partitons": "1"})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num.partitions", "0"),
        ("ottla.metrics.port", "99999"),
        ("ottla.metrics.port", "-1"),
        ("ottla.durability", "wish"),
        ("log.retention.ms", "0"),
        ("listeners", ""),
        ("max.connections.per.ip.overrides", "nonsense"),
        ("max.connections.per.ip", "0"),
        ("num.partitions", "many"),
        ("auto.create.topics.enable", "yes"),
        ("node.id", "99999999999"),
        ("log.dirs", "/a,/b"),
    ],
)
def test_error_for_an_invalid_setting_names_the_invalid_value(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        BrokerConfig({key: value})


def test_known_config_keys_without_effect_are_reported() -> None:
    given = {
        "ssl.provider": "x",
        "num.io.threads": "9",
        "log.retention.ms": "5",
        "num.partitions": "3",
        "log.flush.interval.ms": "5",
        "group.consumer.max.assignment.interval.ms": "20000",
    }
    assert without_effect(BROKER_RESOURCE, BrokerConfig(given).given) == [
        "log.flush.interval.ms",
        "num.io.threads",
        "ssl.provider",
    ]


def test_server_properties_file_shipped_with_kafka_is_accepted() -> None:
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


def test_topic_configs_fall_back_to_broker_configs_with_unit_conversion() -> None:
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
def test_invalid_topic_configs_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError):
        validate(key, value)


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "PLAINTEXT://host:port",
        "PLAINTEXT//x:1",
        "PLAINTEXT://host",
        "PLAINTEXT://host:99999",
        "PLAINTEXT://:-1",
        "PLAINTEXT://host:1/path",
        "://host:1",
        "127.0.0.1:9092",
        "9092",
    ],
)
def test_invalid_listeners_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="listeners"):
        parse_endpoints((text,), "listeners")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"listeners": "CONTROLLER://:1"}, "there is no listener for clients"),
        ({"listener.security.protocol.map": "PLAINTEXT:TLS"}, "unknown security protocol; give one of PLAINTEXT, SSL, SASL_"),
        ({"listeners": "INSIDE://:1"}, "give INSIDE:PROTOCOL there, with one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"listeners": "SASL_PLAINTXT://:1"}, "SASL_PLAINTXT is not in .*; did you mean SASL_PLAINTEXT?"),
        ({"listeners": "SSSL://:1"}, "did you mean SSL?"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "more than once"),
        ({"listener.security.protocol.map": "PLAINTEXT"}, "not NAME:PROTOCOL"),
        ({"advertised.listeners": "OUTSIDE://a:1"}, "OUTSIDE is not one of listeners, which are PLAINTEXT"),
        ({"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "clients cannot connect"),
    ],
)
def test_listeners_that_contradict_other_settings_are_refused(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        client_endpoints(BrokerConfig(settings).settings)


def test_listeners_of_a_compose_file_are_accepted() -> None:
    given = {
        "listeners": "PLAINTEXT://0.0.0.0:9092,DOCKER://[::1]:29092,CONTROLLER://:9093",
        "advertised.listeners": "PLAINTEXT://localhost:9092,DOCKER://ottla:29092,CONTROLLER://localhost:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT, docker:plaintext",
    }
    assert [str(e) for e in client_endpoints(BrokerConfig(given).settings)] == ["0.0.0.0:9092", "[::1]:29092"]
