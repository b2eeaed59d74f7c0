"""Markers sent to other brokers while leaders and coordinators change, are slow or stop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from structlog.testing import capture_logs

from ottla.broker.peers import marker_transport
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.coordinator.transaction.requests import ProducerIdAndEpoch
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopic,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.peers.cluster_world import ONE, TOPIC, TWO, ClusterWorld, HeldPeer
from tests.support.handling import Handling


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    made = ClusterWorld()
    yield made
    made.close()


def begun(world: ClusterWorld, *indexes: int) -> object:
    producer = world.init()
    assert producer.error_code == Code.NONE
    for index in indexes:
        assert world.produce(producer, index) == Code.NONE
    return producer


@pytest.mark.parametrize("commit", [True, False])
def test_transaction_markers_reach_both_brokers_before_end_txn_is_answered(world: ClusterWorld, commit: bool) -> None:
    producer = begun(world, 0, 1)
    assert not world.is_stable(0)
    assert not world.is_stable(1)
    assert world.end(producer, commit=commit).error_code == Code.NONE
    assert world.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert world.is_stable(0)
    assert world.is_stable(1)
    aborted = world.log(TWO, TOPIC, 1).aborted_from(0, 0, 100)
    assert bool(aborted) is not commit


def test_end_txn_response_does_not_wait_for_a_silent_broker(world: ClusterWorld) -> None:
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    began_ms = world.scheduler.now_ms
    assert world.end(producer).error_code == Code.NONE
    assert 900 <= world.scheduler.now_ms - began_ms <= 1_100
    assert (world.state(), world.is_stable(0), world.is_stable(1)) == ("PrepareCommit", True, False)
    held.let_go()
    world.sleep(100)
    assert (world.state(), world.is_stable(1)) == ("CompleteCommit", True)


@pytest.mark.parametrize("kind", [Failure.DISCONNECTED, Failure.TIMED_OUT, Failure.CLOSED])
def test_unanswered_transaction_markers_are_sent_again(world: ClusterWorld, kind: Failure) -> None:
    producer = begun(world, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    held.is_holding = False
    held.fail(PeerFailure(kind, "gone"))
    world.sleep(1_000)
    assert (world.state(), world.is_stable(1)) == ("CompleteCommit", True)
    assert [type(message) for message in held.sent] == [WriteTxnMarkersRequest] * 2


def refuse(held: HeldPeer, code: int) -> None:
    """Let the other broker answer the held markers with an error code."""
    ((_, message, _, _),) = held.held
    result = WritableTxnMarkerPartitionResult(partition_index=1, error_code=code)
    topic = WritableTxnMarkerTopicResult(name=TOPIC, partitions=[result])
    held.fail(WriteTxnMarkersResponse([WritableTxnMarkerResult(producer_id=message.markers[0].producer_id, topics=[topic])]))


@pytest.mark.parametrize(
    ("code", "level"),
    [
        (Code.TRANSACTION_COORDINATOR_FENCED, "warning"),
        (Code.INVALID_PRODUCER_EPOCH, "warning"),
        (Code.INVALID_REQUEST, "error"),
    ],
)
def test_refusal_of_markers_from_a_replaced_coordinator_is_logged_as_a_warning(world: ClusterWorld, code: Code, level: str) -> None:
    """Another coordinator has completed the transaction, and the producer may have begun a new one."""
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    with capture_logs() as lines:
        refuse(held, code)
    assert [(line["code"], line["log_level"]) for line in lines if line["event"] == "marker_refused"] == [(code.name, level)]
    assert world.state() == "PrepareCommit", "markers were refused, so this coordinator does not complete the transaction"


def test_unknown_error_code_in_a_marker_response_ends_the_sending_of_the_marker(world: ClusterWorld) -> None:
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    refuse(held, 9_999)
    assert len(held.sent) == 1


def test_transaction_marker_repeated_after_a_lost_response_changes_no_outcome(world: ClusterWorld) -> None:
    producer = begun(world, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    ((broker_id, message, then, options),) = held.held
    held.pass_on(broker_id, message, lambda answer: then(PeerFailure(Failure.DISCONNECTED, "gone")), options)
    held.is_holding = False
    world.sleep(1_000)
    assert (world.state(), world.is_stable(1)) == ("CompleteCommit", True)
    assert world.log(TWO, TOPIC, 1).log_end_offset == 3, "the log has the batch and two markers"


def test_transaction_markers_are_sent_to_the_new_leader_of_a_partition(world: ClusterWorld) -> None:
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    world.replicate(TOPIC, 1, TWO)
    world.elect(TOPIC, 1, ONE)
    held.let_go()
    world.sleep(1_000)
    assert world.state() == "CompleteCommit"
    assert world.is_stable(1, leader=ONE)


def test_markers_reach_the_new_leader_when_the_coordinator_learns_of_the_move(world: ClusterWorld) -> None:
    producer = begun(world, 1)
    world.replicate(TOPIC, 1, TWO)
    world.elect(TOPIC, 1, ONE, TWO)
    assert world.end(producer).error_code == Code.NONE
    world.sleep(1_000)
    assert world.state() == "PrepareCommit"
    world.elect(TOPIC, 1, ONE, ONE)
    world.sleep(1_000)
    assert world.state() == "CompleteCommit"
    assert world.is_stable(1, leader=ONE)


def test_transaction_markers_wait_until_a_leaderless_partition_has_a_leader(world: ClusterWorld) -> None:
    """Apache Kafka 4.3.1 treats a leaderless partition as deleted: it completes the transaction and never writes the marker."""
    producer = begun(world, 1)
    world.elect(TOPIC, 1, -1)
    began_ms = world.scheduler.now_ms
    producer = world.end(producer)
    assert producer.error_code == Code.NONE
    assert 900 <= world.scheduler.now_ms - began_ms <= 1_100, "EndTxn waits for the marker, but not for ever"
    assert world.add(producer, 0) == Code.CONCURRENT_TRANSACTIONS
    world.sleep(5_000)
    assert world.state() == "PrepareCommit"
    world.elect(TOPIC, 1, TWO)
    world.sleep(1_000)
    assert (world.state(), world.is_stable(1)) == ("CompleteCommit", True)


def test_end_txn_waits_for_a_marker_that_is_sent_again(world: ClusterWorld) -> None:
    """The partition has no leader for less than the time that EndTxn waits: the next transaction begins at once."""
    producer = begun(world, 0, 1)
    world.elect(TOPIC, 1, -1)
    world.scheduler.call_later(300, lambda: world.elect(TOPIC, 1, TWO))
    producer = world.end(producer)
    assert producer.error_code == Code.NONE
    assert (world.state(), world.is_stable(1)) == ("CompleteCommit", True)
    assert world.add(producer, 0) == Code.NONE


def test_end_txn_does_not_wait_for_a_marker_that_is_refused_for_good(world: ClusterWorld) -> None:
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    world.scheduler.call_later(100, lambda: refuse(held, Code.TRANSACTION_COORDINATOR_FENCED))
    began_ms = world.scheduler.now_ms
    world.end(producer)
    assert world.scheduler.now_ms - began_ms < 300


def test_newly_elected_coordinator_completes_decided_transactions(world: ClusterWorld) -> None:
    """The coordinator's leader changes between Prepare and the markers. The new coordinator sends them with its own epoch."""
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    world.end(producer)
    old = held.sent[-1]
    world.replicate(TRANSACTION_TOPIC, 0, ONE)
    world.elect(TRANSACTION_TOPIC, 0, TWO)
    world.sleep(1_000)
    assert world.state(TWO) == "CompleteCommit"
    assert world.is_stable(0)
    assert world.is_stable(1)
    assert world.end(producer, coordinator=ONE).error_code == Code.NOT_COORDINATOR
    log = world.log(TWO, TOPIC, 1)
    end_offset = log.log_end_offset
    refused = world.call(TWO, old, 1)
    assert refused.markers[0].topics[0].partitions[0].error_code == Code.TRANSACTION_COORDINATOR_FENCED
    held.let_go()
    world.sleep(1_000)
    assert log.log_end_offset == end_offset, "markers of the old coordinator are refused"


