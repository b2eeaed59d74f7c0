"""Share fetches and acknowledgements on a simulated broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.memory_filesystem import MemoryFilesystem
from tests.broker.coordinators.test_consumer_groups import make_topic
from tests.broker.share_world import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    Producer,
    Sharer,
    acquired,
    offsets_in,
    partition_of,
    produce,
    set_group,
)

LOCK_MS = 30_000


@pytest.fixture
def broker() -> Iterator[SimulatedBroker]:
    broker = SimulatedBroker().start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 2)
        set_group(client, auto_offset_reset="earliest")
    yield broker
    broker.close()
    assert broker.bugs == 0


@pytest.fixture
def client(broker: SimulatedBroker) -> Iterator[SimulatedClient]:
    with broker.connect() as client:
        yield client


def test_share_member_joins_fetches_and_acknowledges(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a")
    first = a.beat()
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (0, 2, 500)
    assert first.assignment is not None
    assert first.assignment.topic_partitions == []
    # The broker computes the next target assignment only after the assignment interval.
    broker.sleep(100)
    second = a.beat()
    assert second.assignment is not None
    assert [t.partitions for t in second.assignment.topic_partitions] == [[0, 1]]
    produce(client, 3)
    answer = a.fetch()
    assert (acquired(answer), offsets_in(answer), answer.acquisition_lock_timeout_ms) == ([(0, 2, 1)], [(0, 2)], LOCK_MS)
    told = a.acknowledge((0, 1, ACCEPT), (2, 2, RELEASE))
    assert (told.error_code, told.acquisition_lock_timeout_ms) == (0, LOCK_MS)
    assert [(p.partition_index, p.error_code) for p in told.responses[0].partitions] == [(0, 0)]
    assert a.acquire() == [(2, 2, 2)]


def test_share_group_starts_at_the_log_end_by_default(broker: SimulatedBroker, client: SimulatedClient) -> None:
    produce(client, 3)
    b = Sharer(broker, "b", "h").joined()
    assert b.acquire() == []
    produce(client, 2)
    assert b.acquire() == [(3, 4, 1)]


@pytest.mark.parametrize(("duration", "code", "given"), [("PT1H", 0, [(0, 1, 1)]), ("PT1S", Code.OFFSET_NOT_AVAILABLE, [])])
def test_share_group_may_start_at_the_offset_of_a_past_time(
    broker: SimulatedBroker, client: SimulatedClient, duration: str, code: int, given: list[tuple[int, int, int]]
) -> None:
    set_group(client, auto_offset_reset=f"by_duration:{duration}")
    a = Sharer(broker, "a").joined()
    produce(client, 2)
    broker.sleep(2_000)
    data = partition_of(a.fetch())
    assert data is not None
    assert data.error_code == code
    assert [(run.first_offset, run.last_offset, run.delivery_count) for run in data.acquired_records] == given


def test_members_of_a_share_group_acquire_different_records_of_a_partition(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    a, b = Sharer(broker, "a").joined(), Sharer(broker, "b").joined()
    for _ in range(4):
        produce(client, 5)
    assert a.acquire(max_records=10) == [(0, 9, 1)]
    assert b.acquire(max_records=10) == [(10, 19, 1)]
    assert a.acquire() == []
    b.client.close()
    assert a.acquire() == [(10, 19, 2)], "a disconnect releases the acquired records"


def test_share_acquire_mode_selects_whole_batches_or_an_exact_record_limit(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 5)
    assert a.acquire(max_records=2) == [(0, 4, 1)]
    a.end()
    b = Sharer(broker, "b").joined()
    assert b.acquire(max_records=2, share_acquire_mode=1) == [(0, 1, 2)]


def test_share_fetch_returns_only_batches_with_acquired_records(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    for _ in range(4):
        produce(client, 2)
    answer = a.fetch(max_records=4)
    assert (acquired(answer), offsets_in(answer)) == ([(0, 3, 1)], [(0, 1), (2, 3)])


def test_share_acquisition_locks_time_out_unless_renewed(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a, b = Sharer(broker, "a").joined(), Sharer(broker, "b").joined()
    produce(client, 2)
    assert a.acquire() == [(0, 1, 1)]
    assert b.acquire() == []
    broker.sleep(LOCK_MS - 5_000)
    assert a.acquire(((1, 1, RENEW),), max_wait_ms=0, min_bytes=0, max_bytes=0, max_records=0, is_renew_ack=True) == []
    assert b.acquire(max_wait_ms=6_000) == [(0, 0, 2)], "a waiting fetch gets records whose lock expired"
    told = a.acknowledge((0, 0, ACCEPT))
    assert told.responses[0].partitions[0].error_code == Code.INVALID_RECORD_STATE
    assert a.acknowledge((1, 1, ACCEPT)).responses[0].partitions[0].error_code == 0


def test_share_group_record_is_archived_once_it_reaches_the_delivery_limit(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 1)
    for delivery in range(1, 6):
        assert a.acquire() == [(0, 0, delivery)]
        a.acknowledge((0, 0, RELEASE))
    assert a.acquire() == []
    produce(client, 1)
    assert a.acquire() == [(1, 1, 1)]
    a.acknowledge((1, 1, REJECT))
    assert a.acquire() == []


def test_acknowledgements_in_a_share_fetch_are_applied(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 2)
    a.acquire()
    produce(client, 1)
    answer = a.fetch(((0, 1, ACCEPT),))
    data = partition_of(answer)
    assert data is not None
    assert (data.acknowledge_error_code, acquired(answer)) == (0, [(2, 2, 1)])
    answer = a.fetch(((0, 1, ACCEPT), (2, 2, ACCEPT)))
    data = partition_of(answer)
    assert data is not None
    assert (data.error_code, data.acknowledge_error_code) == (0, 0), "an acknowledgement below the start offset is ignored"
    answer = a.fetch(((7, 8, ACCEPT),))
    data = partition_of(answer)
    assert data is not None
    assert data.acknowledge_error_code == Code.INVALID_RECORD_STATE


def test_share_fetch_waits_for_records(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    a.acquire()
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000), 2)
    broker.sleep(100)
    produce(client, 2)
    began_ms = broker.now_ms()
    assert acquired(a.took(a.client.receive(sent))) == [(0, 1, 1)]
    assert broker.now_ms() - began_ms < 1_000
    began_ms = broker.now_ms()
    assert a.acquire(max_wait_ms=2_000) == []
    assert broker.now_ms() - began_ms >= 2_000


def test_share_fetch_waits_for_min_bytes(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    a.acquire()
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000, min_bytes=150), 2)
    produce(client, 1)
    broker.sleep(500)
    produce(client, 1)
    produce(client, 1)
    assert acquired(a.took(a.client.receive(sent))) == [(0, 2, 1)]


def test_parked_share_fetch_gets_released_records(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a, b = Sharer(broker, "a").joined(), Sharer(broker, "b").joined()
    produce(client, 2)
    a.acquire()
    b.acquire()
    sent = b.client.send(b.fetch_request(max_wait_ms=5_000), 2)
    a.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE))
    assert acquired(b.took(b.client.receive(sent))) == [(1, 1, 2)]


def test_parked_share_fetch_acquires_no_records_after_its_session_ended(broker: SimulatedBroker, client: SimulatedClient) -> None:
    """A request on another connection ends the session. Records acquired after the end could never be acknowledged."""
    a, elsewhere = Sharer(broker, "a").joined(), Sharer(broker, "a")
    a.acquire()
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000), 2)
    assert elsewhere.end().error_code == 0
    produce(client, 1)
    assert a.client.receive(sent).error_code == Code.SHARE_SESSION_NOT_FOUND
    assert Sharer(broker, "b").joined().acquire() == [(0, 0, 1)]


def test_parked_share_fetch_waits_for_response_memory(broker: SimulatedBroker, client: SimulatedClient) -> None:
    budget = broker.broker.response_budget
    a = Sharer(broker, "a").joined()
    a.acquire()
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000), 2)
    budget.read(budget.limit_bytes)
    produce(client, 1)
    broker.sleep(500)
    assert a.client._transport.next_frame() is None
    budget.read(-budget.limit_bytes)
    assert acquired(a.took(a.client.receive(sent))) == [(0, 0, 1)]
    assert budget._read_bytes == 0


def test_share_group_member_without_a_share_session_is_removed_when_it_leaves() -> None:
    broker = SimulatedBroker({"group.share.max.share.sessions": "1"}).start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 1)
    a, b = Sharer(broker, "a").joined(), Sharer(broker, "b").joined()
    a.fetch()
    far_ms = broker.now_ms() + 1_000_000_000

    def waiting() -> int:
        return sum(at_ms > far_ms for at_ms, _ in broker.env.scheduler.timers)

    b.client.send(b.fetch_request(max_wait_ms=0x7FFFFFFF), 2)
    assert waiting() == 1
    b.client.close()
    assert waiting() == 0
    broker.close()


def test_share_fetch_does_not_acquire_records_of_open_and_aborted_transactions(
    broker: SimulatedBroker, client: SimulatedClient
) -> None:
    set_group(client, isolation_level="read_committed")
    a, producer = Sharer(broker, "a").joined(), Producer(client, "tx")
    produce(client, 1)
    producer.write(2)
    assert a.acquire() == [(0, 0, 1)], "records of an open transaction are not acquired"
    producer.end(commit=False)
    producer.write(2)
    producer.end(commit=True)
    # Offsets 3 and 6 are control records. They are acquired too, and consumers acknowledge them as gaps.
    assert a.acquire() == [(3, 6, 1)]


def test_share_isolation_level_hides_uncommitted_records(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a, producer = Sharer(broker, "a").joined(), Producer(client, "tx")
    producer.write(2)
    assert a.acquire() == [(0, 1, 1)]
    producer.end(commit=False)


@pytest.mark.parametrize("kill", [False, True])
def test_share_acknowledgements_survive_a_restart(broker: SimulatedBroker, client: SimulatedClient, kill: bool) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 6)
    assert a.acquire() == [(0, 5, 1)]
    a.acknowledge((0, 1, ACCEPT), (2, 2, RELEASE), (3, 3, ACCEPT), (4, 4, REJECT))
    broker.restart(kill=kill)
    b = Sharer(broker, "b").joined()
    # Offset 5 was acquired but not acknowledged. Neither a kill nor a stop writes a release, so this delivery is not counted.
    assert b.acquire() == [(2, 2, 2), (5, 5, 1)]


def test_stopped_broker_writes_no_share_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    """When a broker stops it closes connections, and their close callbacks run after the log directory is closed."""
    a = Sharer(broker, "a").joined()
    produce(client, 2)
    a.acquire()
    env, fs = broker.env, broker.fs
    assert isinstance(fs, MemoryFilesystem)
    broker.stop()
    before = {path: bytes(raw) for path, raw in fs.files.items()}
    env.settle()
    env.advance(1_000)
    assert {path: bytes(raw) for path, raw in fs.files.items()} == before
    broker.start()
    assert Sharer(broker, "b").joined().acquire() == [(0, 1, 1)], "the release was not written, so the delivery is not counted"


def test_disconnect_of_a_share_member_after_a_kill_changes_no_share_state(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 2)
    a.acquire()
    broker.restart(kill=True)
    a.client.close()
    b = Sharer(broker, "b").joined()
    assert b.acquire() == [(0, 1, 1)]
    b.acknowledge((0, 1, ACCEPT))
    broker.restart()
    assert not any(partition.log.is_offline for partition in broker.broker.partitions)


def test_share_fetch_skips_deleted_records(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    a.acquire()
    produce(client, 3)
    produce(client, 3)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
    client.call(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000))
    assert a.acquire() == []
    assert a.acquire() == [(4, 5, 1)]


def test_parked_share_fetch_is_answered_when_its_topic_is_deleted(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    produce(client, 3)
    a.acquire()
    topic_id = a.topic_id
    sent = a.client.send(a.fetch_request(max_wait_ms=5_000), 2)
    client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1_000))
    data = partition_of(a.took(a.client.receive(sent)))
    assert data is not None
    assert data.error_code == Code.UNKNOWN_TOPIC_OR_PARTITION
    make_topic(client, "t", 1)
    assert topic_id != a.topic_id


def test_share_request_with_a_wrong_session_epoch_is_refused(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a", partitions=(0, 1)).joined()
    assert a.fetch(share_session_epoch=3).error_code == Code.SHARE_SESSION_NOT_FOUND
    assert a.fetch(((0, 0, ACCEPT),)).error_code == Code.INVALID_REQUEST, "the session has acquired no records yet"
    first = a.fetch()
    assert sorted(p.partition_index for p in first.responses[0].partitions) == [0, 1]
    assert a.fetch().responses == []
    assert a.fetch(share_session_epoch=9).error_code == Code.INVALID_SHARE_SESSION_EPOCH
    assert a.acknowledge((0, 0, ACCEPT), share_session_epoch=0).error_code == Code.INVALID_SHARE_SESSION_EPOCH
    produce(client, 1)
    a.acquire()
    assert a.end().error_code == 0
    assert a.end().error_code == Code.SHARE_SESSION_NOT_FOUND
    assert len(broker.broker.share_partitions) == 0
    assert a.acquire() == [(0, 0, 2)]


def test_share_session_above_the_session_limit_is_refused() -> None:
    broker = SimulatedBroker({"group.share.max.share.sessions": "1"}).start().with_coordinators()
    with broker.connect() as client:
        make_topic(client, "t", 1)
    a, b = Sharer(broker, "a").joined(), Sharer(broker, "b").joined()
    a.fetch()
    began_ms = broker.now_ms()
    assert b.fetch(max_wait_ms=1_000).error_code == Code.SHARE_SESSION_LIMIT_REACHED
    assert broker.now_ms() - began_ms >= 1_000
    a.client.close()
    assert b.fetch().error_code == 0
    broker.close()


@pytest.mark.parametrize(
    "fields",
    [
        {"group_id": None},
        {"member_id": ""},
        {"member_id": None},
        {"member_id": "x" * 37},
        {"share_acquire_mode": 2},
        {"is_renew_ack": True},
    ],
)
def test_invalid_share_fetches_are_refused(broker: SimulatedBroker, fields: dict[str, object]) -> None:
    a = Sharer(broker, "a").joined()
    assert a.fetch(**fields).error_code == Code.INVALID_REQUEST


@pytest.mark.parametrize(
    "batches",
    [((1, 0, ACCEPT),), ((0, 0, 5),), ((0, 0, -1),), ((0, 0, RENEW),), ((1, 1, ACCEPT), (0, 0, ACCEPT))],
)
def test_invalid_share_acknowledgements_are_refused(broker: SimulatedBroker, batches: tuple[tuple[int, int, int], ...]) -> None:
    a = Sharer(broker, "a").joined()
    a.fetch()
    assert a.acknowledge(*batches).responses[0].partitions[0].error_code == Code.INVALID_REQUEST


def test_share_fetch_without_initialized_state_is_refused(broker: SimulatedBroker, client: SimulatedClient) -> None:
    broker.broker.cluster.ensure_internal("__share_group_state")
    stranger = Sharer(broker, "a", "nobody")
    data = partition_of(stranger.fetch())
    assert data is not None
    assert data.error_code == Code.UNKNOWN_SERVER_ERROR


def test_share_version_0_refuses_share_fetches_and_drops_sessions(broker: SimulatedBroker, client: SimulatedClient) -> None:
    a = Sharer(broker, "a").joined()
    a.fetch()
    update = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    assert client.call(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update])).error_code == 0
    assert a.beat().error_code == Code.UNSUPPORTED_VERSION
    assert a.fetch().error_code == Code.UNSUPPORTED_VERSION
    assert a.acknowledge((0, 0, ACCEPT)).error_code == Code.UNSUPPORTED_VERSION
    assert (len(broker.broker.share_partitions), len(broker.broker.share_partitions.sessions)) == (0, 0)
    update = FeatureUpdateKey(feature="share.version", max_version_level=1, upgrade_type=1)
    assert client.call(UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[update])).error_code == 0
    assert a.fetch().error_code == Code.SHARE_SESSION_NOT_FOUND
