"""The image's entry point and kafka-storage, without a container and without sockets."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from ottla.broker.config.definitions import ConfigError
from ottla.broker.config.settings import BrokerConfig
from ottla.broker.config.sources import load, variable_near
from ottla.container import image as container
from ottla.container.image import STARTED_LINES, ContainerRefused, format_directory, launch, prepared, storage, zookeeper_port
from ottla.simulation.broker import DATA_DIR, SimulatedBroker
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.identity import read_identity
from ottla.storage.log_dir import LOCK_FILE

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"


def test_image_with_an_empty_environment_serves_on_the_published_port() -> None:
    assert prepared({}, {}) == {
        "KAFKA_LISTENERS": "PLAINTEXT://0.0.0.0:9092",
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://localhost:9092",
        "KAFKA_LOG_DIRS": "/data",
    }


@pytest.mark.parametrize(
    ("advertised", "listeners"),
    [
        ("PLAINTEXT://localhost:29092", "PLAINTEXT://0.0.0.0:29092"),
        ("IN://broker:9092,OUT://[::1]:9094", "IN://0.0.0.0:9092,OUT://[::]:9094"),
    ],
)
def test_image_derives_listeners_from_advertised_listeners(advertised: str, listeners: str) -> None:
    assert prepared({"KAFKA_ADVERTISED_LISTENERS": advertised}, {})["KAFKA_LISTENERS"] == listeners


def test_schema_registry_of_the_image_listens_on_the_published_port() -> None:
    given = {"KAFKA_OTTLA_SCHEMA_REGISTRY_PORT": "8081"}
    assert prepared(given, {})["KAFKA_OTTLA_SCHEMA_REGISTRY_HOST"] == "0.0.0.0"
    own = given | {"KAFKA_OTTLA_SCHEMA_REGISTRY_HOST": "127.0.0.1"}
    assert prepared(own, {})["KAFKA_OTTLA_SCHEMA_REGISTRY_HOST"] == "127.0.0.1"
    assert load(None, prepared(given, {}), [], {})[0].settings.ottla_schema_registry_port == 8081


def test_image_adds_no_default_advertised_listeners_to_configured_listeners() -> None:
    """The names and ports of the configured listeners may differ from those of the default advertised listeners."""
    assert prepared({"KAFKA_LISTENERS": "IN://:1"}, {}) == {"KAFKA_LISTENERS": "IN://:1", "KAFKA_LOG_DIRS": "/data"}


def test_empty_list_entries_in_kafka_variables_are_ignored() -> None:
    environment = {"KAFKA_LISTENERS": " A://:1 ,, ", "KAFKA_ADVERTISED_LISTENERS": ""}
    assert prepared(environment, {}) == {"KAFKA_LISTENERS": "A://:1", "KAFKA_LOG_DIRS": "/data"}


def test_mounted_properties_file_overrides_defaults_of_the_image() -> None:
    assert prepared({}, {"listeners": "PLAINTEXT://:9094", "log.dirs": "/var/lib/kafka/data"}) == {}


def test_controller_only_node_of_the_image_gets_no_default_listener(tmp_path: Path) -> None:
    assert prepared({"KAFKA_PROCESS_ROLES": "controller"}, {}) == {"KAFKA_PROCESS_ROLES": "controller", "KAFKA_LOG_DIRS": "/data"}
    arguments, _ = launch({"KAFKA_PROCESS_ROLES": "controller", "KAFKA_LISTENERS": "CONTROLLER://:9094"}, tmp_path / "none")
    assert arguments == ["serve"]


def test_image_logs_kafkas_start_lines_and_uses_the_configured_cluster_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    environment = {"KAFKA_LOG_DIRS": str(data), "KAFKA_BROKER_ID": "7", "CLUSTER_ID": CLUSTER_ID}
    for said in (f"is formatted for cluster {CLUSTER_ID}", f"keeps its cluster {CLUSTER_ID}"):
        arguments, _ = launch(environment, tmp_path / "none")
        assert capsys.readouterr().out == f"{data} {said}\n"
    assert arguments[0] == "serve"
    assert arguments[1::2] == ["--started-line"] * 3
    assert [line.format(node_id=7) for line in STARTED_LINES] == arguments[2::2]
    assert "[KafkaServer id=7] started" in arguments[6]
    assert f"cluster.id={CLUSTER_ID}" in (data / "meta.properties").read_text()


def test_image_reads_a_mounted_properties_file(tmp_path: Path) -> None:
    mounted = tmp_path / "server.properties"
    mounted.write_text("node.id=3\nlog.dirs=/nowhere\n")
    arguments, environment = launch({}, mounted)
    assert arguments[:2] == ["serve", str(mounted)]
    assert "KAFKA_LOG_DIRS" not in environment
    assert "id=3]" in arguments[3]


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"CLUSTER_ID": "two words"}, "'two words' is not a cluster id"),
        ({"CLUSTER_ID": "x" * 65}, "is not a cluster id"),
        ({"CLUSTER_ID": "a\nnode.id=5"}, "is not a cluster id"),
        ({"KAFKA_LOG_DIRS": "/dev/null", "CLUSTER_ID": CLUSTER_ID}, "cannot use /dev/null"),
        ({"KAFKA_NUM_PARTITIONS": "many"}, "num.partitions"),
    ],
)
def test_failed_start_of_the_image_is_explained_in_one_line(
    environment: dict[str, str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(container.os, "environ", environment)
    assert container.main(["launch"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("ottla: ")
    assert says in line


def test_broker_on_a_formatted_directory_reports_no_crash() -> None:
    """Starting on the directory reports neither a missing checkpoint nor an earlier crash."""
    fs = MemoryFilesystem()
    config = BrokerConfig({"log.dirs": DATA_DIR})
    format_directory(fs, config, CLUSTER_ID, ignore_formatted=False)
    with capture_logs() as lines:
        simulated = SimulatedBroker(fs=fs).start()
    simulated.close()
    assert [(line["event"], line.get("last_stop")) for line in lines] == [("broker_started", "none")]
    identity = read_identity(fs, DATA_DIR)
    assert identity is not None
    assert identity.cluster_id == CLUSTER_ID


def test_formatted_directory_keeps_its_cluster_id() -> None:
    fs = MemoryFilesystem()
    config = BrokerConfig({"log.dirs": DATA_DIR})
    format_directory(fs, config, CLUSTER_ID, ignore_formatted=False)
    with pytest.raises(ContainerRefused, match="is already formatted; give --ignore-formatted to keep it"):
        format_directory(fs, config, CLUSTER_ID, ignore_formatted=False)
    assert format_directory(fs, config, "other", ignore_formatted=True).endswith(f"keeps its cluster {CLUSTER_ID}, not other")
    identity = read_identity(fs, DATA_DIR)
    assert identity is not None
    assert identity.cluster_id == CLUSTER_ID


def test_kafka_storage_does_not_format_a_directory_in_use() -> None:
    fs = MemoryFilesystem()
    fs.make_dir(DATA_DIR)
    lock = fs.lock(f"{DATA_DIR}/{LOCK_FILE}")
    with pytest.raises(ContainerRefused, match="is in use by another broker"):
        format_directory(fs, BrokerConfig({"log.dirs": DATA_DIR}), CLUSTER_ID, ignore_formatted=True)
    fs.unlock(lock)
    assert read_identity(fs, DATA_DIR) is None


def test_kafka_storage_accepts_the_arguments_of_kafkas_image_scripts(tmp_path: Path) -> None:
    environment = {"KAFKA_LOG_DIRS": str(tmp_path / "data")}
    cluster_id = storage(["random-uuid"], environment)
    assert len(cluster_id) == 22
    format_arguments = ["format", "--ignore-formatted", "-t", cluster_id, "-c", "/etc/kafka/kafka.properties"]
    assert storage(format_arguments, environment).endswith(f"is formatted for cluster {cluster_id}")
    assert storage(["format", "-g", f"--cluster-id={CLUSTER_ID}"], environment).endswith(f"{cluster_id}, not {CLUSTER_ID}")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "unknown arguments: (none)"),
        (["info"], "unknown arguments: info"),
        (["format"], "the cluster id is missing"),
        (["format", "-t"], "-t needs a value"),
        (["format", "x"], "unknown option 'x'"),
        (["format", "-t", CLUSTER_ID, "--add-scram", "SCRAM-SHA-1=[name=a,password=b]"], "expected a mechanism with a name"),
    ],
)
def test_kafka_storage_refuses_unsupported_arguments(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert container.main(["kafka-storage", *arguments]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kafka-storage: " if arguments else "ottla: ")
    assert says in line


def test_variables_of_rest_proxy_and_zookeeper_are_not_reported_as_misspelt() -> None:
    assert variable_near("KAFKA_REST_BOOTSTRAP_SERVERS") is None
    assert variable_near("KAFKA_ZOOKEEPER_CONNECT") is None
    assert variable_near("KAFKA_ADVERTISED_LISTNERS") == "KAFKA_ADVERTISED_LISTENERS"


def test_image_checks_settings_before_it_creates_the_data_directory(tmp_path: Path) -> None:
    environment = {"KAFKA_LOG_DIRS": str(tmp_path / "data"), "KAFKA_NODE_ID": "x", "CLUSTER_ID": CLUSTER_ID}
    with pytest.raises(ConfigError):
        launch(environment, tmp_path / "none")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "says"),
    [("clientPort=2185\ndataDir=/x\n", 2185), ("dataDir=/x\n", 2181), ("clientPort=many\n", "clientPort 'many' is not a port")],
)
def test_zookeeper_port_is_read_from_its_properties(text: str, says: int | str, tmp_path: Path) -> None:
    file = tmp_path / "zookeeper.properties"
    file.write_text(text)
    if isinstance(says, int):
        assert zookeeper_port(file) == says
    else:
        with pytest.raises(ContainerRefused, match=says):
            zookeeper_port(file)


def test_zookeeper_start_without_a_properties_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert container.main(["zookeeper-server-start", str(tmp_path / "none")]) == 1
    assert container.main(["zookeeper-server-start"]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("zookeeper-server-start: cannot read ")
    assert second.startswith("ottla: no command was given; use launch, kafka-storage")


COMMON = {
    "NODE_ID": "1",
    "PROCESS_ROLES": "broker,controller",
    "LISTENERS": "PLAINTEXT://0.0.0.0:29092,CONTROLLER://0.0.0.0:29093,HOST://0.0.0.0:9092",
    "ADVERTISED_LISTENERS": "PLAINTEXT://kafka:29092,HOST://localhost:9092",
    "LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,HOST:PLAINTEXT",
    "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
    "CONTROLLER_QUORUM_VOTERS": "1@kafka:29093",
    "INTER_BROKER_LISTENER_NAME": "PLAINTEXT",
    "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
    "AUTO_CREATE_TOPICS_ENABLE": "false",
}


@pytest.mark.parametrize(
    ("prefix", "own"),
    [
        ("KAFKA_", {"CLUSTER_ID": CLUSTER_ID}),
        ("KAFKA_", {"CLUSTER_ID": CLUSTER_ID, "KAFKA_JMX_PORT": "9101", "KAFKA_JMX_HOSTNAME": "localhost"}),
        ("KAFKA_CFG_", {"KAFKA_KRAFT_CLUSTER_ID": CLUSTER_ID, "KAFKA_ENABLE_KRAFT": "yes", "ALLOW_PLAINTEXT_LISTENER": "yes"}),
    ],
    ids=["apache/kafka", "confluentinc/cp-kafka", "bitnami/kafka"],
)
def test_environment_of_other_kafka_images_configures_the_broker(prefix: str, own: dict[str, str]) -> None:
    serving = prepared({prefix + name: value for name, value in COMMON.items()} | own, {})
    config, ignored = load(None, serving, [], {})
    assert ignored == []
    settings = config.settings
    assert settings.listeners == tuple(COMMON["LISTENERS"].split(","))
    assert settings.advertised_listeners == tuple(COMMON["ADVERTISED_LISTENERS"].split(","))
    assert (settings.node_id, settings.auto_create_topics_enable) == (1, False)
    assert serving["CLUSTER_ID"] == CLUSTER_ID


def test_misspelt_kafka_cfg_variable_is_reported_with_the_prefix_that_the_user_wrote() -> None:
    _, ignored = load(None, {"KAFKA_CFG_LISTNERS": "PLAINTEXT://:9092"}, [], {})
    assert ignored == ["KAFKA_CFG_LISTNERS"]
    assert variable_near("KAFKA_CFG_LISTNERS") == "KAFKA_CFG_LISTENERS"


def test_kafka_cfg_variable_overrides_kafka_variable() -> None:
    """A variable with the prefix ``KAFKA_CFG_`` takes precedence, as in the Bitnami image, which supports both prefixes."""
    config, _ = load(None, {"KAFKA_CFG_NODE_ID": "7", "KAFKA_NODE_ID": "3"}, [], {})
    assert config.settings.node_id == 7
