"""The largest allowed requests of a controller's own APIs are answered in full and block the event loop only briefly."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.controller.handlers.alter_partition import PARTITIONS_PER_STEP
from ottla.protocol.errors import Code
from ottla.protocol.messages.alter_partition import AlterPartitionRequest, BrokerState, PartitionData, TopicData
from ottla.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, DirectoryData
from ottla.protocol.messages.assign_replicas_to_dirs import PartitionData as DirectoryPartition
from ottla.protocol.messages.assign_replicas_to_dirs import TopicData as DirectoryTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest
from ottla.simulation.controller import SimulatedController
from tests.broker.controller.world import Broker, uuid

COUNT = 1_000


@pytest.fixture
def brokers(controller: SimulatedController) -> list[Broker]:
    brokers = [Broker(controller, number).join() for number in (1, 2)]
    topic = CreatableTopic(name="t", num_partitions=COUNT, replication_factor=2)
    assert controller.connect().call(CreateTopicsRequest(topics=[topic])).topics[0].error_code == Code.NONE
    return brokers


@pytest.fixture
def decided(controller: SimulatedController, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record counts of the batches appended to the metadata log. The list grows during the test."""
    counts: list[int] = []
    execute = controller.server.controller.log.execute

    def counted(result: Any) -> Any:
        counts.append(len(result.records))
        return execute(result)

    monkeypatch.setattr(controller.server.controller.log, "execute", counted)
    return counts


def test_alter_partition_of_many_partitions_is_handled_in_steps(
    controller: SimulatedController, brokers: list[Broker], decided: list[int]
) -> None:
    topic = controller.server.controller.state.topics["t"]
    led = [index for index, partition in enumerate(topic.partitions) if partition.leader == 1]
    asked = [
        PartitionData(
            partition_index=index,
            leader_epoch=0,
            partition_epoch=0,
            new_isr_with_epochs=[BrokerState(broker_id=1, broker_epoch=brokers[0].epoch)],
        )
        for index in led
    ]
    request = AlterPartitionRequest(
        broker_id=1, broker_epoch=brokers[0].epoch, topics=[TopicData(topic_id=topic.topic_id, partitions=asked)]
    )
    answers = brokers[0].client.call(request).topics[0].partitions
    assert [(answer.partition_index, answer.error_code, answer.isr) for answer in answers] == [(n, 0, [1]) for n in led]
    assert sum(decided) == len(led)
    assert max(decided) <= PARTITIONS_PER_STEP


def test_directory_assignment_of_many_replicas_is_handled_in_steps(
    controller: SimulatedController, brokers: list[Broker], decided: list[int]
) -> None:
    topic_id = controller.server.controller.state.topics["t"].topic_id
    topic = DirectoryTopic(topic_id=topic_id, partitions=[DirectoryPartition(partition_index=n) for n in range(COUNT)])
    request = AssignReplicasToDirsRequest(
        broker_id=2, broker_epoch=brokers[1].epoch, directories=[DirectoryData(id=uuid(77), topics=[topic])]
    )
    answers = brokers[1].client.call(request).directories[0].topics[0].partitions
    assert [(answer.partition_index, answer.error_code) for answer in answers] == [(n, 0) for n in range(COUNT)]
    assert sum(decided) == COUNT
    assert max(decided) <= PARTITIONS_PER_STEP


def test_elect_leaders_for_all_partitions_is_handled_in_steps(
    controller: SimulatedController, brokers: list[Broker], decided: list[int]
) -> None:
    brokers[0].beat(want_fence=True)
    brokers[0].join_again()
    decided.clear()
    answer = controller.connect().call(ElectLeadersRequest(topic_partitions=None))
    refused = {p.error_code for topic in answer.replica_election_results for p in topic.partition_result}
    assert refused == {Code.PREFERRED_LEADER_NOT_AVAILABLE}, "the preferred leaders are not in sync yet"
    assert len(decided) == COUNT / PARTITIONS_PER_STEP
