"""The leader of a coordinator's partition changes: which state is loaded or dropped, and which responses clients get meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.loop.stepping import Stepping
from ottla.broker.metadata.local_partitions import SoleReplicas
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.disk_health import DiskHealth
from ottla.broker.partitions.partitions import Partition
from ottla.broker.partitions.runtime import Replaying, Runtime
from ottla.coordinator.metadata.metadata_records import metadata_record
from ottla.coordinator.metadata.partition_registration import PartitionRegistration
from ottla.coordinator.result import LogRecord, Result
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.internal_topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages import partition_change_record
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.partition_change_record import PartitionChangeRecord
from ottla.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import newest
from ottla.simulation.env import START_MS
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.simulation.memory_filesystem import MemoryFilesystem
from ottla.storage.config import LogConfig
from ottla.storage.log import Log
from tests.broker.metadata.test_several_brokers import OTHER, OWN, registration
from tests.broker.partition_world import make_leader
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.world import simulated_env

SETTINGS = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


class HeldStepping:
    """Replaces the broker's scheduler for one coordinator: nothing is loaded until the test calls `let_go`."""

    def __init__(self, stepping: Stepping) -> None:
        self._stepping = stepping
        self._held: list[tuple[Any, ...]] = []

    def run(self, *work: Any) -> None:
        self._held.append(work)

    def let_go(self) -> None:
        held, self._held = self._held, []
        for work in held:
            self._stepping.run(*work)


class Replicas(SoleReplicas):
    """Makes this broker the leader, alone or with a follower that has not fetched yet."""

    has_follower = False
    now_ms = 0

    def lead(self, partition: Partition, registration: PartitionRegistration) -> None:
        replicas = (OWN, OTHER) if self.has_follower else (OWN,)
        made = make_leader(
            leader_epoch=registration.leader_epoch,
            start_offset=partition.log.log_end_offset,
            replicas=replicas,
            in_sync=replicas,
            max_lag_ms=1_000_000,
            now_ms=self.now_ms,
        )
        partition.lead(made)


class Node:
    """One broker of a cluster of two. The test changes its metadata."""

    def __init__(self, broker: SimulatedBroker) -> None:
        self.broker = broker
        self.server = broker.broker
        self.replicas = Replicas(OWN)
        self.server.metadata.local_partitions._replicas = self.replicas
        self.change([registration(OWN), registration(OTHER)])
        for topic in (TRANSACTION_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC):
            self.elect(topic, OWN)

    def change(self, records: list[LogRecord]) -> None:
        self.server.cluster.metadata_log.execute(Result(None, records))
        self.server.metadata.publisher.publish()

    def coordinator(self, topic: str) -> Any:
        server = self.server
        return {
            TRANSACTION_TOPIC: server.transactions,
            OFFSETS_TOPIC: server.groups,
            SHARE_STATE_TOPIC: server.share_states,
        }[topic]

    def hold_loads(self, topic: str) -> HeldStepping:
        held = HeldStepping(self.server.stepping)
        self.coordinator(topic)._shards._stepping = held
        return held

    def elect(self, topic: str, leader: int) -> int:
        topic_id = self.server.cluster.state.topics[topic].topic_id
        change = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=leader, replicas=[OWN, OTHER], isr=[OWN, OTHER])
        self.change([metadata_record(partition_change_record, change)])
        return self.server.cluster.state.topics[topic].partitions[0].leader_epoch

    def lose(self, topic: str) -> None:
        """Elect the other broker as leader of the topic's only partition."""
        self.elect(topic, OTHER)

    def win(self, topic: str, *, has_follower: bool = False) -> int:
        """Elect this broker, and return the leader epoch. With ``has_follower`` there is a follower that has not fetched yet."""
        self.replicas.has_follower, self.replicas.now_ms = has_follower, self.broker.env.steady_ms()
        return self.elect(topic, OWN)

    def call(self, request: Any, version: int | None = None) -> Any:
        with self.broker.connect() as client:
            return client.call(request, version)


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def node(disk: FaultyFilesystem) -> Iterator[Node]:
    broker = SimulatedBroker(SETTINGS, fs=disk).start().with_coordinators()
    broker.broker.cluster.ensure_internal(SHARE_STATE_TOPIC)
    yield Node(broker)
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def world(node: Node) -> Iterator[World]:
    made = World(node.broker, "ottla", "")
    yield made
    made.close()


def init(node: Node, transactional_id: str = "x") -> Code:
    return Code(node.call(InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)).error_code)


