"""Commands with ``--command-config`` on a broker all of whose listeners are secured, and their error lines."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from ottla.cli import main
from ottla.cli.health_secured import secured
from tests.client.security.certificates import pkcs12_store
from tests.spark.secured import Secured
from tests.wire.secured import LOGIN, PASSWORD, USER, SecuredBroker
from tools.kafka import ApacheKafka, Unavailable, free_port

pytestmark = [pytest.mark.wire, pytest.mark.xdist_group("secured_commands")]

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{USER};User:shop;User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    started = SecuredBroker(tmp_path_factory.mktemp("secured"), SETTINGS)
    yield started
    started.close()
    assert not [line for line in started.logged() if line["level"] in ("error", "critical")]


def client_properties(broker: SecuredBroker, protocol: str, **more: str) -> dict[str, str]:
    """Return settings of Kafka's clients for authentication by password or by certificate."""
    host, port = broker.address(protocol)
    given = {"bootstrap.servers": f"{host}:{port}", "security.protocol": protocol}
    if protocol.endswith("SSL"):
        given |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": broker.trusted}
    if protocol == "SSL":
        given |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": broker.own}
    if protocol.startswith("SASL"):
        module = f'{LOGIN}.scram.ScramLoginModule required username="{USER}" password="{PASSWORD}";'
        given |= {"sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": module}
    return given | {name.replace("__", "."): value for name, value in more.items()}


