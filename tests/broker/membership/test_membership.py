"""A broker's registration, heartbeats and metadata fetches in a simulated world: which request it sends, and when."""

from __future__ import annotations

import asyncio
import sys
from itertools import pairwise
from typing import Any

import pytest
from structlog.testing import capture_logs

from ottla.broker.membership.lifecycle import BrokerIdentity, BrokerLifecycle, Intervals
from ottla.broker.membership.membership import Membership
from ottla.broker.membership.metadata_fetch import METADATA_TOPIC_ID, MetadataFetch
from ottla.broker.membership.metadata_replica import MetadataReplica
from ottla.broker.membership.producer_ids import ControllerProducerIds
from ottla.broker.membership.states import BrokerState
from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import Peer
from ottla.protocol.codec import API_VERSIONS_KEY
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import APIS
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from ottla.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    ResponsePartitionSnapshot,
    ResponseTopicSnapshot,
)
from ottla.protocol.messages.fetch_snapshot import SnapshotId as SnapshotOf
from ottla.protocol.records import assign, build_batch
from ottla.simulation.env import SimulatedEnv
from tests.support.accepted import AcceptedConnection
from tests.support.world import LoopWorld

HOST, PORT = "controller", 9093
EPOCH, LEADER_EPOCH = 41, 4


def batch(base_offset: int, *values: bytes) -> bytes:
    made = build_batch(((None, value) for value in values), 1_000)
    assign(made, base_offset, LEADER_EPOCH)
    return bytes(made)


class Connected(AcceptedConnection):
    """The controller's end of one connection from a broker."""

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._controller.connections.append(self.transport)

    def received(self, key: int, version: int, correlation_id: int, request: Any) -> None:
        answer = self._controller.handle(request)
        if answer is not None:
            self.respond(key, version, correlation_id, answer)


