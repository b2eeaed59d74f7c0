"""Verification of a batch by a transaction coordinator on another broker (KIP-890)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from ottla.broker.peers import remote_verification
from ottla.broker.peers.requests import Failure, PeerFailure
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.peers.cluster_world import IDS, ONE, TOPIC, TWO, ClusterWorld, HeldPeer

VERIFIED, ADDED = 11, 12
"""Versions of Produce. With `VERIFIED` the batch's partition must already be part of the transaction; `ADDED` adds it
implicitly."""


@pytest.fixture
def world() -> Iterator[ClusterWorld]:
    made = ClusterWorld()
    yield made
    made.close()


def begun(world: ClusterWorld, version: int) -> Any:
    producer = world.init()
    if version == VERIFIED:
        assert world.add(producer, 0, 1) == Code.NONE
    return producer


def sent(world: ClusterWorld, producer: Any, version: int) -> tuple[Any, tuple[int, int]]:
    """Send Produce to the second broker, whose verification request is held. Returns the client and the unanswered request."""
    client = world.brokers[TWO].connect()
    return client, client.send(world.batch(producer, 1, version), version)


def code_of(answer: Any) -> int:
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


@pytest.mark.parametrize("version", [VERIFIED, ADDED])
def test_only_the_first_batch_of_a_transaction_is_verified_by_the_coordinator(world: ClusterWorld, version: int) -> None:
    producer, held = begun(world, version), HeldPeer(world, TWO)
    held.is_holding = False
    for _ in range(3):
        assert world.produce(producer, 1, version=version) == Code.NONE
    (asked,) = held.sent
    (transaction,) = asked.transactions
    assert transaction.verify_only is (version == VERIFIED)
    assert (transaction.transactional_id, [t.name for t in transaction.topics]) == ("x", [TOPIC])
    assert world.end(producer, version=5 if version == ADDED else 3).error_code == Code.NONE
    assert world.is_stable(1)


def test_transactional_batch_is_refused_when_its_partition_was_not_added(world: ClusterWorld) -> None:
    producer = world.init()
    assert world.produce(producer, 1, version=VERIFIED) == Code.TRANSACTION_ABORTABLE
    assert world.log(TWO, TOPIC, 1).log_end_offset == 0
    assert world.produce(producer, 1, version=VERIFIED - 1) == Code.INVALID_TXN_STATE


@pytest.mark.parametrize("is_whole", [True, False])
def test_unknown_error_code_of_a_verification_refuses_the_batch(world: ClusterWorld, *, is_whole: bool) -> None:
    producer, held = begun(world, ADDED), HeldPeer(world, TWO)
    client, batch = sent(world, producer, ADDED)
    world.scheduler.settle()
    code = 9_999
    result = AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=code)
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=[result])
    transaction = AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])
    if is_whole:
        held.fail(AddPartitionsToTxnResponse(error_code=code))
    else:
        held.fail(AddPartitionsToTxnResponse(results_by_transaction=[transaction]))
    assert code_of(client.receive(batch)) == Code.UNKNOWN_SERVER_ERROR
    client.close()


def test_verification_refuses_a_producer_with_an_old_epoch(world: ClusterWorld) -> None:
    old = world.init()
    world.init()
    assert world.produce(old, 1) == Code.INVALID_PRODUCER_EPOCH
    assert world.log(TWO, TOPIC, 1).log_end_offset == 0


def test_transactional_batch_during_completion_gets_concurrent_transactions(world: ClusterWorld) -> None:
    producer = world.init()
    assert world.produce(producer, 1) == Code.NONE
    held = HeldPeer(world, ONE)
    producer = world.end(producer)
    world.sequences.clear()
    assert world.produce(producer, 1) == Code.CONCURRENT_TRANSACTIONS
    held.let_go()
    world.sleep(500)
    assert world.produce(producer, 1) == Code.NONE


@pytest.mark.parametrize(
    ("version", "kind"), [(VERIFIED, Failure.DISCONNECTED), (ADDED, Failure.TIMED_OUT), (ADDED, Failure.CLOSED)]
)
def test_verification_by_a_silent_coordinator_gives_a_retriable_error(world: ClusterWorld, version: int, kind: Failure) -> None:
    producer, held = begun(world, version), HeldPeer(world, TWO)
    client, batch = sent(world, producer, version)
    held.is_holding = False
    held.fail(PeerFailure(kind, "gone"))
    assert code_of(client.receive(batch)) == Code.NOT_ENOUGH_REPLICAS
    assert world.log(TWO, TOPIC, 1).log_end_offset == 0
    assert code_of(client.call(world.batch(producer, 1, version), version)) == Code.NONE
    client.close()


def test_verification_without_a_coordinator_gives_a_retriable_error(world: ClusterWorld) -> None:
    producer = world.init()
    world.elect(TRANSACTION_TOPIC, 0, -1)
    assert world.produce(producer, 1) == Code.NOT_ENOUGH_REPLICAS
    world.elect(TRANSACTION_TOPIC, 0, ONE)
    assert world.produce(producer, 1) == Code.NONE


def test_verification_by_a_former_coordinator_gives_a_retriable_error(world: ClusterWorld) -> None:
    producer = world.init()
    world.replicate(TRANSACTION_TOPIC, 0, ONE)
    world.elect(TRANSACTION_TOPIC, 0, TWO, ONE)
    assert world.produce(producer, 1) == Code.NOT_ENOUGH_REPLICAS
    world.elect(TRANSACTION_TOPIC, 0, TWO, TWO)
    world.sleep(10)
    assert world.produce(producer, 1) == Code.NONE
    assert world.end(producer, coordinator=TWO).error_code == Code.NONE
    assert world.is_stable(1)


@pytest.mark.parametrize("version", [VERIFIED, ADDED])
def test_batch_whose_transaction_ends_during_verification_is_refused(world: ClusterWorld, version: int) -> None:
    """The verification was valid when it was sent, but the batch would be appended after the marker and never be committed."""
    producer, held = begun(world, version), HeldPeer(world, TWO)
    client, batch = sent(world, producer, version)
    ((broker_id, message, then, options),) = held.held
    answers: list[Any] = []
    held.held.clear()
    held.pass_on(broker_id, message, answers.append, options)
    world.sleep(10)
    world.end(producer, version=5 if version == ADDED else 3)
    (answer,) = answers
    then(answer)
    held.is_holding = False
    world.brokers[TWO].env.settle()
    held.let_go()
    assert code_of(client.receive(batch)) in ((Code.INVALID_PRODUCER_EPOCH,) if version == ADDED else (Code.TRANSACTION_ABORTABLE,))
    world.sleep(1_000)
    assert world.is_stable(1)
    client.close()


def test_verification_by_the_coordinator_is_valid_for_one_leader_epoch(world: ClusterWorld) -> None:
    producer, held = begun(world, ADDED), HeldPeer(world, TWO)
    client, batch = sent(world, producer, ADDED)
    world.elect(TOPIC, 1, TWO)
    held.let_go()
    world.sleep(100)
    assert len(held.sent) == 2, "the batch is verified again in the new leader epoch"
    assert code_of(client.receive(batch)) == Code.NONE
    client.close()


def test_verification_by_the_coordinator_is_valid_for_one_append(world: ClusterWorld) -> None:
    producer, held = begun(world, ADDED), HeldPeer(world, TWO)
    held.is_holding = False
    verification: Any = world.brokers[TWO].broker.verification
    assert world.produce(producer, 1) == Code.NONE
    assert verification._answers == {}
    assert len(held.sent) == 1


def test_verifications_waiting_for_a_response_are_sent_in_one_request(world: ClusterWorld) -> None:
    producers = [world.init(transactional_id=name) for name in "abcd"]
    held = HeldPeer(world, TWO)
    clients = []
    for name, producer in zip("abcd", producers, strict=True):
        client = world.brokers[TWO].connect()
        request = world.batch(producer, 1, ADDED)
        request.transactional_id = name
        clients.append((client, client.send(request, ADDED)))
    assert [len(message.transactions) for message in held.sent] == [1]
    held.let_go()
    for client, batch in clients:
        assert code_of(client.receive(batch)) == Code.NONE
        client.close()
    assert [len(message.transactions) for message in held.sent] == [1, 3]


def all_batches_of_a_request(world: ClusterWorld, producer: Any, version: int, *indexes: int) -> ProduceRequest:
    request = world.batch(producer, indexes[0], version)
    for index in indexes[1:]:
        request.topic_data[0].partition_data += world.batch(producer, index, version).topic_data[0].partition_data
    return request


@pytest.mark.parametrize("version", [VERIFIED, ADDED])
def test_verification_request_covers_all_partitions_of_a_produce_request(world: ClusterWorld, version: int) -> None:
    """With `ADDED` the coordinator adds all partitions with a single record."""
    for index in (0, 1):
        world.elect(TOPIC, index, TWO)
    producer, held = begun(world, version), HeldPeer(world, TWO)
    before = world.log(ONE, TRANSACTION_TOPIC, 0).log_end_offset
    held.is_holding = False
    answer = world.call(TWO, all_batches_of_a_request(world, producer, version, 0, 1), version)
    assert [p.error_code for p in answer.responses[0].partition_responses] == [Code.NONE, Code.NONE]
    ((transaction,),) = [asked.transactions for asked in held.sent]
    assert [(t.name, t.partitions) for t in transaction.topics] == [(TOPIC, [0, 1])]
    added = world.log(ONE, TRANSACTION_TOPIC, 0).log_end_offset - before
    assert added == (version == ADDED)
    assert cast(Any, world.brokers[TWO].broker.verification)._answers == {}


def test_verification_error_of_a_partition_refuses_only_its_batch(world: ClusterWorld) -> None:
    for index in (0, 1):
        world.elect(TOPIC, index, TWO)
    producer, held = begun(world, ADDED), HeldPeer(world, TWO)
    client = world.brokers[TWO].connect()
    batches = client.send(all_batches_of_a_request(world, producer, ADDED, 0, 1), ADDED)
    results = [
        AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        for index, code in ((0, Code.NONE), (1, Code.TRANSACTION_ABORTABLE))
    ]
    topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=results)
    transaction = AddPartitionsToTxnResult(transactional_id="x", topic_results=[topic])
    held.fail(AddPartitionsToTxnResponse(results_by_transaction=[transaction]))
    codes = [p.error_code for p in client.receive(batches).responses[0].partition_responses]
    assert codes == [Code.NONE, Code.TRANSACTION_ABORTABLE]
    client.close()


@pytest.mark.parametrize("room", [0, 1])
def test_batches_of_a_request_beyond_the_verification_bound_are_refused(
    world: ClusterWorld, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(remote_verification, "MAX_WAITING_BATCHES", room)
    for index in (0, 1):
        world.elect(TOPIC, index, TWO)
    producer, held = begun(world, ADDED), HeldPeer(world, TWO)
    held.is_holding = False
    answer = world.call(TWO, all_batches_of_a_request(world, producer, ADDED, 0, 1), ADDED)
    codes = [p.error_code for p in answer.responses[0].partition_responses]
    assert codes == [Code.NONE] * room + [Code.NOT_ENOUGH_REPLICAS] * (2 - room)


def test_local_coordinator_adds_all_partitions_of_a_produce_with_one_record(world: ClusterWorld) -> None:
    world.elect(TOPIC, 1, ONE)
    producer = world.init()
    before = world.log(ONE, TRANSACTION_TOPIC, 0).log_end_offset
    answer = world.call(ONE, all_batches_of_a_request(world, producer, ADDED, 0, 1), ADDED)
    assert [p.error_code for p in answer.responses[0].partition_responses] == [Code.NONE, Code.NONE]
    assert world.log(ONE, TRANSACTION_TOPIC, 0).log_end_offset - before == 1


def test_fenced_producer_and_new_owner_are_verified_separately(world: ClusterWorld) -> None:
    """AddPartitionsToTxn names a transactional id once, so two producers with the same id need two requests."""
    old, new = world.init(), world.init()
    other = world.init(transactional_id="y")
    held = HeldPeer(world, TWO)
    clients = [world.brokers[TWO].connect() for _ in range(3)]
    first = world.batch(other, 1, ADDED)
    first.transactional_id = "y"
    batches = [
        client.send(request, ADDED)
        for client, request in zip(clients, (first, world.batch(old, 1, ADDED), world.batch(new, 1, ADDED)), strict=True)
    ]
    held.let_go()
    codes = [code_of(client.receive(batch)) for client, batch in zip(clients, batches, strict=True)]
    assert codes == [Code.NONE, Code.INVALID_PRODUCER_EPOCH, Code.NONE]
    for client in clients:
        client.close()


def commit(world: ClusterWorld, producer: Any, version: int, broker_id: int) -> int:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5)]
    request = TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, topic_id=IDS[TOPIC], partitions=partitions)],
    )
    answer = world.call(broker_id, request, version)
    code: int = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", [4, 5])
def test_offsets_of_a_remote_group_are_added_to_the_transaction(world: ClusterWorld, version: int) -> None:
    world.elect(OFFSETS_TOPIC, 0, TWO)
    producer = world.init()
    if version == 4:
        assert commit(world, producer, version, TWO) == Code.TRANSACTION_ABORTABLE
        world.add_offsets(producer, "g")
    assert commit(world, producer, version, TWO) == Code.NONE
    groups = world.brokers[TWO].broker.groups
    assert groups.shard("g")[0].offsets.pending
    assert world.end(producer, version=5 if version == 5 else 3).error_code == Code.NONE
    assert not groups.shard("g")[0].offsets.pending
    assert groups.shard("g")[0].offset_count("g") == 1


def test_unanswered_verification_of_offsets_gives_a_retriable_error(world: ClusterWorld) -> None:
    world.elect(OFFSETS_TOPIC, 0, TWO)
    producer = world.init()
    world.change([world._registration(ONE, is_fenced=True)], TWO)
    assert commit(world, producer, 5, TWO) == Code.COORDINATOR_NOT_AVAILABLE
    world.change([world._registration(ONE)], TWO)
    assert commit(world, producer, 5, TWO) == Code.NONE


def test_number_of_batches_waiting_for_verification_is_bounded(world: ClusterWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_verification, "MAX_WAITING_BATCHES", 0)
    producer, held = begun(world, VERIFIED), HeldPeer(world, TWO)
    assert world.produce(producer, 1, version=VERIFIED) == Code.NOT_ENOUGH_REPLICAS
    assert held.sent == []
