"""Requests that only brokers send to a controller, and that need CLUSTER_ACTION on the cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.broker.peers.principals import principal_bytes
from ottla.protocol.codec import api, request_frame
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, Listener
from ottla.protocol.messages.create_acls import CreateAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from ottla.security.acl.codes import AclOperation, PatternType, PermissionType, ResourceType
from ottla.security.principal import USER, KafkaPrincipal
from ottla.simulation.client import api_key
from tests.broker.controller.world import METADATA_ID
from tests.broker.handlers.authorised_broker import creation
from tests.security.acl.acls import acl


def envelope(of: Any, version: int, principal: bytes = principal_bytes(KafkaPrincipal(USER, "admin"))) -> EnvelopeRequest:
    frame = request_frame(api_key(of), version, 7, "forwarded", of)[4:]
    return EnvelopeRequest(request_data=frame, request_principal=principal, client_host_address=b"\x7f\0\0\1")


ALL_ACLS = DescribeAclsRequest(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=AclOperation.ANY,
    permission_type=PermissionType.ANY,
)
METADATA = FetchTopic(topic_id=METADATA_ID, partitions=[FetchPartition(partition_max_bytes=1 << 20)])
REQUESTS: dict[str, Callable[[], Any]] = {
    "Envelope": lambda: envelope(ALL_ACLS, 3),
    "Envelope without a principal": lambda: EnvelopeRequest(request_data=b"", client_host_address=b""),
    "AllocateProducerIds": lambda: AllocateProducerIdsRequest(broker_id=1, broker_epoch=1),
    "AlterPartition": lambda: AlterPartitionRequest(broker_id=1, broker_epoch=1),
    "AssignReplicasToDirs": lambda: AssignReplicasToDirsRequest(broker_id=1, broker_epoch=1),
    "BrokerHeartbeat": lambda: BrokerHeartbeatRequest(broker_id=1, broker_epoch=1),
    "BrokerRegistration": lambda: BrokerRegistrationRequest(
        broker_id=9, incarnation_id=b"i" * 16, listeners=[Listener(name="PLAINTEXT", host="evil", port=1)], log_dirs=[b"d" * 16]
    ),
    "Fetch": lambda: FetchRequest(replica_state=ReplicaState(replica_id=1), topics=[METADATA], max_bytes=1 << 20),
}
OLDEST = {"Fetch": 17}
"""Older versions of Fetch name the topic, or have the replica's id in another field."""
CASES = [
    (name, version)
    for name, make in REQUESTS.items()
    for of in [api(api_key(make()))]
    for version in range(OLDEST.get(name, of.min_version), of.max_version + 1)
]


def forged() -> EnvelopeRequest:
    """Return an envelope by which a client would give alice all permissions in the name of a super user."""
    all_of_alice = acl("kafka-cluster", "ALL", principal="User:alice", resource_type="CLUSTER")
    return envelope(CreateAclsRequest(creations=[creation(all_of_alice)]), 3)
