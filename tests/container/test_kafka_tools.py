"""Kafka's tools in the image: their names, the calls of health checks, and the line for any other call."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla import Broker
from ottla.cli.root import COMMANDS
from ottla.container import kafka_tools
from ottla.container.__main__ import main as entry_point
from ottla.container.kafka_tools import INSTEAD, main
from ottla.container.links import NAMES, TARGET, create_links

EXISTS = "ottla: topic 'orders' already exists: TOPIC_ALREADY_EXISTS (ottla topic describe orders shows it)"
DESCRIBED = "Topic: orders\tTopicId: .{22}\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: .*cleanup.policy=compact,delete.*"
Run = Callable[..., tuple[int, list[str], list[str]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Function that calls a tool, and returns its exit code and the lines of stdout and stderr."""

    def call(name: str, *arguments: str) -> tuple[int, list[str], list[str]]:
        code = entry_point([name, *arguments])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err.splitlines()

    return call


def test_kafka_tools_of_the_image_have_the_paths_of_the_three_kafka_images(tmp_path: Path) -> None:
    create_links(tmp_path)
    for path in (
        "/usr/bin/kafka-topics",
        "/usr/local/bin/kafka-topics",
        "/usr/local/bin/kafka-topics.sh",
        "/opt/kafka/bin/kafka-broker-api-versions.sh",
        "/opt/bitnami/kafka/bin/kafka-storage.sh",
        "/usr/local/bin/zookeeper-server-start",
        "/usr/local/bin/cub",
        "/usr/local/bin/nc",
    ):
        assert str((tmp_path / path.lstrip("/")).readlink()) == TARGET
    assert not any("nc" in names or "cub" in names for directory, names in NAMES.items() if directory != "/usr/local/bin")
    script = Path(__file__).parent.parent.parent / "container" / "bin" / Path(TARGET).name
    assert script.stat().st_mode & 0o111


