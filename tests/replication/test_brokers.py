"""Replication between brokers over a network: responses to producers, in-sync replicas and failover."""

from __future__ import annotations

import pytest

from ottla.broker.partitions.partitions import NotLeader
from ottla.coordinator.controller import reassignment
from ottla.coordinator.replication.follower import FetchState
from ottla.coordinator.replication.read_replica import RACK_AWARE
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages.delete_records import DeleteRecordsPartitionResult
from ottla.protocol.messages.fetch import PartitionData
from ottla.protocol.messages.produce import ProduceResponse
from tests.replication.brokers import TOPIC, ReplicaBrokersWorld
from tests.support.logs import stored


class Producer:
    """A producer that records the error code of each response by the batch's value."""

    def __init__(self, world: ReplicaBrokersWorld) -> None:
        self.world = world
        self.codes: dict[bytes, Code] = {}

    def send(self, broker_id: int, value: bytes, acks: int = -1, timeout_ms: int = 3_000) -> None:
        def answered(response: ProduceResponse) -> None:
            self.codes[value] = Code(response.responses[0].partition_responses[0].error_code)

        with self.world.nodes[broker_id].at_work():
            self.world.server(broker_id).produce(value, answered, acks=acks, timeout_ms=timeout_ms)


@pytest.fixture
def world() -> ReplicaBrokersWorld:
    world = ReplicaBrokersWorld(1)
    world.settle()
    return world


def values(world: ReplicaBrokersWorld, broker_id: int, *, committed: bool = False) -> list[bytes]:
    log = world.partition(broker_id).log
    return [raw for header, raw in stored(log) if not committed or header.next_offset <= log.high_watermark]


def test_produce_with_acks_all_waits_for_all_in_sync_replicas(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"a")
    assert producer.codes == {}
    assert world.partition(1).log.log_end_offset == 1
    world.wait(500)
    assert producer.codes == {b"a": Code.NONE}
    assert [world.partition(b).log.log_end_offset for b in (1, 2, 3)] == [1, 1, 1]
    world.wait(500)
    assert [world.partition(b).log.high_watermark for b in (1, 2, 3)] == [1, 1, 1]


def test_produce_with_acks_1_waits_for_the_leader_only(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"a", acks=1)
    assert producer.codes == {b"a": Code.NONE}
    assert world.partition(1).log.high_watermark == 0