def heartbeat(node: Node) -> Code:
    return Code(node.call(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 4).error_code)


def joining(metadata: bytes = b"a", member_id: str = "") -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def marker(producer_id: int, epoch: int, topic: str, coordinator_epoch: int) -> WriteTxnMarkersRequest:
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    return WriteTxnMarkersRequest(
        [
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=True,
                topics=topics,
                coordinator_epoch=coordinator_epoch,
            )
        ]
    )


def marker_code(node: Node, request: WriteTxnMarkersRequest) -> Code:
    return Code(node.call(request, 1).markers[0].topics[0].partitions[0].error_code)


def test_transactional_ids_are_served_only_after_their_coordinator_has_loaded(node: Node, world: World) -> None:
    for command in ("topic t", "A = init x", "produce A t", "B = init y"):
        perform(world, command)
    node.lose(TRANSACTION_TOPIC)
    assert init(node) is Code.NOT_COORDINATOR
    assert node.call(ListTransactionsRequest()).transaction_states == []
    held = node.hold_loads(TRANSACTION_TOPIC)
    epoch = node.win(TRANSACTION_TOPIC)
    assert init(node) is Code.COORDINATOR_LOAD_IN_PROGRESS
    assert perform(world, "describe x once") == "COORDINATOR_LOAD_IN_PROGRESS"
    assert node.call(ListTransactionsRequest()).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    held.let_go()
    assert perform(world, "describe x").startswith("Ongoing")
    listed = node.call(ListTransactionsRequest()).transaction_states
    assert sorted(t.transactional_id for t in listed) == ["x", "y"]
    assert node.server.transactions.shard_of("x").coordinator_epoch == epoch
    assert perform(world, "commit A").startswith("NONE")


def test_coordinator_load_is_cancelled_when_the_broker_loses_the_partition(node: Node, world: World) -> None:
    perform(world, "A = init x")
    node.lose(TRANSACTION_TOPIC)
    held = node.hold_loads(TRANSACTION_TOPIC)
    node.win(TRANSACTION_TOPIC)
    node.lose(TRANSACTION_TOPIC)
    epoch = node.win(TRANSACTION_TOPIC)
    held.let_go()
    node.broker.env.settle()
    (shard,) = node.server.transactions.shards()
    assert (shard.coordinator_epoch, list(shard.ids)) == (epoch, ["x"])
    node.lose(TRANSACTION_TOPIC)
    assert init(node) is Code.NOT_COORDINATOR
    assert node.server.transactions.shards() == []


def test_members_stay_in_their_group_while_the_coordinator_loads(node: Node, world: World) -> None:
    perform(world, "topic t")
    assert perform(world, "commit_offsets g t=5").startswith("NONE")
    node.lose(OFFSETS_TOPIC)
    assert heartbeat(node) is Code.NOT_COORDINATOR
    assert node.call(ListGroupsRequest()).groups == []
    held = node.hold_loads(OFFSETS_TOPIC)
    node.win(OFFSETS_TOPIC)
    assert heartbeat(node) is Code.NONE, "a member keeps its group while the group is loaded"
    assert node.call(ListGroupsRequest()).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    assert node.call(joining()).error_code == Code.COORDINATOR_LOAD_IN_PROGRESS
    held.let_go()
    assert perform(world, "committed g t") == "5"


@pytest.mark.parametrize("is_loading", [True, False])
def test_transaction_marker_is_retried_until_the_group_coordinator_has_loaded(node: Node, world: World, is_loading: bool) -> None:
    perform(world, "topic t")
    assert perform(world, "commit_offsets g t=5").startswith("NONE")
    node.lose(OFFSETS_TOPIC)
    held = node.hold_loads(OFFSETS_TOPIC)
    if is_loading:
        node.win(OFFSETS_TOPIC)
    assert marker_code(node, marker(7, 0, OFFSETS_TOPIC, 0)) is Code.NOT_LEADER_OR_FOLLOWER
    held.let_go()


def test_parked_group_requests_are_answered_when_another_broker_becomes_coordinator(node: Node) -> None:
    first, second = node.broker.connect("one"), node.broker.connect("two")
    assert first.call(joining(), 3).error_code == Code.NONE
    sent = second.send(joining(b"b"), 3)
    node.lose(OFFSETS_TOPIC)
    assert second.receive(sent).error_code == Code.NOT_COORDINATOR
    for client in (first, second):
        client.close()