def test_commands_suggested_by_unsupported_kafka_tools_exist_in_ottla() -> None:
    for tool, instead in INSTEAD.items():
        found = re.match(r"ottla ([a-z]+)", instead)
        assert found is None or found[1] in COMMANDS, tool


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("kafka-topics --bootstrap-server x:1 --alter --topic t", "--alter is not supported; use ottla topic"),
        ("kafka-topics --bootstrap-server x:1", "give one of --list, --create and --describe; use ottla topic"),
        ("kafka-topics --list", "--bootstrap-server is missing; use ottla topic"),
        ("kafka-topics --list --bootstrap-server", "--bootstrap-server needs a value; use ottla topic"),
        ("kafka-topics --list --zookeeper zookeeper:2181", "--zookeeper is not supported; use ottla topic"),
        ("kafka-topics --bootstrap-server x:1 --create", "--topic is missing; use ottla topic"),
        ("kafka-topics.sh --bootstrap-server x:1 list", "'list' is not an option; use ottla topic"),
        ("kafka-cluster unregister --bootstrap-server x:1", "only cluster-id is supported; use ottla cluster"),
        ("kafka-consumer-groups --bootstrap-server x:1 --describe --all-groups", "--describe is not supported; use ottla group"),
        ("kafka-configs.sh --bootstrap-server x:1 --alter", "the tool is not supported; use ottla config"),
        ("kafka-console-producer --topic t", "the tool is not supported; use ottla produce TOPIC"),
        ("kafka-nothing", "the image has no kafka-nothing; use ottla --help"),
        ("cub kafka-ready -b x:1 many 5", "only kafka-ready BROKERS TIMEOUT_S and zk-ready HOST:PORT TIMEOUT_S are supported"),
        ("nc -l 9092", "unknown arguments: -l 9092; use nc -z [-v] [-w SECONDS] HOST PORT"),
        ("nc -z localhost", "unknown arguments: -z localhost; use nc -z"),
        ("nc -z localhost port", "'port' is not a port"),
    ],
)
def test_kafka_tool_with_unsupported_options_names_the_ottla_command(
    run: Run, call: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.container.ports.NETCATS", ())
    name, *arguments = call.split()
    code, printed, (line,) = run(name, *arguments)
    assert (code, printed) == (1, [])
    assert line.startswith(f"{name.removesuffix('.sh')}: ") and says in line


def test_kafka_tool_reports_an_unreachable_broker_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_tools, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = str(reserved.getsockname()[1])
    code, printed, (line,) = run("kafka-topics", "--list", "--bootstrap-server", f"127.0.0.1:{port}")
    assert (code, printed) == (1, [])
    assert "does not answer" in line
    assert run("nc", "-zw1", "127.0.0.1", port)[0] == 1


@pytest.mark.wire
def test_kafka_tools_of_the_image_print_the_output_of_kafkas_tools(run: Run, tmp_path: Path) -> None:
    with Broker() as broker:
        server = ("--bootstrap-server", broker.bootstrap)
        create = ("kafka-topics", "--create", "--topic", "orders", f"--bootstrap-server={broker.bootstrap}")
        config = ("--config", "cleanup.policy=[compact,delete]", "--config=min.insync.replicas=1")
        assert run(*create, "--partitions", "2", "--replication-factor", "1", *config) == (0, ["Created topic orders."], [])
        assert run(*create, "--if-not-exists") == (0, [], [])
        assert run(*create) == (1, [], [EXISTS])
        assert run("kafka-topics", "--create", "--topic", "audit", *server)[0] == 0
        assert run("kafka-topics.sh", *server, "--list") == (0, ["audit", "orders"], [])
        assert run("kafka-topics.sh", *server, "--list", "--topic", "or.*,other", "--exclude-internal") == (0, ["orders"], [])
        code, described, errors = run("kafka-topics", "--describe", "--topic", "orders", *server)
        assert (code, errors) == (0, [])
        assert re.fullmatch(DESCRIBED, described[0])
        assert described[1:] == [
            f"\tTopic: orders\tPartition: {p}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: " for p in (0, 1)
        ]
        assert run("kafka-topics", "--describe", "--topic", "none", *server) == (
            1,
            [],
            ["kafka-topics: topic 'none' does not exist"],
        )
        assert run("kafka-topics", "--describe", "--topic", "none", "--if-exists", *server) == (0, [], [])
        assert len(run("kafka-topics", "--describe", *server)[1]) == 5
        (tmp_path / "client.properties").write_text("security.protocol=PLAINTEXT\n")
        brokers = run("kafka-broker-api-versions", *server, "--command-config", str(tmp_path / "client.properties"))
        assert brokers == (0, [f"{broker.bootstrap} (id: 1 rack: null isFenced: false) -> ("], [])
        (cluster,) = run("kafka-cluster", "cluster-id", *server)[1]
        cluster_id = cluster.removeprefix("Cluster ID: ")
        assert len(cluster_id) == 22
        quorum = run("kafka-metadata-quorum", *server, "describe", "--status")[1]
        assert [line.split() for line in quorum] == [["ClusterId:", cluster_id], ["LeaderId:", "1"]]
        assert run("kafka-consumer-groups", *server, "--list") == (0, [], [])
        assert run("cub", "kafka-ready", "-b", broker.bootstrap, "1", "20") == (0, [], [])
        assert run("ub", "kafka-ready", "1", "20s", "-b", broker.bootstrap) == (0, [], [])
        too_many = run("cub", "kafka-ready", "-b", broker.bootstrap, "2", "1")
        assert too_many == (1, [], ["cub: 1 of 2 brokers are ready after 1 s"])
        host, port = broker.bootstrap.split(":")
        assert run("nc", "-vz", "-w", "5", host, port) == (0, [f"{host} {port} open"], [])
        assert run("cub", "zk-ready", broker.bootstrap, "5") == (0, [], [])


def test_kafka_tool_reports_a_missing_credentials_file(run: Run) -> None:
    code, _, (line,) = run("kafka-topics", "--list", "--bootstrap-server", "x:1", "--command-config", "/none")
    assert code == 1
    assert line.startswith("ottla: --command-config: cannot read /none")


def test_kafka_topics_version_needs_no_broker(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("kafka-topics", ["--version"]) == 0
    assert capsys.readouterr().out.startswith("ottla ")