class Commands:
    """Runs commands in this process with one file of settings."""

    def __init__(self, capsys: pytest.CaptureFixture[str], path: Path, given: dict[str, str]) -> None:
        self._capsys, self.path = capsys, path
        path.write_text("".join(f"{name}={value}\n" for name, value in given.items()))

    def run(self, *arguments: str) -> tuple[int, str, str]:
        code = main([*arguments, "--command-config", str(self.path)])
        out, err = self._capsys.readouterr()
        assert PASSWORD not in out + err
        return code, out, err

    def text(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        assert (code, err) == (0, "")
        return out

    def document(self, *arguments: str) -> Any:
        return json.loads(self.text(*arguments, "--json"))

    def refused(self, *arguments: str) -> str:
        code, out, err = self.run(*arguments)
        (line,) = err.splitlines()
        assert code == 2 and out == ""
        return line


@pytest.fixture
def commands(broker: SecuredBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Commands:
    return Commands(capsys, tmp_path / "client.properties", client_properties(broker, "SASL_SSL"))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
def test_each_command_connects_by_every_security_protocol(
    protocol: str, broker: SecuredBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    commands = Commands(capsys, tmp_path / "client.properties", client_properties(broker, protocol))
    topic = f"t-{protocol.lower().replace('_', '-')}"
    created = {"topic": topic, "created": True, "without_effect": []}
    assert commands.document("topic", "create", topic, "--partitions", "1") == created
    assert commands.document("produce", topic, "--value", "hello")["topic"] == topic
    assert commands.text("consume", topic, "--values") == "hello\n"
    assert topic in [listed["topic"] for listed in commands.document("topic", "list")]
    assert commands.document("topic", "describe", topic)["partitions"][0]["high_watermark"] == 1
    assert commands.document("config", "get", "topic", topic) == []
    assert isinstance(commands.document("group", "list"), list)
    assert isinstance(commands.document("txn", "list"), list)
    assert [each["id"] for each in commands.document("cluster")["brokers"]] == [1]
    assert commands.document("user", "list", USER)[0]["user"] == USER
    limited = {"entity": {"user": USER, "client-id": topic}, "quotas": {"producer_byte_rate": 1_000_000.0}}
    of_topic = ("--user", USER, "--client-id", topic)
    assert commands.document("quota", "set", *of_topic, "producer_byte_rate=1000000")["entity"] == limited["entity"]
    assert limited in commands.document("quota", "list")
    commands.text("quota", "remove", *of_topic)
    assert limited not in commands.document("quota", "list")
    assert commands.document("health")["healthy"]
    assert "group 'nobody'" in commands.refused("why", "nobody")
    assert commands.document("topic", "alter", topic, "--partitions", "2")["partitions"] == {"before": 1, "after": 2}
    assert commands.document("group", "reset", f"g-{topic}", "--to", "end", "--topic", topic)["dry_run"] is False
    assert commands.document("group", "delete", f"g-{topic}") == {"deleted": [f"g-{topic}"]}
    host, port = broker.address(protocol)
    copied = commands.document("copy", topic, "--from", f"{host}:{port}", "--to", f"{host}:{port}", "--as", f"{topic}-copy")
    assert (copied["records"], copied["as"]) == (1, f"{topic}-copy")
    assert commands.document("record", "delete", f"{topic}:0", "--before", "end")["partitions"][0]["offsets"] == 1
    assert commands.document("top", "--interval-s", "0.1")["brokers"] == 1
    assert commands.document("doctor")["healthy"]
    assert commands.document("topic", "delete", topic) == {"deleted": [topic]}


def test_copy_command_uses_separate_security_settings_for_each_cluster(
    commands: Commands, broker: SecuredBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    host, port = broker.address("SASL_SSL")
    commands.document("topic", "create", "across", "--partitions", "1")
    commands.document("produce", "across", "--value", "hello")
    with Broker() as other:
        options = ("--from", f"{host}:{port}", "--to", other.bootstrap, "--from-config", str(commands.path))
        assert main(["copy", "across", *options]) == 0
        assert "1 record was copied to across" in capsys.readouterr().out
        (tmp_path / "wrong.properties").write_text("security.protocol=SSL\n")
        assert main(["copy", "across", *options, "--to-config", str(tmp_path / "wrong.properties")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "does not use TLS on this listener, but security.protocol is SSL" in line
        assert main(["copy", "across", "--from", f"{host}:{port}", "--to", other.bootstrap]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.endswith("in a file for --command-config")


def test_commands_read_the_pkcs12_stores_of_kafkas_tools(
    broker: SecuredBroker, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stores = {
        "ssl.truststore.location": pkcs12_store(tmp_path / "trusted.p12", broker.authority, None, "changeit"),
        "ssl.truststore.password": "changeit",
        "ssl.keystore.location": pkcs12_store(
            tmp_path / "shop.p12", broker.authority, broker.authority.issue_cert(common_name="shop"), "changeit"
        ),
        "ssl.keystore.password": "changeit",
        "ssl.key.password": "changeit",
    }
    given = {name: value for name, value in client_properties(broker, "SSL").items() if not name.startswith("ssl.")}
    commands = Commands(capsys, tmp_path / "client.properties", {**given, **stores})
    assert commands.document("cluster")["brokers"]


def test_bootstrap_option_takes_precedence_over_the_command_config_file(commands: Commands, broker: SecuredBroker) -> None:
    host, port = broker.address("SASL_PLAINTEXT")
    line = commands.refused("topic", "list", "--bootstrap", f"{host}:{port}")
    assert "does not use TLS on this listener, but security.protocol is SASL_SSL: give SASL_PLAINTEXT" in line


def test_acl_commands_add_list_and_remove_acls(commands: Commands) -> None:
    read = {"principal": "User:bob", "permission": "allow", "operation": "read", "host": "*"}
    orders = {"resource": "topic", "name": "orders", "pattern": "literal"}
    added = commands.document("acl", "add", "--principal", "bob", "--operation", "read", "--topic", "orders", "--group", "g")
    assert added == [{**read, **orders}, {**read, "resource": "group", "name": "g", "pattern": "literal"}]
    said = commands.text(
        "acl",
        "add",
        "--principal",
        "User:eve",
        "--operation",
        "WRITE",
        "--topic",
        "ord",
        "--prefixed",
        "--deny",
        "--host",
        "10.0.0.1",
    )
    assert said == "added: User:eve from 10.0.0.1 deny write topic prefix ord\n"
    assert len(commands.document("acl", "list")) == 3
    assert [acl["principal"] for acl in commands.document("acl", "list", "--topic", "orders")] == ["User:eve", "User:bob"]
    assert "User:bob   allow       read       group     g" in commands.text("acl", "list", "--principal", "bob")
    assert commands.document("acl", "remove", "--principal", "bob", "--topic", "orders") == [{**read, **orders}]
    assert commands.run("acl", "remove", "--principal", "bob", "--topic", "orders")[::2] == (
        1,
        "ottla: no ACL matches; ottla acl list shows the ACLs\n",
    )
    assert len(commands.document("acl", "remove", "--all")) == 2
    assert commands.run("acl", "list")[::2] == (0, "there are no such ACLs; ottla acl add adds one\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", "--principal", "bob", "--topic", "t"], "give --operation, and a resource: --topic"),
        (["add", "--principal", "bob", "--operation", "reed", "--topic", "t"], "'reed' is not an operation; give one of all, read"),
        (["add", "--principal", "User:", "--operation", "read", "--topic", "t"], "'User:' is not a principal"),
        (["remove"], "or only --all"),
        (["remove", "--all", "--topic", "t"], "or only --all"),
        (["remove", "--allow", "--deny"], "exclude each other"),
    ],
)
def test_acl_add_command_refuses_unusable_acls(commands: Commands, arguments: list[str], says: str) -> None:
    assert says in commands.refused("acl", *arguments)


def test_user_commands_add_list_and_remove_scram_users(
    commands: Commands, broker: SecuredBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = commands.path.with_name("password")
    password.write_text("of carol\nnot this\n")
    assert commands.text("user", "add", "carol", "--password-file", str(password)) == (
        "user carol can authenticate by SCRAM-SHA-256 and SCRAM-SHA-512\n"
    )
    assert [one["user"] for one in commands.document("user", "list")] == [USER, "carol"]
    as_carol = Commands(commands._capsys, commands.path.with_name("carol.properties"), {})
    module = f'{LOGIN}.scram.ScramLoginModule required username="carol" password="of carol";'
    given = client_properties(broker, "SASL_SSL", sasl__jaas__config=module)
    as_carol = Commands(commands._capsys, as_carol.path, given)
    assert "CLUSTER_AUTHORIZATION_FAILED" in as_carol.refused("acl", "list")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"another\n")))
    commands.text("user", "add", "carol", "--mechanism", "SCRAM-SHA-512", "--iterations", "5000")
    assert commands.document("user", "list", "carol") == [
        {"user": "carol", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 5000}}
    ]
    assert "authentication of 'carol' by SCRAM-SHA-512" in as_carol.refused("topic", "list")
    assert commands.document("user", "remove", "carol") == {"removed": ["carol"]}
    assert "user 'carol': RESOURCE_NOT_FOUND" in commands.refused("user", "remove", "carol")
    assert "the password is empty" in commands.refused("user", "add", "carol", "--password-file", "/dev/null")


@pytest.mark.parametrize(
    ("protocol", "changed", "says"),
    [
        (
            "SASL_SSL",
            {"sasl.jaas.config": f'{LOGIN}.scram.ScramLoginModule required username="a" password="b";'},
            "'a' by SCRAM-SHA-512",
        ),
        ("SASL_SSL", {"ssl.truststore.location": None}, "that is not trusted (unable to get local issuer certificate)"),
        (
            "SASL_SSL",
            {"security.protocol": "SASL_PLAINTEXT", "ssl.truststore.location": None, "ssl.truststore.type": None},
            "give SASL_SSL",
        ),
        ("SASL_PLAINTEXT", {"security.protocol": "SASL_SSL"}, "does not use TLS on this listener"),
        ("SSL", {"ssl.keystore.location": None, "ssl.keystore.type": None}, "requires a client certificate"),
        ("SSL", {"ssl.truststore.location": "/none"}, "ssl.truststore.location: /none cannot be read on this machine"),
        ("SSL", {"security.protocl": "SSL"}, "unknown option security.protocl; did you mean security.protocol?"),
        ("SSL", {"bootstrap.servers": "here"}, "--bootstrap: 'here' is not HOST:PORT"),
    ],
)
def test_commands_report_wrong_security_settings_in_one_line(
    protocol: str,
    changed: dict[str, str | None],
    says: str,
    broker: SecuredBroker,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    given = {**client_properties(broker, protocol), **changed}
    commands = Commands(capsys, tmp_path / "client.properties", {n: v for n, v in given.items() if v is not None})
    for arguments in (["topic", "list"], ["consume", "t"], ["txn", "list"], ["acl", "list"]):
        assert says in commands.refused(*arguments)


@pytest.mark.parametrize(
    ("protocol", "says"),
    [
        ("SSL", "uses TLS on this listener, but security.protocol is PLAINTEXT: give SSL in a file for --command-config"),
        ("SASL_SSL", "uses TLS on this listener, but security.protocol is PLAINTEXT: give SSL in a file for --command-config"),
        ("SASL_PLAINTEXT", "requires clients to authenticate"),
    ],
)
def test_command_without_its_config_file_names_the_command_config_option(
    protocol: str, says: str, broker: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    host, port = broker.address(protocol)
    for command in (["topic", "list"], ["health"]):
        assert main([*command, "--bootstrap", f"{host}:{port}"]) in (1, 2)
        (line,) = capsys.readouterr().err.splitlines()
        assert says in line
        assert "--command-config" in line


def test_health_command_needs_no_command_config_for_a_local_socket(tmp_path: Path) -> None:
    """``ottla health --ready-file`` finds a local socket even if $OTTLA_COMMAND_CONFIG is set."""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        with secured(path, 60) as channel:
            channel.sendall(b"x")
            with listener.accept()[0] as accepted:
                assert accepted.recv(1) == b"x"


KAFKA = {
    **SETTINGS,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'),
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{LOGIN}.scram.ScramLoginModule required;",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    made = ApacheKafka(
        tmp_path_factory.mktemp("kafka"), settings=KAFKA, format_arguments=("--standalone",), listeners={"SASL_PLAINTEXT": port}
    )
    try:
        made.start()
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    yield f"127.0.0.1:{port}"
    made.stop()


@pytest.mark.java
def test_commands_connect_to_a_secured_apache_kafka_broker(kafka: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    module = f'{LOGIN}.plain.PlainLoginModule required username="{USER}" password="{PASSWORD}";'
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": module}
    commands = Commands(capsys, tmp_path / "client.properties", {"bootstrap.servers": kafka, **plain})
    assert commands.document("topic", "create", "orders", "--partitions", "1")["created"]
    assert commands.document("produce", "orders", "--value", "hello")["topic"] == "orders"
    assert commands.text("consume", "orders", "--values") == "hello\n"
    assert commands.document("health")["healthy"]
    (tmp_path / "password").write_text("of carol")
    commands.text("user", "add", "carol", "--password-file", str(tmp_path / "password"))
    assert commands.document("user", "list") == [{"user": "carol", "iterations": {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 4096}}]
    module = f'{LOGIN}.scram.ScramLoginModule required username="carol" password="of carol";'
    scram = {**plain, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": module}
    as_carol = Commands(capsys, tmp_path / "carol.properties", {"bootstrap.servers": kafka, **scram})
    assert as_carol.document("topic", "list") == []
    added = commands.document("acl", "add", "--principal", "carol", "--operation", "read", "--topic", "ord", "--prefixed")
    assert commands.document("acl", "list", "--topic", "orders") == added
    assert as_carol.text("consume", "orders", "--values") == "hello\n"
    assert commands.document("acl", "remove", "--principal", "carol") == added
    assert "TOPIC_AUTHORIZATION_FAILED" in as_carol.refused("produce", "orders", "--value", "x")
    assert commands.document("user", "remove", "carol") == {"removed": ["carol"]}
    assert "authentication of 'carol' by SCRAM-SHA-512" in as_carol.refused("topic", "list")


@pytest.fixture(scope="module")
def kafka_of_every_way(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    try:
        made = Secured(tmp_path_factory.mktemp("kafka"), "kafka")
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    with made:
        yield made


@pytest.mark.java
@pytest.mark.parametrize("way", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "mTLS"])
def test_commands_connect_to_apache_kafka_over_tls(
    kafka_of_every_way: Secured, capsys: pytest.CaptureFixture[str], tmp_path: Path, way: str
) -> None:
    options = {name.removeprefix("kafka."): value for name, value in kafka_of_every_way.options(way).items()}
    commands, topic = Commands(capsys, tmp_path / "client.properties", options), way.lower()
    assert commands.document("topic", "create", topic, "--partitions", "1")["created"]
    assert commands.document("produce", topic, "--value", "hello")["topic"] == topic
    assert commands.text("consume", topic, "--values") == "hello\n"
    assert commands.document("topic", "describe", topic)["partitions"][0]["high_watermark"] == 1
    assert commands.document("group", "reset", f"g-{topic}", "--to", "end", "--topic", topic)["dry_run"] is False
    commands.text("quota", "set", "--client-id", topic, "producer_byte_rate=1000000")
    assert [one["quotas"] for one in commands.document("quota", "list", "--client-id", topic)] == [
        {"producer_byte_rate": 1_000_000.0}
    ]
    commands.text("quota", "remove", "--client-id", topic)
    assert commands.document("quota", "list", "--client-id", topic) == []
    assert commands.document("user", "list")[0]["user"] == "shop"
    assert commands.document("health")["healthy"]
    wrong = {name: value for name, value in options.items() if not name.startswith("ssl.")}
    line = Commands(capsys, tmp_path / "wrong.properties", wrong).refused("topic", "list")
    assert "not trusted" in line