def test_follower_refuses_produce_requests(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(2, b"a")
    assert producer.codes == {b"a": Code.NOT_LEADER_OR_FOLLOWER}
    assert world.partition(2).log.log_end_offset == 0


def test_killed_leader_loses_only_unacknowledged_records(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"acknowledged")
    world.wait(500)
    world.links.cut("broker-1", "broker-2")
    world.links.cut("broker-1", "broker-3")
    producer.send(1, b"of the leader alone", acks=1)
    world.wait(50)
    world.kill(1)
    world.fence(1)
    world.tell_all()
    for other in ("broker-2", "broker-3"):
        world.links.heal("broker-1", other)
    assert world.registration().leader == 2
    producer.send(2, b"of the next leader")
    world.wait(1_000)
    assert producer.codes[b"of the next leader"] is Code.NONE
    world.start(world.nodes[1])
    world.settle()
    assert values(world, 1) == values(world, 2) == values(world, 3)
    assert [b"of the leader alone" in raw for raw in values(world, 2)] == [False, False]
    assert set(world.registration().isr) == {1, 2, 3}, "the restarted broker is in sync again"


def test_lagging_follower_leaves_the_in_sync_replicas_and_rejoins(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    world.links.cut("broker-3", "broker-1")
    producer.send(1, b"a", timeout_ms=100)
    world.wait(200)
    assert producer.codes == {b"a": Code.REQUEST_TIMED_OUT}
    world.settle(4_500)
    assert set(world.registration().isr) == {1, 2}
    producer.send(1, b"b")
    world.wait(500)
    assert producer.codes[b"b"] is Code.NONE
    world.links.heal("broker-3", "broker-1")
    world.settle(4_500)
    assert set(world.registration().isr) == {1, 2, 3}
    assert values(world, 3) == values(world, 1)
    counters = world.server(1).counters
    assert (counters.isr_shrinks, counters.isr_expands, counters.failed_isr_updates) == (1, 1, 0)


def test_alter_partition_is_retried_until_the_controller_answers(world: ReplicaBrokersWorld) -> None:
    world.links.cut("broker-3", "broker-1")
    Producer(world).send(1, b"a", acks=1)
    world.answers_controller = False
    world.settle(6_000)
    assert set(world.registration().isr) == {1, 2, 3}
    world.answers_controller = True
    world.settle(1_500)
    assert set(world.registration().isr) == {1, 2}


def test_acks_all_below_min_insync_replicas_is_refused_and_acks_1_records_stay_uncommitted() -> None:
    world = ReplicaBrokersWorld(2, min_in_sync=2)
    world.settle()
    producer = Producer(world)
    for broker_id in (2, 3):
        world.kill(broker_id)
        world.fence(broker_id)
    producer.send(1, b"before it knows", timeout_ms=500)
    world.tell_all()
    producer.send(1, b"refused")
    producer.send(1, b"taken", acks=1)
    world.wait(600)
    assert producer.codes == {
        b"before it knows": Code.REQUEST_TIMED_OUT,
        b"refused": Code.NOT_ENOUGH_REPLICAS,
        b"taken": Code.NONE,
    }
    assert world.partition(1).log.high_watermark == 0
    world.start(world.nodes[2])
    world.settle()
    assert world.partition(1).log.high_watermark == 2


def test_parked_acks_all_produce_gets_not_leader_or_follower_after_a_leader_change(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    for other in ("broker-2", "broker-3"):
        world.links.cut("broker-1", other)
    producer.send(1, b"a")
    world.move_leader(2)
    world.tell(1)
    assert producer.codes == {b"a": Code.NOT_LEADER_OR_FOLLOWER}


def test_follower_truncates_to_the_diverging_offset_and_not_to_its_high_watermark(world: ReplicaBrokersWorld) -> None:
    """Broker 3, which has only the first of two batches, is elected while broker 2 has both and a high watermark of 0 (KIP-101)."""
    producer = Producer(world)
    world.links.cut("broker-2", "broker-1")
    world.wait(300)
    producer.send(1, b"first")
    world.wait(100)
    world.links.cut("broker-1", "broker-3")
    producer.send(1, b"second")
    world.wait(50)
    world.links.heal("broker-2", "broker-1")
    while not producer.codes:
        world.wait(1)
    follower = world.partition(2).log
    assert producer.codes == {b"first": Code.NONE}
    assert (follower.high_watermark, follower.log_end_offset) == (0, 2)
    world.move_leader(3)
    world.tell_all()
    ends = set()
    for _ in range(500):
        world.wait(1)
        ends.add(follower.log_end_offset)
    assert ends == {2, 1}
    assert follower.truncations == 1


def test_follower_restarts_at_the_leaders_log_start(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    world.kill(3)
    world.fence(3)
    world.tell_all()
    for number in range(5):
        producer.send(1, b"%d" % number)
        world.wait(200)
    log = world.partition(1).log
    assert log.high_watermark == 5
    log.delete_records(4)
    world.start(world.nodes[3])
    world.settle()
    follower = world.partition(3).log
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (4, 5, 5)
    assert set(world.registration().isr) == {1, 2, 3}


def test_restarted_broker_uses_the_checkpointed_high_watermark(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"a")
    world.wait(1_500)
    world.links.cut("broker-1", "broker-2")
    producer.send(1, b"b", acks=1)
    world.kill(2)
    world.start(world.nodes[2])
    log = world.partition(2).log
    assert (log.high_watermark, log.log_end_offset) == (1, 1)
    world.kill(1)
    world.nodes[1].start()
    world.tell(1)
    log = world.partition(1).log
    assert (log.high_watermark, log.log_end_offset) == (1, 2), "the last record of the leader is not committed"


def test_leader_refuses_fetches_of_an_earlier_broker_incarnation(world: ReplicaBrokersWorld) -> None:
    partition = world.partition(1)
    epoch = world.state.registrations.brokers[2].broker_epoch
    partition.replica_fetched(2, 0, 0, epoch)
    for broker_id, broker_epoch, code in ((2, epoch - 1, Code.NOT_LEADER_OR_FOLLOWER), (9, -1, Code.UNKNOWN_LEADER_EPOCH)):
        with pytest.raises(KafkaError) as refused:
            partition.replica_fetched(broker_id, 0, 0, broker_epoch)
        assert refused.value.code is code
    with pytest.raises(NotLeader):
        world.partition(2).replica_fetched(3, 0, 0, -1)


def test_acks_all_with_durability_power_waits_for_fsync_on_all_in_sync_replicas() -> None:
    world = ReplicaBrokersWorld(3, settings={"ottla.durability": "power"})
    world.settle()
    producer = Producer(world)
    producer.send(1, b"a")
    while not producer.codes:
        world.wait(1)
    assert producer.codes == {b"a": Code.NONE}
    for broker_id in (1, 2, 3):
        world.kill(broker_id, power_cut=True)
        world.fence(broker_id)
    for broker_id in (1, 2, 3):
        world.start(world.nodes[broker_id])
    world.move_leader(world.registration().isr[0])
    world.settle(3_000)
    assert [b"a" in b"".join(values(world, broker_id)) for broker_id in (1, 2, 3)] == [True] * 3


def test_parked_consumer_fetch_gets_a_batch_when_the_batch_is_committed(world: ReplicaBrokersWorld) -> None:
    answers: list[PartitionData] = []
    world.server(1).consume(answers.append)
    for other in ("broker-2", "broker-3"):
        world.links.cut("broker-1", other)
    Producer(world).send(1, b"a")
    world.wait(300)
    assert answers == []
    for other in ("broker-2", "broker-3"):
        world.links.heal("broker-1", other)
    world.wait(600)
    assert [b"a" in bytes(answer.records or b"") for answer in answers] == [True]


def test_consumer_reads_from_a_follower_up_to_its_high_watermark(world: ReplicaBrokersWorld) -> None:
    Producer(world).send(1, b"a")
    world.wait(600)
    answers: list[PartitionData] = []
    for version in (10, 11):
        world.server(2).consume(answers.append, version=version)
    assert [answer.error_code for answer in answers] == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE]
    assert b"a" in bytes(answers[1].records or b"")
    world.links.cut("broker-3", "broker-1")
    world.wait(250)
    Producer(world).send(1, b"b")
    world.wait(100)
    assert world.partition(2).log.log_end_offset == 2
    world.server(2).consume(answers.append, offset=1, wait_ms=0)
    assert (answers[2].high_watermark, bytes(answers[2].records or b"")) == (1, b"")


def test_consumer_is_redirected_to_the_follower_in_its_rack() -> None:
    world = ReplicaBrokersWorld(4, settings={"replica.selector.class": RACK_AWARE})
    world.settle()
    Producer(world).send(1, b"a")
    world.wait(600)
    answers: list[PartitionData] = []
    for rack in ("rack-2", "rack-1", "rack-9", ""):
        world.server(1).consume(answers.append, rack=rack)
    assert [answer.preferred_read_replica for answer in answers] == [2, -1, -1, -1]
    assert [bool(answer.records) for answer in answers] == [False, True, True, True]
    world.kill(2)
    world.fence(2)
    world.tell_all()
    world.server(1).consume(answers.append, rack="rack-2")
    assert answers[-1].preferred_read_replica == -1


def test_new_leader_returns_no_latest_offset_before_its_high_watermark_is_known(world: ReplicaBrokersWorld) -> None:
    world.links.cut("broker-3", "broker-1")
    world.wait(250)
    Producer(world).send(1, b"a", acks=1)
    world.wait(100)
    world.links.cut("broker-3", "broker-2")
    world.move_leader(2)
    world.tell(2)
    server = world.server(2)
    assert [server.last_offset(version).error_code for version in (4, 5)] == [Code.LEADER_NOT_AVAILABLE, Code.OFFSET_NOT_AVAILABLE]
    assert server.last_offset(5, replica_id=1).offset == 1
    world.links.heal("broker-3", "broker-2")
    world.settle()
    assert server.last_offset(5).offset == 1


def test_delete_records_response_waits_for_the_followers(world: ReplicaBrokersWorld) -> None:
    for number in range(3):
        Producer(world).send(1, b"%d" % number)
    world.wait(600)
    results: list[DeleteRecordsPartitionResult] = []
    world.server(1).delete_records(2, results.append)
    assert results == []
    world.wait(1_000)
    assert [(result.low_watermark, result.error_code) for result in results] == [(2, Code.NONE)]
    assert [world.partition(b).log.log_start_offset for b in (1, 2, 3)] == [2, 2, 2]
    world.links.cut("broker-3", "broker-1")
    world.server(1).delete_records(-1, results.append, timeout_ms=500)
    world.wait(600)
    assert [(result.low_watermark, result.error_code) for result in results[1:]] == [(2, Code.REQUEST_TIMED_OUT)]
    world.server(1).delete_records(-1, results.append)
    world.move_leader(2)
    world.tell(1)
    world.wait(1)
    assert results[2].error_code == Code.NOT_LEADER_OR_FOLLOWER


def test_reassignment_moves_a_partition_to_other_brokers() -> None:
    world = ReplicaBrokersWorld(5, brokers=4)
    world.settle()
    for number in range(3):
        Producer(world).send(1, b"%d" % number)
    world.wait(500)
    world.log(*reassignment.reassign(world.state, {(TOPIC, 0): (4, 2)}).records)
    world.settle(6_000)
    registration = world.registration()
    assert (registration.replicas, set(registration.isr), registration.is_reassigning) == ((4, 2), {2, 4}, False)
    leader = registration.leader
    producer = Producer(world)
    producer.send(leader, b"after")
    producer.send(1, b"to the one before")
    world.wait(500)
    assert producer.codes[b"after"] is Code.NONE
    assert producer.codes[b"to the one before"] is not Code.NONE
    assert values(world, 4) == values(world, 2)
    assert len(values(world, 4)) == 4


def test_follower_starts_a_new_fetch_session_when_the_leader_lost_the_old_session(world: ReplicaBrokersWorld) -> None:
    sessions = world.server(1).fetch_sessions
    assert len(sessions) == 2
    for session_id in list(sessions._sessions):
        sessions.close(session_id)
    producer = Producer(world)
    producer.send(1, b"a")
    world.wait(1_000)
    assert producer.codes == {b"a": Code.NONE}
    assert len(sessions) == 2


def test_followers_without_a_fetch_session_send_full_fetches() -> None:
    world = ReplicaBrokersWorld(6, partitions=3)
    for server in world.up.values():
        server.fetch_sessions._slots = 0
    world.settle()
    producer = Producer(world)
    producer.send(1, b"a")
    world.wait(500)
    assert producer.codes == {b"a": Code.NONE}
    assert len(world.server(1).fetch_sessions) == 0


def test_followers_fetch_a_new_partition_at_once_after_an_election() -> None:
    """When broker 2 is elected, the followers' long fetch for another partition, which is idle, is still pending at broker 2."""
    world = ReplicaBrokersWorld(7, partitions=3, settings={"replica.fetch.wait.max.ms": "5000", "replica.lag.time.max.ms": "60000"})
    world.settle(12_000)
    world.move_leader(2)
    world.tell_all()
    producer = Producer(world)
    producer.send(2, b"a")
    world.wait(200)
    assert producer.codes == {b"a": Code.NONE}


def test_follower_with_a_full_disk_leaves_the_in_sync_replicas_and_rejoins(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"a")
    world.wait(500)
    world.nodes[3].disk.is_full = True
    producer.send(1, b"b", acks=1)
    world.settle(5_000)
    assert set(world.registration().isr) == {1, 2}
    assert not world.partition(3).log.is_offline
    world.nodes[3].disk.is_full = False
    world.settle(3_000)
    assert set(world.registration().isr) == {1, 2, 3}
    assert values(world, 3) == values(world, 1)


def test_follower_stops_fetching_a_damaged_partition(world: ReplicaBrokersWorld) -> None:
    producer = Producer(world)
    producer.send(1, b"a")
    world.wait(500)
    world.partition(3).log.offline_reason = "damaged"
    producer.send(1, b"b", acks=1)
    world.settle(5_000)
    server = world.server(3)
    assert server.replicas.state_of(world.partition(3)) is FetchState.FAILED
    assert set(world.registration().isr) == {1, 2}