class Controller:
    """A controller whose responses and log the test sets."""

    def __init__(self, env: SimulatedEnv) -> None:
        self._env = env
        self.registrations: list[BrokerRegistrationRequest] = []
        self.beats: list[tuple[float, BrokerHeartbeatRequest]] = []
        self.fetches: list[tuple[int, int]] = []
        self.records = batch(0, b"a", b"b")
        self.high_watermark = 2
        self.snapshot: SnapshotId | None = None
        self.diverging: EpochEndOffset | None = None
        self.snapshot_bytes, self.piece_bytes, self.harm = b"", 1 << 20, ""
        self.refuses = Code.NONE
        self.fetch_refused = Code.NONE
        self.lets_go = False
        self.allocations: list[tuple[int, int]] = []
        self.connections: list[asyncio.Transport] = []
        self.block = AllocateProducerIdsResponse(producer_id_start=5_000, producer_id_len=1_000)
        self._listening = env.network.listen(HOST, PORT, lambda: Connected(self))

    def close(self) -> None:
        self._listening.close()
        for transport in self.connections:
            transport.close()

    def handle(self, request: Any) -> Any:
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            return BrokerRegistrationResponse(error_code=self.refuses, broker_epoch=EPOCH)
        if isinstance(request, BrokerHeartbeatRequest):
            self.beats.append((self._env.monotonic_ms(), request))
            return BrokerHeartbeatResponse(
                is_caught_up=request.current_metadata_offset >= self.high_watermark - 1,
                is_fenced=request.want_fence,
                should_shut_down=request.want_shut_down and self.lets_go,
            )
        if isinstance(request, FetchRequest):
            return self._fetch(request)
        if isinstance(request, FetchSnapshotRequest):
            return self._fetch_snapshot(request)
        if isinstance(request, AllocateProducerIdsRequest):
            self.allocations.append((request.broker_id, request.broker_epoch))
            return self.block
        keys = [ApiVersion(api_key=key, min_version=APIS[key].min_version, max_version=APIS[key].max_version) for key in KEYS]
        return ApiVersionsResponse(api_keys=keys)

    def _fetch(self, request: FetchRequest) -> FetchResponse | None:
        asked = request.topics[0].partitions[0]
        self.fetches.append((asked.current_leader_epoch, asked.fetch_offset))
        if self.fetch_refused:
            return FetchResponse(error_code=self.fetch_refused)
        if asked.current_leader_epoch != LEADER_EPOCH:
            leader = LeaderIdAndEpoch(leader_id=100, leader_epoch=LEADER_EPOCH)
            partition = PartitionData(error_code=Code.FENCED_LEADER_EPOCH, current_leader=leader)
        elif self.snapshot is not None and asked.fetch_offset < self.snapshot.end_offset:
            partition = PartitionData(high_watermark=self.high_watermark, snapshot_id=self.snapshot)
        elif self.diverging is not None:
            partition = PartitionData(high_watermark=self.high_watermark, diverging_epoch=self.diverging)
        elif asked.fetch_offset == 0:
            partition = PartitionData(high_watermark=self.high_watermark, records=self.records)
        else:
            # There are no new records, so the controller does not answer yet.
            return None
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[partition])])

    def _fetch_snapshot(self, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        (asked,) = request.topics[0].partitions
        assert (request.cluster_id, request.replica_id, asked.current_leader_epoch) == ("abc", 2, LEADER_EPOCH)
        at = 0 if self.harm == "elsewhere" else asked.position
        partition = ResponsePartitionSnapshot(
            error_code=Code.SNAPSHOT_NOT_FOUND if self.harm == "refused" else Code.NONE,
            snapshot_id=SnapshotOf(end_offset=7, epoch=2) if self.harm == "another" else asked.snapshot_id,
            size=1 << 40 if self.harm == "large" else len(self.snapshot_bytes),
            position=at,
            unaligned_records=self.snapshot_bytes[at : at + self.piece_bytes],
        )
        return FetchSnapshotResponse(topics=[ResponseTopicSnapshot(name="__cluster_metadata", partitions=[partition])])


KEYS = (1, 59, API_VERSIONS_KEY, 62, 63, 67)


class MembershipWorld(LoopWorld):
    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(self.env)
        self.applied: list[bytes | None] = []
        self.changes: list[tuple[BrokerState, bool]] = []
        self.refused: bytes | None = None
        self.messages: list[str] = []
        self.lost: list[str] = []
        identity = BrokerIdentity(
            broker_id=2,
            cluster_id="abc",
            incarnation_id=b"i" * 16,
            listeners=(("PLAINTEXT", "localhost", 9092, 0),),
            features=(),
            rack=None,
            log_directories=(b"d" * 16,),
        )
        self.membership = Membership(
            self.env,
            lifecycle=BrokerLifecycle(identity, Intervals()),
            fetch=MetadataFetch("abc", 2, b"d" * 16),
            replica=MetadataReplica(lambda record, offset: self._apply(record.value), lambda: None),
            heartbeats=self.peer(),
            fetches=self.peer(),
            owner=self,
        )

    def peer(self) -> Peer:
        return Peer(self.env, (HOST, PORT), client_id="2", bug=self._bug, buffers=ReceiveBuffers())

    def _bug(self) -> None:
        if self.refused is None:
            pytest.fail("an unexpected error was reported")
        self.messages.append(str(sys.exception()))

    def _apply(self, value: bytes | None) -> None:
        if value is not None and value == self.refused:
            raise LookupError(f"no use for {value!r}")
        self.applied.append(value)

    def metadata_lost(self, reason: str) -> None:
        self.lost.append(reason)

    def controller_replaced(self, reason: str) -> None:
        """Do nothing."""

    def state_changed(self) -> None:
        lifecycle = self.membership.lifecycle
        self.changes.append((lifecycle.state, lifecycle.is_fenced))

    def start(self) -> MembershipWorld:
        self.membership.start()
        self.env.settle()
        return self

    def run(self) -> MembershipWorld:
        """Run until the broker is unfenced and serves."""
        self.start().membership.become_ready()
        self.advance(5_000)
        assert self.membership.is_serving
        return self

    @property
    def last_beat(self) -> BrokerHeartbeatRequest:
        return self.controller.beats[-1][1]


def test_broker_registers_reads_the_metadata_and_is_unfenced_when_ready() -> None:
    world = MembershipWorld().start()
    assert len(world.controller.registrations) == 1
    assert world.applied == [b"a", b"b"]
    assert world.controller.fetches[:2] == [(0, 0), (LEADER_EPOCH, 0)]
    world.advance(3_000)
    assert (world.last_beat.broker_epoch, world.last_beat.current_metadata_offset, world.last_beat.want_fence) == (EPOCH, 1, True)
    assert world.membership.lifecycle.state is BrokerState.RECOVERY
    assert not world.membership.is_serving
    world.membership.become_ready()
    world.env.settle()
    assert world.membership.is_serving
    assert world.changes[-1] == (BrokerState.RUNNING, False)


def test_broker_heartbeats_keep_their_interval_during_a_parked_metadata_fetch() -> None:
    world = MembershipWorld().run()
    before = len(world.controller.beats)
    world.advance(20_000)
    times = [at_ms for at_ms, _ in world.controller.beats[before:]]
    assert {round(later - earlier) for earlier, later in pairwise(times)} == {2_000}


def test_uncommitted_metadata_is_not_applied() -> None:
    world = MembershipWorld()
    world.controller.high_watermark = 0
    world.start()
    assert world.applied == []
    assert world.membership.replica.end_offset == 2


def test_broker_connects_to_a_controller_that_starts_later() -> None:
    world = MembershipWorld()
    world.controller.close()
    world.start()
    world.advance(3_000)
    assert world.controller.registrations == []
    world.controller = Controller(world.env)
    world.advance(10_000)
    assert len(world.controller.registrations) == 1
    assert world.applied == [b"a", b"b"]


def test_refused_broker_registration_is_retried() -> None:
    world = MembershipWorld()
    world.controller.refuses = Code.DUPLICATE_BROKER_REGISTRATION
    world.start()
    world.advance(1_000)
    assert len(world.controller.registrations) > 2
    assert world.controller.beats == []
    world.controller.refuses = Code.NONE
    world.advance(9_000)
    assert world.controller.beats


def test_broker_with_leadership_stops_when_the_controller_allows_it() -> None:
    world = MembershipWorld().run()
    world.membership.begin_controlled_shutdown()
    world.advance(4_500)
    assert world.last_beat.want_shut_down
    assert not world.membership.lifecycle.may_stop
    world.controller.lets_go = True
    world.advance(2_000)
    assert world.membership.lifecycle.may_stop
    assert world.changes[-1][0] is BrokerState.SHUTTING_DOWN
    beats = len(world.controller.beats)
    world.advance(10_000)
    assert len(world.controller.beats) == beats


def test_failed_broker_heartbeat_does_not_end_a_controlled_shutdown() -> None:
    """The controller restarts during the shutdown, and the new controller still moves the leaderships."""
    world = MembershipWorld().run()
    world.controller.close()
    world.membership.begin_controlled_shutdown()
    world.advance(1_000)
    assert not world.membership.lifecycle.may_stop
    world.controller = Controller(world.env)
    world.controller.lets_go = True
    world.advance(5_000)
    assert world.last_beat.want_shut_down
    assert world.membership.lifecycle.may_stop


def test_broker_shutdown_does_not_wait_for_an_unreachable_controller() -> None:
    world = MembershipWorld().run()
    world.controller.close()
    world.membership.begin_controlled_shutdown()
    world.advance(5_000)
    assert world.membership.lifecycle.may_stop
    assert world.changes[-1][0] is BrokerState.SHUTTING_DOWN


def test_metadata_lost_by_the_controller_is_reported_once() -> None:
    """Committed and applied records cannot be rolled back, so the broker gives up."""
    world = MembershipWorld().run()
    world.controller.diverging = EpochEndOffset(epoch=LEADER_EPOCH, end_offset=1)
    world.controller.records, world.controller.high_watermark = b"", 1
    world.advance(5_000)
    (reason,) = world.lost
    assert "1" in reason and "2" in reason
    fetches = len(world.controller.fetches)
    world.advance(5_000)
    assert len(world.controller.fetches) == fetches


def test_broker_that_was_never_unfenced_stops_without_a_controlled_shutdown() -> None:
    world = MembershipWorld().start()
    world.membership.begin_controlled_shutdown()
    assert world.changes[-1][0] is BrokerState.SHUTTING_DOWN


def test_stopped_broker_sends_no_requests_to_the_controller() -> None:
    world = MembershipWorld().run()
    world.membership.stop()
    beats, fetches = len(world.controller.beats), len(world.controller.fetches)
    world.advance(30_000)
    assert (len(world.controller.beats), len(world.controller.fetches)) == (beats, fetches)


def test_non_contiguous_metadata_batches_are_fetched_again_after_a_delay() -> None:
    world = MembershipWorld()
    world.controller.records = batch(7, b"x")
    world.start()
    assert world.applied == []
    world.controller.records = batch(0, b"x", b"y")
    world.advance(200)
    assert world.applied == [b"x", b"y"]


def test_record_that_cannot_be_applied_does_not_stop_the_metadata_fetch() -> None:
    """If the fetch stopped, heartbeats would keep the broker in the cluster, but it would not learn of new leaders."""
    world = MembershipWorld()
    world.refused = b"b"
    world.start()
    world.advance(1_000)
    assert world.messages == ["no use for b'b'"]
    assert world.controller.fetches[-1][1] == 2


def with_snapshot(size_bytes: int = 60) -> MembershipWorld:
    """A world whose controller has a snapshot of two batches, sent in chunks of ``size_bytes``, and a log from offset 900 on."""
    world = MembershipWorld()
    controller = world.controller
    controller.snapshot = SnapshotId(end_offset=900, epoch=2)
    controller.snapshot_bytes = batch(0, b"x", b"y") + batch(2, b"z")
    controller.piece_bytes = size_bytes
    return world


@pytest.mark.parametrize("size_bytes", [1, 60, 10_000])
def test_metadata_log_is_read_from_the_end_of_its_snapshot(size_bytes: int) -> None:
    world = with_snapshot(size_bytes).start()
    world.advance(1_000)
    assert world.applied == [b"x", b"y", b"z"]
    replica = world.membership.replica
    assert (replica.end_offset, replica.applied_offset, replica.last_epoch) == (900, 899, 2)
    assert world.controller.fetches[-1][1] == 900
    assert world.membership.lifecycle.state is BrokerState.RECOVERY


@pytest.mark.parametrize("harm", ["cut", "damaged", "another", "refused", "elsewhere", "large"])
def test_failed_fetch_of_a_metadata_snapshot_changes_nothing_and_is_retried(harm: str) -> None:
    world = with_snapshot()
    whole = world.controller.snapshot_bytes
    world.controller.harm = harm
    if harm == "cut":
        world.controller.snapshot_bytes = whole[:-1]
    elif harm == "damaged":
        world.controller.snapshot_bytes = whole[:-1] + bytes([whole[-1] ^ 1])
    world.start()
    world.advance(1_000)
    assert (world.applied, world.membership.replica.end_offset) == ([], 0)
    assert world.membership.lifecycle.state is BrokerState.STARTING
    world.controller.harm, world.controller.snapshot_bytes = "", whole
    world.advance(1_000)
    assert world.applied == [b"x", b"y", b"z"]


def test_running_broker_behind_a_metadata_snapshot_does_not_load_it() -> None:
    world = MembershipWorld().run()
    before = list(world.applied)
    world.controller.snapshot = SnapshotId(end_offset=900, epoch=4)
    world.advance(10_000)
    assert world.applied == before
    assert world.membership.replica.end_offset == 2


def test_broker_takes_producer_ids_from_the_block_of_the_controller() -> None:
    world = MembershipWorld().run()
    ids = ProducerIds(ControllerProducerIds(world.membership.lifecycle, world.peer()))
    with pytest.raises(KafkaError) as waiting:
        ids.new()
    assert waiting.value.code == Code.COORDINATOR_LOAD_IN_PROGRESS
    world.env.settle()
    assert [ids.new(), ids.new()] == [5_000, 5_001]
    assert world.controller.allocations == [(2, EPOCH)]


@pytest.mark.parametrize(
    "block",
    [
        AllocateProducerIdsResponse(error_code=Code.STALE_BROKER_EPOCH),
        AllocateProducerIdsResponse(producer_id_start=-1, producer_id_len=1_000),
        AllocateProducerIdsResponse(producer_id_start=7, producer_id_len=0),
    ],
)
def test_invalid_producer_id_block_is_requested_again(block: AllocateProducerIdsResponse) -> None:
    world = MembershipWorld().run()
    world.controller.block = block
    ids = ProducerIds(ControllerProducerIds(world.membership.lifecycle, world.peer()))
    for _ in range(2):
        with pytest.raises(KafkaError) as refused:
            ids.new()
        assert refused.value.code == Code.COORDINATOR_LOAD_IN_PROGRESS
        world.env.settle()
    assert len(world.controller.allocations) == 2
    world.controller.block = AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1)
    with pytest.raises(KafkaError):
        ids.new()
    world.env.settle()
    assert ids.new() == 0