def test_reelection_of_the_same_broker_keeps_its_groups(node: Node) -> None:
    """A new leader epoch with the same leader loses no state, so waiting members continue to wait (CoordinatorRuntime)."""
    first = node.broker.connect("one")
    assert first.call(joining(), 3).error_code == Code.NONE
    shard = node.server.groups.shards()[0]
    node.server.groups.elected(0, 9)
    assert node.server.groups.shards() == [shard]
    assert "g" in shard.groups
    first.close()


def test_share_state_moves_with_its_coordinator(node: Node) -> None:
    topic = node.server.cluster.create_topic("s", 1, {})
    key = ShareKey("g", topic.topic_id, 0)
    node.server.share_states.initialize(key, 0, 7)
    node.lose(SHARE_STATE_TOPIC)
    with pytest.raises(KafkaError) as refused:
        node.server.share_states.read_summary(key)
    assert refused.value.code is Code.NOT_COORDINATOR
    node.win(SHARE_STATE_TOPIC)
    with pytest.raises(KafkaError) as refused:
        node.server.share_states.read_summary(key)
    assert refused.value.code is Code.COORDINATOR_LOAD_IN_PROGRESS
    node.broker.env.settle()
    assert node.server.share_states.read_summary(key).start_offset == 7


def committed_without_markers(disk: FaultyFilesystem, world: World) -> None:
    """Commit a transaction of id `x` on topic `t` whose marker the disk refuses."""
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    world.held.add("t")
    disk.refuses = lambda number, kind, path: "/data/t-0" in path
    assert perform(world, "commit A").startswith("NONE")


def test_newly_elected_coordinator_completes_decisions_in_its_epoch(node: Node, disk: FaultyFilesystem, world: World) -> None:
    """Rule CRD-14: the new coordinator sends the markers, and markers of the old coordinator are refused."""
    committed_without_markers(disk, world)
    log = node.server.partitions.get("t", 0).log
    (metadata,) = node.server.transactions.shards()[0].prepared()
    node.lose(TRANSACTION_TOPIC)
    disk.refuse_nothing()
    node.broker.sleep(5_000)
    assert log.last_stable_offset < log.log_end_offset, "a former coordinator sends no markers"
    epoch = node.win(TRANSACTION_TOPIC)
    node.broker.sleep(1_000)
    assert log.last_stable_offset == log.log_end_offset
    assert log.producers.entries[metadata.producer_id].coordinator_epoch == epoch
    assert perform(world, "describe x").startswith("CompleteCommit")
    old = marker(metadata.producer_id, metadata.producer_epoch, "t", epoch - 1)
    assert marker_code(node, old) is Code.TRANSACTION_COORDINATOR_FENCED


def test_reelected_coordinator_resends_markers_in_the_new_epoch(node: Node, disk: FaultyFilesystem, world: World) -> None:
    committed_without_markers(disk, world)
    (before,) = node.server.transactions.shards()
    node.server.transactions.elected(0, before.coordinator_epoch)
    assert node.server.transactions.shards() == [before], "an election in the same epoch does not reload the shard"
    node.server.transactions.elected(0, before.coordinator_epoch + 3)
    disk.refuse_nothing()
    node.broker.sleep(1_000)
    (after,) = node.server.transactions.shards()
    assert after.coordinator_epoch == before.coordinator_epoch + 3
    assert perform(world, "describe x").startswith("CompleteCommit")


def test_new_coordinator_sends_markers_once_the_loaded_decision_is_below_the_high_watermark(
    node: Node, disk: FaultyFilesystem, world: World
) -> None:
    """A Prepare record above the high watermark may still be lost, and the transaction would then be open again."""
    committed_without_markers(disk, world)
    log, data_log = node.server.partitions.get(TRANSACTION_TOPIC, 0).log, node.server.partitions.get("t", 0).log
    node.lose(TRANSACTION_TOPIC)
    disk.refuse_nothing()
    log.high_watermark = 0
    node.win(TRANSACTION_TOPIC, has_follower=True)
    node.broker.sleep(1_000)
    assert data_log.last_stable_offset < data_log.log_end_offset
    node.server.partitions.get(TRANSACTION_TOPIC, 0).commit(log.log_end_offset)
    node.broker.sleep(1_000)
    assert data_log.last_stable_offset == data_log.log_end_offset


