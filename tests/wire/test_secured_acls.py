"""ACLs of a user in a cluster with nodes of Apache Kafka: every node denies the same, also in requests that brokers forward."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.batches import batch, record
from tests.support.raw_client import RawClient
from tests.support.waiting import wait_until
from tests.wire.secured_nodes import PASSWORD, USER, SecuredNodes
from tests.wire.test_secured_nodes import ALL, PATIENCE_S, WITH_KAFKA, WITH_KAFKA_IDS, running
from tools.kafka_cluster import ApacheKafkas

pytestmark = [pytest.mark.wire, pytest.mark.full]


@pytest.fixture(
    scope="module",
    params=[ALL, *(pytest.param(nodes, marks=pytest.mark.java) for nodes in WITH_KAFKA)],
    ids=["ottla", *WITH_KAFKA_IDS],
)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkas]:
    directory = tmp_path_factory.mktemp("acls")
    with running(directory, SecuredNodes(directory, "SASL_PLAINTEXT", is_super=False), request.param) as started:
        yield started
        assert not [line for line in started.logs if '"level": "error"' in line]


@contextmanager
def user_at(cluster: ApacheKafkas, broker: int) -> Iterator[RawClient]:
    """A connection of the user to one broker."""
    with RawClient(cluster.secured(broker)) as client:
        client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert client.call(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()), 2).error_code == 0
        yield client


def allow(cluster: ApacheKafkas, operation: AclOperation, kind: ResourceType, name: str, *, is_prefix: bool = False) -> None:
    """Add an ACL for the user as an administrator."""
    pattern = ResourcePatternType.PREFIXED if is_prefix else ResourcePatternType.LITERAL
    acl = AclBinding(kind, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    (created,) = admin.create_acls([acl]).values()
    created.result(PATIENCE_S)


def created(cluster: ApacheKafkas, broker: int, topic: str) -> Code:
    asked = CreatableTopic(name=topic, num_partitions=1, replication_factor=1)
    with user_at(cluster, broker) as client:
        return Code(client.call(CreateTopicsRequest(topics=[asked], timeout_ms=60_000), 7).topics[0].error_code)


def deleted(cluster: ApacheKafkas, broker: int, topic: str) -> Code:
    with user_at(cluster, broker) as client:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=60_000)
        return Code(client.call(request, 6).responses[0].error_code)


def produced(cluster: ApacheKafkas, broker: int, topic: str) -> Code:
    data = [PartitionProduceData(index=0, records=batch(record(value=b"paid")))]
    with user_at(cluster, broker) as client:
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])
        return Code(client.call(request, 9).responses[0].partition_responses[0].error_code)


def initialised(cluster: ApacheKafkas, broker: int, transactional_id: str) -> Code:
    with user_at(cluster, broker) as client:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
        return Code(client.call(request, 4).error_code)


def test_controller_authorizes_the_user_in_requests_that_any_broker_forwards(cluster: ApacheKafkas) -> None:
    for broker in cluster.brokers:
        assert created(cluster, broker, f"team-{broker}") == Code.TOPIC_AUTHORIZATION_FAILED
    allow(cluster, AclOperation.CREATE, ResourceType.TOPIC, "team-", is_prefix=True)
    for broker in cluster.brokers:
        topic = f"team-{broker}"
        wait_until(lambda: created(cluster, broker, topic) in (Code.NONE, Code.TOPIC_ALREADY_EXISTS))  # noqa: B023
        assert created(cluster, broker, f"other-{broker}") == Code.TOPIC_AUTHORIZATION_FAILED
        assert deleted(cluster, broker, topic) == Code.TOPIC_AUTHORIZATION_FAILED
    allow(cluster, AclOperation.DELETE, ResourceType.TOPIC, "team-1")
    (last,) = cluster.brokers[-1:]
    wait_until(lambda: deleted(cluster, last, "team-1") == Code.NONE)
    assert deleted(cluster, 1, "team-2") == Code.TOPIC_AUTHORIZATION_FAILED


def test_each_leader_and_coordinator_denies_a_user_without_permission(cluster: ApacheKafkas) -> None:
    cluster.create_topic("orders", 1, replication_factor=3)
    for broker in cluster.brokers:
        if cluster.leader("orders") != broker:
            cluster.move_leader("orders", 0, broker)
        assert produced(cluster, broker, "orders") == Code.TOPIC_AUTHORIZATION_FAILED
        assert initialised(cluster, broker, "checkout") == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    allow(cluster, AclOperation.WRITE, ResourceType.TOPIC, "orders")
    allow(cluster, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "checkout")
    for broker in cluster.brokers:
        if cluster.leader("orders") != broker:
            cluster.move_leader("orders", 0, broker)
        wait_until(lambda: produced(cluster, broker, "orders") == Code.NONE)  # noqa: B023
        allowed = (Code.NONE, Code.NOT_COORDINATOR, Code.COORDINATOR_NOT_AVAILABLE, Code.COORDINATOR_LOAD_IN_PROGRESS)
        wait_until(lambda: initialised(cluster, broker, "checkout") in allowed)  # noqa: B023
        assert produced(cluster, broker, "invoices") == Code.TOPIC_AUTHORIZATION_FAILED
