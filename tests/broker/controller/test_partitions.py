"""A controller's decisions about topics and partitions: replica placement, leaders, in-sync replicas and reassignment."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.peers.principals import principal_bytes
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData
from ottla.protocol.messages.assign_replicas_to_dirs import PartitionData as DirectoryPartition
from ottla.protocol.messages.assign_replicas_to_dirs import TopicData as DirectoryTopic
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.security.principal import ANONYMOUS
from ottla.simulation.controller import SimulatedController
from tests.broker.controller.world import Broker, uuid

SESSION_MS = 9_000
LOCALHOST = bytes([127, 0, 0, 1])
CREATE_TOPICS = 19


@pytest.fixture
def brokers(controller: SimulatedController) -> list[Broker]:
    return [Broker(controller, number, rack=f"r{number}").join() for number in (1, 2, 3)]


def create(controller: SimulatedController, name: str = "t", **fields: Any) -> Any:
    asked = CreatableTopic(**{"name": name, "num_partitions": 3, "replication_factor": 3, **fields})
    return controller.connect().call(CreateTopicsRequest(topics=[asked])).topics[0]


def assigned(*replicas: list[int]) -> dict[str, Any]:
    assignments = [CreatableReplicaAssignment(partition_index=n, broker_ids=ids) for n, ids in enumerate(replicas)]
    return {"num_partitions": -1, "replication_factor": -1, "assignments": assignments}


def partition(controller: SimulatedController, name: str = "t", index: int = 0) -> Any:
    return controller.server.controller.state.topics[name].partitions[index]


def elect(controller: SimulatedController, name: str, *indexes: int) -> list[Code]:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=list(indexes))])
    answer = controller.connect().call(request)
    return [Code(p.error_code) for p in answer.replica_election_results[0].partition_result]


def test_replicas_of_a_new_topic_are_spread_over_the_brokers(controller: SimulatedController, brokers: list[Broker]) -> None:
    created = create(controller)
    assert (created.error_code, created.num_partitions, created.replication_factor) == (Code.NONE, 3, 3)
    partitions = controller.server.controller.state.topics["t"].partitions
    assert sorted(p.leader for p in partitions) == [1, 2, 3]
    assert all(sorted(p.replicas) == sorted(p.isr) == [1, 2, 3] for p in partitions)
    assert partitions[0].directories == tuple(uuid(n) for n in partitions[0].replicas)
    brokers[0].catch_up()
    assert brokers[0].state.topics["t"].partitions == partitions, "all brokers have the same metadata"


def test_controller_refuses_invalid_topics(controller: SimulatedController, brokers: list[Broker]) -> None:
    assert create(controller, replication_factor=4).error_code == Code.INVALID_REPLICATION_FACTOR
    assert create(controller, replication_factor=0).error_code == Code.INVALID_REPLICATION_FACTOR
    assert create(controller, num_partitions=0).error_code == Code.INVALID_PARTITIONS
    assert create(controller, **assigned([1, 7])).error_code == Code.INVALID_REPLICA_ASSIGNMENT
    assert create(controller, **assigned([1, 2], [3])).error_code == Code.INVALID_REPLICA_ASSIGNMENT
    assert not controller.server.controller.state.topics


def test_topic_creation_without_brokers_is_refused(controller: SimulatedController) -> None:
    assert create(controller, replication_factor=1).error_code == Code.INVALID_REPLICATION_FACTOR


def test_added_partitions_have_the_replication_factor_of_the_topic(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([2, 1]))
    answer = controller.connect().call(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=3, assignments=None)]))
    assert answer.results[0].error_code == Code.NONE
    assert [len(p.replicas) for p in controller.server.controller.state.topics["t"].partitions] == [2, 2, 2]


def test_lost_leader_is_replaced_by_an_in_sync_replica(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([1, 2, 3]))
    for _ in range(4):
        controller.sleep(SESSION_MS / 3)
        for broker in brokers[1:]:
            broker.beat()
    after = partition(controller)
    assert (after.leader, after.isr, after.leader_epoch) == (2, (2, 3), 1)
    brokers[0].catch_up()
    brokers[0].beat()
    assert partition(controller).leader == 2, "the previous leader returns as a follower"
    assert elect(controller, "t", 0) == [Code.PREFERRED_LEADER_NOT_AVAILABLE], "the previous leader is not in sync yet"


def test_alter_partition_changes_the_in_sync_replicas(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([1, 2, 3]))
    topic_id = controller.server.controller.state.topics["t"].topic_id

    def ask(broker: Broker, isr: list[int], partition_epoch: int) -> Any:
        states = [BrokerState(broker_id=n, broker_epoch=brokers[n - 1].epoch) for n in isr]
        asked = PartitionData(partition_index=0, leader_epoch=0, new_isr_with_epochs=states, partition_epoch=partition_epoch)
        request = AlterPartitionRequest(
            broker_id=broker.broker_id,
            broker_epoch=broker.epoch,
            topics=[TopicData(topic_id=topic_id, partitions=[asked])],
        )
        return broker.client.call(request).topics[0].partitions[0]

    answer = ask(brokers[0], [1, 2], 0)
    assert (answer.error_code, answer.isr, answer.partition_epoch) == (Code.NONE, [1, 2], 1)
    assert ask(brokers[0], [1, 2, 3], 0).error_code == Code.INVALID_UPDATE_VERSION
    assert ask(brokers[1], [1, 2, 3], 1).error_code == Code.INVALID_REQUEST, "broker 2 is not the leader"
    assert ask(brokers[0], [1, 2, 3], 1).isr == [1, 2, 3]


def test_preferred_election_follows_reordered_replicas(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([1, 2, 3]))
    moved = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=[3, 1, 2])])
    answer = controller.connect().call(AlterPartitionReassignmentsRequest(topics=[moved]))
    assert answer.responses[0].partitions[0].error_code == Code.NONE
    assert partition(controller).leader == 1
    assert elect(controller, "t", 0) == [Code.NONE]
    assert partition(controller).leader == 3
    assert elect(controller, "t", 0, 7) == [Code.ELECTION_NOT_NEEDED, Code.UNKNOWN_TOPIC_OR_PARTITION]


def test_partition_reassignment_is_listed_and_cancelled(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([1]))
    client = controller.connect()

    def move(replicas: list[int] | None, **fields: Any) -> int:
        asked = ReassignableTopic(name="t", partitions=[ReassignablePartition(partition_index=0, replicas=replicas)])
        answer = client.call(AlterPartitionReassignmentsRequest(topics=[asked], **fields))
        code: int = answer.responses[0].partitions[0].error_code
        return code

    assert move([2, 3], allow_replication_factor_change=False) == Code.INVALID_REPLICATION_FACTOR
    assert move([7]) == Code.INVALID_REPLICA_ASSIGNMENT
    assert move(None) == Code.NO_REASSIGNMENT_IN_PROGRESS
    assert move([2]) == Code.NONE
    listed = client.call(ListPartitionReassignmentsRequest()).topics[0].partitions[0]
    assert (listed.replicas, listed.adding_replicas, listed.removing_replicas) == ([2, 1], [2], [1])
    assert move(None) == Code.NONE
    assert client.call(ListPartitionReassignmentsRequest()).topics == []


def test_assign_replicas_to_dirs_changes_the_directory_of_a_replica(controller: SimulatedController, brokers: list[Broker]) -> None:
    create(controller, **assigned([1, 2]))
    topic_id = controller.server.controller.state.topics["t"].topic_id

    def ask(directory: bytes, index: int = 0) -> int:
        topic = DirectoryTopic(topic_id=topic_id, partitions=[DirectoryPartition(partition_index=index)])
        request = AssignReplicasToDirsRequest(
            broker_id=1, broker_epoch=brokers[0].epoch, directories=[DirectoryData(id=directory, topics=[topic])]
        )
        code: int = brokers[0].client.call(request).directories[0].topics[0].partitions[0].error_code
        return code

    assert ask(uuid(1)) == Code.NONE
    assert ask(uuid(1), index=5) == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert partition(controller).leader == 1
    assert ask(uuid(99)) == Code.NONE, "a replica may be assigned to a failed directory"
    after = partition(controller)
    assert (after.leader, after.isr, after.directories) == (2, (2,), (uuid(99), uuid(2)))


def test_broker_configs_are_accepted_only_for_registered_brokers(controller: SimulatedController, brokers: list[Broker]) -> None:
    def set_config(broker: str) -> int:
        config = AlterableConfig(name="log.cleaner.threads", config_operation=0, value="2")
        resource = AlterConfigsResource(resource_type=4, resource_name=broker, configs=[config])
        answer = controller.connect().call(IncrementalAlterConfigsRequest(resources=[resource]))
        code: int = answer.responses[0].error_code
        return code

    assert set_config("2") == Code.NONE
    assert set_config("9") == Code.BROKER_ID_NOT_REGISTERED
    brokers[0].catch_up()
    assert brokers[0].state.config_of(4, "2") == {"log.cleaner.threads": "2"}


def forward(controller: SimulatedController, frame: bytes, address: bytes = LOCALHOST) -> Any:
    request = EnvelopeRequest(request_data=frame, request_principal=principal_bytes(ANONYMOUS), client_host_address=address)
    return controller.connect().call(request)


def test_controller_handles_a_client_request_in_an_envelope(controller: SimulatedController, brokers: list[Broker]) -> None:
    asked = CreateTopicsRequest(topics=[CreatableTopic(name="f", num_partitions=2, replication_factor=2)])
    answer = forward(controller, request_frame(CREATE_TOPICS, 7, 42, "client", asked)[4:])
    assert answer.error_code == Code.NONE
    correlation_id, inner = decode_response_frame(CREATE_TOPICS, 7, answer.response_data)
    assert (correlation_id, inner.topics[0].error_code) == (42, Code.NONE)
    assert "f" in controller.server.controller.state.topics


def test_controller_refuses_invalid_envelopes(controller: SimulatedController) -> None:
    produce = request_frame(0, 9, 1, "client", ProduceRequest(acks=1, timeout_ms=1))[4:]
    newer = (CREATE_TOPICS).to_bytes(2, "big") + (99).to_bytes(2, "big") + produce[4:]
    assert forward(controller, produce).error_code == Code.INVALID_REQUEST
    assert forward(controller, newer).error_code == Code.INVALID_REQUEST
    assert forward(controller, b"").error_code == Code.INVALID_REQUEST
    assert forward(controller, produce, address=b"123").error_code == Code.INVALID_REQUEST
    cut = request_frame(CREATE_TOPICS, 7, 1, "client", CreateTopicsRequest(topics=[CreatableTopic(name="f")]))[4:20]
    assert forward(controller, cut).error_code == Code.INVALID_REQUEST