def test_transaction_markers_for_a_broker_are_batched_during_a_request(world: ClusterWorld) -> None:
    held = HeldPeer(world, ONE)
    held.is_holding = False
    producers = {}
    for name in "abcd":
        producers[name] = world.init(transactional_id=name)
    held.is_holding = True
    transactions = world.brokers[ONE].broker.transactions
    ending: list[Handling[ProducerIdAndEpoch]] = []
    for name, producer in producers.items():
        identity = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch)
        transactions.add_partitions(name, identity, [(TOPIC, 1)], 0)
        ending.append(Handling(transactions.end(name, identity, commit=True, client_transaction_version=0)))
    assert not any(one.results for one in ending), "all wait for the markers"
    assert [len(message.markers) for message in held.sent] == [1]
    held.let_go()
    world.sleep(1_000)
    assert [len(message.markers) for message in held.sent] == [1, 3]
    assert all(one.results for one in ending)
    assert all(m.state.label == "CompleteCommit" for m in transactions.shards()[0].ids.values())


def test_number_of_queued_transaction_markers_is_bounded(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers beyond the bound get REQUEST_TIMED_OUT, and the coordinator sends them again later."""
    monkeypatch.setattr(marker_transport, "MAX_WAITING_MARKERS", 1)
    transport = world.brokers[ONE].broker.transactions._completions._markers._transport
    held = HeldPeer(world, ONE)
    codes: list[int] = []

    def answered(response: WriteTxnMarkersResponse) -> None:
        codes.extend(p.error_code for m in response.markers for t in m.topics for p in t.partitions)

    for producer_id in range(3):
        topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[1])]
        marker = WritableTxnMarker(producer_id=producer_id, producer_epoch=0, topics=topics)
        transport.write_txn_markers(WriteTxnMarkersRequest([marker]), answered)
    assert len(held.sent) == 1
    assert codes == [Code.REQUEST_TIMED_OUT]
    held.let_go()


def test_transaction_markers_are_resent_after_an_exception_in_the_connection(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = begun(world, 0, 1)
    held = HeldPeer(world, ONE)
    held.is_holding = False
    peer_of, failures = held.peer, ["a bug"]

    def failing_peer(broker_id: int) -> object:
        peer = peer_of(broker_id)

        class Failing:
            def send(self, *arguments: object, **options: object) -> None:
                if failures:
                    raise RuntimeError(failures.pop())
                peer.send(*arguments, **options)

        return Failing()

    monkeypatch.setattr(held, "peer", failing_peer)
    assert world.end(producer).error_code == Code.NONE
    world.sleep(3_000)
    assert not failures
    assert world.brokers[ONE].broker.unexpected_errors == 1
    world.brokers[ONE].broker.lifecycle.unexpected_errors = 0
    assert world.state() == "CompleteCommit"
    assert world.is_stable(1)


def test_exception_in_a_marker_callback_does_not_affect_other_markers(world: ClusterWorld) -> None:
    transport = world.brokers[ONE].broker.transactions._completions._markers._transport
    held = HeldPeer(world, ONE)
    answers: list[int] = []

    def send(producer_id: int, on_response: object) -> None:
        topics = [WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[1])]
        marker = WritableTxnMarker(producer_id=producer_id, producer_epoch=0, topics=topics)
        transport.write_txn_markers(WriteTxnMarkersRequest([marker]), on_response)

    def failing(response: WriteTxnMarkersResponse) -> None:
        raise RuntimeError("a bug")

    for producer_id in range(3):
        send(producer_id, failing if producer_id == 1 else lambda response: answers.append(response.markers[0].producer_id))
    answer = held.held[0][2]
    answer(PeerFailure(Failure.CLOSED, "closed"))
    with pytest.raises(RuntimeError, match="a bug"):
        held.held[1][2](PeerFailure(Failure.CLOSED, "closed"))
    assert answers == [0, 2]
    send(3, lambda response: None)
    assert len(held.sent) == 3
