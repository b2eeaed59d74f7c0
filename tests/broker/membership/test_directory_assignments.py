"""After its registration a broker reports the directories of its replicas in batches until the controller acknowledges them."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.membership.directory_assignments import MAX_ASSIGNMENTS, DirectoryAssignments
from ottla.broker.membership.lifecycle import BrokerIdentity, BrokerLifecycle, Intervals
from ottla.broker.peers.requests import Failure, PeerFailure, Then
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import DIRECTORY_ASSIGNMENT
from ottla.coordinator.metadata.partition_registration import MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, PartitionRegistration
from ottla.protocol.errors import Code
from ottla.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    ResponseDirectoryData,
    ResponsePartitionData,
    ResponseTopicData,
)
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem

BROKER, OTHER = 2, 1
OWN, OLD, OTHERS = b"n" * 16, b"o" * 16, b"x" * 16
TOPIC_ID = b"t" * 16
LOST = PeerFailure(Failure.DISCONNECTED, "the connection was lost")


class World:
    """One broker, and a controller that responds when the test calls `answer`."""

    def __init__(self, partitions: int = 1, *, directory: bytes = OLD, is_registered: bool = True) -> None:
        self.env = SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS)
        self.state = ClusterState(BROKER, is_member=True)
        self.requests: list[tuple[AssignReplicasToDirsRequest, Then]] = []
        identity = BrokerIdentity(
            broker_id=BROKER, cluster_id="c", incarnation_id=b"", listeners=(), features=(), rack=None, log_directories=(OWN,)
        )
        self.lifecycle = BrokerLifecycle(identity, Intervals())
        self.lifecycle.broker_epoch = 7 if is_registered else -1
        self.assignments = DirectoryAssignments(self.env, self, self.lifecycle, self.state, OWN)
        placed = [self.registration(directory)] * partitions
        for record in self.state.create_topic("t", TOPIC_ID, partitions, {}, placed).records:
            self.state.replay(record)

    @staticmethod
    def registration(directory: bytes, replicas: tuple[int, ...] = (OTHER, BROKER)) -> PartitionRegistration:
        directories = tuple(directory if replica == BROKER else OTHERS for replica in replicas)
        return PartitionRegistration(
            replicas=replicas, isr=replicas, leader=OTHER, leader_epoch=0, partition_epoch=0, directories=directories
        )

    def send(self, message: Any, then: Then) -> None:
        """Store a request until the test calls `answer`."""
        self.requests.append((message, then))

    def check(self, *indexes: int, is_offline: bool = False) -> None:
        """Notify the broker's directory assignments that the metadata of these partitions was applied."""
        for index in indexes:
            log = SimpleNamespace(topic_id=TOPIC_ID, partition=index, is_offline=is_offline)
            self.assignments.check(cast(Any, SimpleNamespace(log=log)), self.state.topics["t"].partitions[index])

    def change(self, index: int, registration: PartitionRegistration) -> None:
        self.state.topics["t"].partitions[index] = registration

    def answer(self, *codes: Code, error: Code = Code.NONE) -> None:
        """Answer the oldest request with one error code per partition; partitions without a given code get NONE."""
        request, then = self.requests.pop(0)
        indexes = self.named(request)
        padded = [*codes, *[Code.NONE] * (len(indexes) - len(codes))]
        answers = [ResponsePartitionData(partition_index=i, error_code=code) for i, code in zip(indexes, padded, strict=True)]
        topics = [ResponseTopicData(topic_id=TOPIC_ID, partitions=answers)]
        directories = [] if error else [ResponseDirectoryData(id=OWN, topics=topics)]
        then(AssignReplicasToDirsResponse(error_code=error, directories=directories))

    @staticmethod
    def named(request: AssignReplicasToDirsRequest) -> list[int]:
        assert request.broker_id == BROKER and [d.id for d in request.directories] == [OWN]
        (topic,) = request.directories[0].topics
        assert topic.topic_id == TOPIC_ID
        return [partition.partition_index for partition in topic.partitions]

    def asked(self) -> list[list[int]]:
        """Let callbacks run. Returns the partitions of each unanswered request."""
        self.env.advance(1)
        return [self.named(request) for request, _ in self.requests]


@pytest.mark.parametrize("directory", [OLD, MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY])
def test_replicas_found_in_another_directory_are_reported_in_one_request(directory: bytes) -> None:
    world = World(3, directory=directory)
    world.check(0, 1, 2)
    assert world.asked() == [[0, 1, 2]]
    assert world.requests[0][0].broker_epoch == 7
    world.answer()
    world.env.advance(60_000)
    assert world.asked() == []


