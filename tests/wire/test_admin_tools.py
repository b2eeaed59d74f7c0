"""Administration tools and the stock clients' admin calls against a single broker without security."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.support.raw_client import RawClient, create
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.java, pytest.mark.full]

TOOLS = "org.apache.kafka.tools"


@pytest.fixture(scope="module", autouse=True)
def java() -> None:
    try:
        kafka.java()
        kafka.jars("all")
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka's tools: {missing}")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path_factory.mktemp("admin")) as running:
        with RawClient(running.bootstrap) as client:
            create(client, "t", 2)
        yield running


def tool(name: str, broker: Broker, *arguments: str, check: bool = True) -> str:
    return kafka.tool(name, "--bootstrap-server", broker.bootstrap, *arguments, check=check)


def configs(broker: Broker, entity: str, *arguments: str) -> str:
    return tool("kafka.admin.ConfigCommand", broker, "--entity-type", entity, *arguments)


def test_kafka_acls_tool_reports_that_authorization_is_disabled(broker: Broker) -> None:
    said = tool(f"{TOOLS}.AclCommand", broker, "--list", check=False)
    assert "SecurityDisabledException" in said, said
    added = ("--add", "--allow-principal", "User:a", "--operation", "Read", "--topic", "t", "--force")
    assert "SecurityDisabledException" in tool(f"{TOOLS}.AclCommand", broker, *added, check=False)


def test_metadata_quorum_tool_describes_the_quorum(broker: Broker) -> None:
    status = tool(f"{TOOLS}.MetadataQuorumCommand", broker, "describe", "--status")
    assert re.search(r"LeaderId:\s+1\n", status), status
    assert '"id": 1' in status
    replication = tool(f"{TOOLS}.MetadataQuorumCommand", broker, "describe", "--replication")
    assert re.search(r"^1\s+\S{22}\s+\d+\s+0\s+\d+\s+\d+\s+Leader", replication, re.MULTILINE), replication


def test_kafkas_leader_election_tool_reports_the_leader_as_already_elected(broker: Broker) -> None:
    one = ("--election-type", "preferred", "--topic", "t", "--partition", "0")
    assert "Valid replica already elected for partitions t-0" in tool(f"{TOOLS}.LeaderElectionCommand", broker, *one)
    tool(f"{TOOLS}.LeaderElectionCommand", broker, "--election-type", "preferred", "--all-topic-partitions")


def test_kafkas_reassignment_tool_succeeds_with_the_current_replicas(broker: Broker, tmp_path: Path) -> None:
    command, plan = f"{TOOLS}.reassign.ReassignPartitionsCommand", tmp_path / "plan.json"
    plan.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]}')
    assert "Successfully started partition reassignment for t-0" in tool(
        command, broker, "--reassignment-json-file", str(plan), "--execute"
    )
    assert "Reassignment of partition t-0 is completed" in tool(command, broker, "--reassignment-json-file", str(plan), "--verify")
    assert "No partition reassignments found" in tool(command, broker, "--list")
    topics = tmp_path / "topics.json"
    topics.write_text('{"topics": [{"topic": "t"}], "version": 1}')
    generated = tool(command, broker, "--topics-to-move-json-file", str(topics), "--broker-list", "1", "--generate")
    assert "Proposed partition reassignment configuration" in generated


@pytest.mark.parametrize(
    ("entity", "named", "change", "shown"),
    [
        ("users", ("--entity-name", "alice"), "producer_byte_rate=1000", "producer_byte_rate=1000.0"),
        ("clients", ("--entity-default",), "request_percentage=12.5", "request_percentage=12.5"),
        ("ips", ("--entity-name", "127.0.0.1"), "connection_creation_rate=7", "connection_creation_rate=7.0"),
        ("groups", ("--entity-name", "g"), "consumer.session.timeout.ms=50000", "consumer.session.timeout.ms=50000"),
        ("client-metrics", ("--entity-name", "m"), "interval.ms=1000,metrics=[a,b]", "metrics=a,b"),
        ("topics", ("--entity-name", "t"), "retention.ms=1234567", "retention.ms=1234567"),
        ("brokers", ("--entity-name", "1"), "log.retention.ms=1234567", "log.retention.ms=1234567"),
        ("brokers", ("--entity-default",), "message.max.bytes=1234567", "message.max.bytes=1234567"),
        ("broker-loggers", ("--entity-name", "1"), "groups=DEBUG", "groups=DEBUG"),
    ],
)
def test_kafka_configs_tool_alters_and_describes_every_entity_type(
    broker: Broker, entity: str, named: tuple[str, ...], change: str, shown: str
) -> None:
    configs(broker, entity, *named, "--alter", "--add-config", change)
    assert shown in configs(broker, entity, *named, "--describe")
    keys = ",".join(re.findall(r"([a-z_.]+)=", change))
    configs(broker, entity, *named, "--alter", "--delete-config", keys)
    assert shown not in configs(broker, entity, *named, "--describe")


def test_kafka_configs_tool_alters_and_describes_scram_credentials(broker: Broker) -> None:
    user = ("--entity-name", "bob")
    configs(broker, "users", *user, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]")
    assert "SCRAM-SHA-256=iterations=8192" in configs(broker, "users", *user, "--describe")
    configs(broker, "users", *user, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "SCRAM" not in configs(broker, "users", *user, "--describe")


def test_kafkas_delegation_token_tool_requires_authentication(broker: Broker, tmp_path: Path) -> None:
    nothing = tmp_path / "nothing.properties"
    nothing.write_text("")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        tool(f"{TOOLS}.DelegationTokenCommand", broker, "--describe", "--command-config", str(nothing))
    assert "not allowed on PLAINTEXT" in refused.value.stdout


def test_unregistering_an_unknown_broker_is_refused(broker: Broker) -> None:
    said = kafka.tool(f"{TOOLS}.ClusterTool", "unregister", "--bootstrap-server", broker.bootstrap, "--id", "7", check=False)
    assert "BrokerIdNotRegisteredException" in said, said


def test_kafka_python_admin_client_describes_quorum_reassignments_and_scram_users(broker: Broker) -> None:
    from kafka import KafkaAdminClient

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        quorum = admin.describe_metadata_quorum()
        assert "leader_id" in str(quorum)
        assert admin.list_partition_reassignments() in ({}, [])
        assert admin.describe_user_scram_credentials() is not None
    finally:
        admin.close()


def test_confluent_admin_client_gets_kafkas_answers_for_acls_elections_and_scram_users(broker: Broker) -> None:
    from confluent_kafka import ElectionType, KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import (
        AclBinding,
        AclOperation,
        AclPermissionType,
        AdminClient,
        ResourcePatternType,
        ResourceType,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    everybody = (AclOperation.READ, AclPermissionType.ALLOW)
    binding = AclBinding(ResourceType.TOPIC, "t", ResourcePatternType.LITERAL, "User:a", "*", *everybody)
    (created,) = admin.create_acls([binding]).values()
    with pytest.raises(KafkaException) as refused:
        created.result(60)
    assert refused.value.args[0].code() == KafkaError.SECURITY_DISABLED
    elected = admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition("t", 0)]).result(60)
    assert [error.code() for error in elected.values()] == [KafkaError.ELECTION_NOT_NEEDED]
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    (altered,) = admin.alter_user_scram_credentials([UserScramCredentialUpsertion("eve", info, b"secret")]).values()
    altered.result(60)
    described = admin.describe_user_scram_credentials(["eve"])["eve"].result(60)
    assert [(c.mechanism, c.iterations) for c in described.scram_credential_infos] == [(ScramMechanism.SCRAM_SHA_512, 4096)]