def test_producer_id_allocation_fails_without_a_controller() -> None:
    world = MembershipWorld().run()
    world.controller.close()
    ids = ProducerIds(ControllerProducerIds(world.membership.lifecycle, world.peer()))
    with pytest.raises(KafkaError):
        ids.new()
    world.env.settle()
    with pytest.raises(KafkaError, match="no listener"):
        ids.new()


def test_broker_with_another_cluster_id_fails_to_start() -> None:
    world = MembershipWorld()
    world.controller.refuses = Code.INCONSISTENT_CLUSTER_ID
    world.start()
    world.advance(60_000)
    assert world.membership.is_of_another_cluster
    assert world.changes[-1][0] is BrokerState.SHUTTING_DOWN
    assert len(world.controller.registrations) == 1


def test_running_broker_logs_a_cluster_id_mismatch_once() -> None:
    """The controller's disk was lost, and a new controller with a new cluster runs at the same address."""
    world = MembershipWorld().run()
    world.controller.fetch_refused = Code.INCONSISTENT_CLUSTER_ID
    for transport in world.controller.connections:
        transport.close()
    with capture_logs() as lines:
        world.advance(9_000)
    assert [line["event"] for line in lines].count("metadata_not_read") == 1
    with capture_logs() as lines:
        world.advance(591_000)
    times = [line["times"] for line in lines if line["event"] == "metadata_not_read"]
    assert len(times) == 5
    assert times[0] >= 50
    assert world.membership.is_serving