def test_replica_in_its_recorded_directory_is_not_reported_to_the_controller() -> None:
    world = World(directory=OWN)
    world.check(0)
    assert world.asked() == []


def test_offline_replica_is_not_reported_in_assign_replicas_to_dirs() -> None:
    """If an offline replica were assigned, the controller could elect it."""
    world = World()
    world.check(0, is_offline=True)
    assert world.asked() == []


def test_replica_directories_are_not_reported_below_the_required_metadata_version() -> None:
    world = World()
    world.state.features["metadata.version"] = DIRECTORY_ASSIGNMENT - 1
    world.check(0)
    assert world.asked() == []
    world.state.features["metadata.version"] = DIRECTORY_ASSIGNMENT
    world.check(0)
    assert world.asked() == [[0]]


def test_directory_assignment_request_waits_for_the_broker_registration() -> None:
    world = World(is_registered=False)
    world.check(0)
    world.env.advance(1_000)
    assert world.asked() == []
    world.lifecycle.broker_epoch = 9
    world.env.advance(2_000)
    assert world.asked() == [[0]]
    assert world.requests[0][0].broker_epoch == 9


@pytest.mark.parametrize("failure", [LOST, Code.STALE_BROKER_EPOCH, Code.NOT_CONTROLLER])
def test_directory_assignment_request_is_retried_until_it_is_acknowledged(failure: PeerFailure | Code) -> None:
    world = World(2)
    world.check(0, 1)
    waits: list[float] = []
    for _ in range(10):
        began_ms = world.env.monotonic_ms()
        while not world.asked():
            world.env.advance(10)
            assert world.env.monotonic_ms() - began_ms < 60_000
        waits.append(world.env.monotonic_ms() - began_ms)
        if isinstance(failure, PeerFailure):
            world.requests.pop(0)[1](failure)
        else:
            world.answer(error=failure)
    assert waits[0] == 1 and 80 <= waits[1] <= 130, "the first backoff is 100 ms"
    assert 6_000 <= waits[-1] <= 10_001, "the maximum backoff is 10 s"
    world.lifecycle.broker_epoch = 8
    world.env.advance(12_000)
    assert world.asked() == [[0, 1]] and world.requests[0][0].broker_epoch == 8
    world.answer()
    world.env.advance(60_000)
    assert world.asked() == []


def test_only_failed_partitions_of_a_directory_assignment_are_retried() -> None:
    world = World(3)
    world.check(0, 1, 2)
    assert world.asked() == [[0, 1, 2]]
    world.answer(Code.NONE, Code.UNKNOWN_TOPIC_OR_PARTITION)
    world.env.advance(500)
    assert world.asked() == [[1]]


def test_directory_assignment_of_a_removed_replica_is_not_retried() -> None:
    world = World(3)
    world.check(0, 1, 2)
    assert world.asked() == [[0, 1, 2]]
    world.answer(error=Code.STALE_BROKER_EPOCH)
    world.change(0, world.registration(OLD, replicas=(OTHER, 3)))
    world.change(1, world.registration(OWN))
    world.env.advance(500)
    assert world.asked() == [[2]]
    world.requests.pop(0)[1](LOST)
    world.state.topics_by_id.clear()
    world.env.advance(60_000)
    assert world.asked() == []


def test_replicas_added_during_an_assignment_request_are_in_the_next_request() -> None:
    world = World(2)
    world.check(0)
    assert world.asked() == [[0]]
    world.check(0, 1)
    assert world.asked() == [[0]], "only one request is in flight"
    world.answer()
    assert world.asked() == [[1]], "replicas in flight are not repeated in the next request"


def test_directory_assignments_of_many_replicas_need_several_requests() -> None:
    world = World(MAX_ASSIGNMENTS + 5)
    world.check(*range(MAX_ASSIGNMENTS + 5))
    assert [len(indexes) for indexes in world.asked()] == [MAX_ASSIGNMENTS]
    world.answer()
    assert world.asked() == [list(range(MAX_ASSIGNMENTS, MAX_ASSIGNMENTS + 5))]


def test_broker_sends_no_assign_replicas_to_dirs_request_after_its_stop() -> None:
    world = World(2)
    world.check(0)
    assert world.asked() == [[0]]
    world.check(1)
    world.assignments.close()
    world.answer(error=Code.STALE_BROKER_EPOCH)
    world.check(1)
    world.env.advance(60_000)
    assert world.asked() == []