@pytest.mark.parametrize("asks", ["init", "describe", "group"])
@pytest.mark.parametrize("is_lost", [True, False])
def test_uncommitted_transaction_decisions_are_not_acknowledged(node: Node, world: World, asks: str, is_lost: bool) -> None:
    """Neither the client that ends the transaction nor a client that reads its state gets a response before the commit."""
    perform(world, "topic t")
    perform(world, "A = init x")
    assert perform(world, "commit_offsets g t=5").startswith("NONE")
    node.server.barrier.is_replicated = True
    topic = OFFSETS_TOPIC if asks == "group" else TRANSACTION_TOPIC
    log = node.server.partitions.get(topic, 0).log
    node.lose(topic)
    log.high_watermark = 0
    node.win(topic, has_follower=True)
    node.broker.env.settle()
    request = {
        "init": InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000),
        "describe": DescribeTransactionsRequest(transactional_ids=["x"]),
        "group": DescribeGroupsRequest(groups=["g"]),
    }[asks]
    client = node.broker.connect()
    sent = client.send(request, newest(request))
    node.broker.sleep(1_000)
    assert client._transport._written == []
    if is_lost:
        node.lose(topic)
    else:
        node.server.partitions.get(topic, 0).commit(log.log_end_offset)
    answer = client.receive(sent)
    if asks != "init":
        answer = answer.groups[0] if asks == "group" else answer.transaction_states[0]
    assert answer.error_code == (Code.NOT_COORDINATOR if is_lost else Code.NONE)
    client.close()


def test_coordinator_that_lost_its_partition_appends_no_records(node: Node, world: World) -> None:
    """The old shard lacks records written while another broker led, so its results are refused even after a re-election."""
    perform(world, "A = init x")
    shard, runtime = node.server.transactions._shard("x")
    node.lose(TRANSACTION_TOPIC)
    node.win(TRANSACTION_TOPIC)
    end_offset = runtime.partition.log.log_end_offset
    with pytest.raises(KafkaError) as refused:
        runtime.execute(Result(None, records=[LogRecord(b"k", b"v")]))
    assert refused.value.code is Code.NOT_COORDINATOR
    assert runtime.partition.log.log_end_offset == end_offset
    assert node.server.transactions.runtime_of(shard) is None


def long_log() -> Log:
    log = Log(MemoryFilesystem(), "/t-0", "t", 0, LogConfig(segment_bytes=20_000))
    for at in range(2_000):
        log.append_own(build_batch([(b"%d" % (at % 700), b"%d" % at)], START_MS), START_MS)
    assert len(log.segments) > 4
    return log


def loading(log: Log, known: dict[bytes | None, bytes | None]) -> Runtime:
    env = simulated_env()
    partition = Partition(env, log, Barrier(None), DiskHealth(env, "/"), 0)

    def replay(record: LogRecord, offset: int, producer_id: int) -> None:
        known[record.key] = record.value

    return Runtime(env, partition, replay, Stepping(env, pytest.fail))


def rolled(log: Log) -> None:
    log.append_own(build_batch([(b"x", bytes(19_000))], START_MS), START_MS)


def compacted(log: Log) -> None:
    log.segments[1:3] = [log.segments[2]]


@pytest.mark.parametrize("change", [None, rolled, compacted])
def test_long_coordinator_log_is_loaded_in_steps_and_again_when_files_change(change: Callable[[Log], None] | None) -> None:
    log, known, restarts = long_log(), dict[bytes | None, bytes | None](), list[int]()

    def start_over() -> None:
        restarts.append(len(known))
        known.clear()

    steps = loading(log, known).load_in_steps(Replaying(start_over=start_over))
    pauses = 0
    with pytest.raises(StopIteration) as ended:
        while True:
            steps.send(None)
            pauses += 1
            if pauses == 2 and change is not None:
                change(log)
    assert pauses > 5
    assert bool(restarts) == (change is compacted)
    assert known[b"0"] == b"1400"
    assert ended.value.value >= 1_500


def test_coordinator_load_fails_when_its_log_goes_offline() -> None:
    log = long_log()
    steps = loading(log, {}).load_in_steps(Replaying(start_over=lambda: None))
    steps.send(None)
    log.offline_reason = "damaged"
    with pytest.raises(KafkaError) as refused:
        steps.send(None)
    assert refused.value.code is Code.NOT_COORDINATOR


def test_coordinator_load_stops_reading_when_its_partition_is_lost() -> None:
    log, known = long_log(), dict[bytes | None, bytes | None]()
    runtime = loading(log, known)
    steps = runtime.load_in_steps(Replaying(start_over=known.clear))
    steps.send(None)
    runtime.close()
    with pytest.raises(KafkaError) as refused:
        steps.send(None)
    assert refused.value.code is Code.NOT_COORDINATOR
