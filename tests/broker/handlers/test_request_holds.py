"""No request blocks the event loop for long, whatever its size, and handling it in steps does not change its response."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.handlers.registry import declaration
from ottla.broker.process.running import GC_THRESHOLDS
from ottla.coordinator.share_state.batches import StateBatch as PersistedBatch
from ottla.coordinator.share_state.records import ShareKey
from ottla.coordinator.share_state.requests import StateWrite
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.write_share_group_state import PartitionData as WritePartition
from ottla.protocol.messages.write_share_group_state import StateBatch, WriteShareGroupStateRequest, WriteStateData
from ottla.protocol.uuids import uuid_text
from ottla.simulation.client import api_key
from tests.broker.holds import LOOP_HELD, MeasuredBroker
from tests.broker.large_requests import EXISTING, LINES, MANY, REQUESTS
from tests.support.counting import Limit, Meter, check_best

pytestmark = pytest.mark.full


@pytest.fixture
def broker(meter: Meter) -> Iterator[MeasuredBroker]:
    broker = MeasuredBroker(meter)
    broker.start()
    # Use the garbage collector settings that `broker.process.running` makes for a broker.
    thresholds = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    yield broker
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    broker.close()
    assert broker.bugs == 0


def answered(broker: MeasuredBroker, ask: Callable[[int], tuple[Any, int]], limit: Limit = LOOP_HELD) -> list[Any]:
    """Send a request a few times, and return the responses. Raises AssertionError if every attempt exceeds `limit`."""
    answers, exceeded = [], []
    for attempt in range(broker.meter.attempts):
        answer = answered_once(broker, *ask(attempt))
        answers.append(answer)
        exceeded.append(broker.meter.exceeds(limit))
    assert not all(exceeded), f"the event loop was held too long: {exceeded}"
    return answers


def answered_once(broker: MeasuredBroker, request: Any, version: int) -> Any:
    # Import the API's modules before the measurement, because the first request of an API would import them.
    assert declaration(api_key(request)).codec
    with broker.connect() as client:
        broker.meter.longest = 0.0
        return client.call(request, version)


def test_auto_creation_of_many_topics_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    count = broker.meter.size(MANY)
    answers = answered(broker, lambda n: (MetadataRequest([MetadataRequestTopic(name=f"t{n}-{i}") for i in range(count)]), 12))
    for answer in answers:
        assert [t.error_code for t in answer.topics] == [0] * count
    answers = answered(broker, lambda n: (MetadataRequest(None), 12))
    assert {len(a.topics) for a in answers} == {len(answers) * count}


def test_creating_and_deleting_many_topics_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    count = broker.meter.size(1_000)
    answers = answered(
        broker,
        lambda n: (
            CreateTopicsRequest([CreatableTopic(name=f"t{n}-{i}", num_partitions=1, replication_factor=1) for i in range(count)]),
            7,
        ),
    )
    for answer in answers:
        assert [t.error_code for t in answer.topics] == [0] * count
    answers = answered(broker, lambda n: (DeleteTopicsRequest([DeleteTopicState(f"t{n}-{i}") for i in range(count)]), 6))
    for answer in answers:
        assert [t.error_code for t in answer.responses] == [0] * count
    assert not broker.broker.cluster.state.topics


def test_requests_for_a_topic_with_many_partitions_block_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    most, limit = broker.meter.size(10_000), LOOP_HELD.with_lines(60_000)

    def made(n: int) -> tuple[Any, int]:
        return CreateTopicsRequest(
            [
                CreatableTopic(name=f"t{n}", num_partitions=most, replication_factor=1),
                CreatableTopic(name=f"u{n}", num_partitions=1, replication_factor=1),
            ]
        ), 7

    def grown(n: int) -> tuple[Any, int]:
        return CreatePartitionsRequest([CreatePartitionsTopic(name=f"u{n}", count=most, assignments=None)]), 3

    def gone(n: int) -> tuple[Any, int]:
        return DeleteTopicsRequest([DeleteTopicState(f"t{n}"), DeleteTopicState(f"u{n}")]), 6

    answers = answered(broker, made, limit)
    assert {t.error_code for a in answers for t in a.topics} == {0}
    answers = answered(broker, grown, limit)
    assert {t.error_code for a in answers for t in a.results} == {0}
    answers = answered(broker, lambda n: (MetadataRequest([MetadataRequestTopic(name=f"u{n}")]), 12))
    assert {len(a.topics[0].partitions) for a in answers} == {most}
    assert len(broker.broker.partitions) == 2 * len(answers) * most, "all partitions are open"
    answers = answered(broker, gone)
    assert {t.error_code for a in answers for t in a.responses} == {0}
    assert not len(broker.broker.partitions)


def test_transaction_with_many_partitions_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    count, exceeded = broker.meter.size(1_500), []
    with broker.connect() as client:
        client.call(CreateTopicsRequest([CreatableTopic(name="t", num_partitions=count, replication_factor=1)]), 7)
        client.call(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]), 4)
        for attempt in range(broker.meter.attempts):
            producer = client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
            assert producer.error_code == 0, "the previous transaction is completed"
            topics = [AddPartitionsToTxnTopic(name="t", partitions=list(range(count)))]
            adding = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="x",
                v3_and_below_producer_id=producer.producer_id,
                v3_and_below_producer_epoch=producer.producer_epoch,
                v3_and_below_topics=topics,
            )
            added = client.call(adding, 3)
            assert {p.partition_error_code for p in added.results_by_topic_v3_and_below[0].results_by_partition} == {0}
            broker.meter.longest = 0.0
            ending = EndTxnRequest(
                transactional_id="x",
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                committed=bool(attempt),
            )
            assert client.call(ending, 5).error_code == 0
            exceeded.append(broker.meter.exceeds(LOOP_HELD))
            ends = {broker.broker.partitions.get("t", index).log.last_stable_offset for index in range(count)}
            assert ends == {attempt + 1}, "each partition has its marker when the response is sent"
        # Delete the topic so that the broker, when it stops, writes no producer snapshot for each partition.
        client.call(DeleteTopicsRequest([DeleteTopicState("t")]), 6)
    assert not all(exceeded), f"the event loop was held too long: {exceeded}"


def test_fetch_session_with_many_unknown_partitions_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    count = 20 * broker.meter.size(MANY)

    def first(n: int) -> tuple[FetchRequest, int]:
        topics = [FetchTopic(topic="t", partitions=[FetchPartition(partition=i, partition_max_bytes=1) for i in range(count)])]
        return FetchRequest(session_epoch=0, topics=topics), 12

    answers = answered(broker, first)
    for answer in answers:
        assert len(answer.responses[0].partitions) == count
        assert {p.error_code for p in answer.responses[0].partitions} == {Code.UNKNOWN_TOPIC_OR_PARTITION}
    sessions = [a.session_id for a in answers]
    assert all(sessions)
    answers = answered(broker, lambda n: (FetchRequest(session_id=sessions[n], session_epoch=1), 12))
    assert {a.error_code for a in answers} == {0}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_with_many_elements_block_the_event_loop_briefly(broker: MeasuredBroker, name: str) -> None:
    with broker.connect() as client:
        client.call(CreateTopicsRequest([CreatableTopic(name=EXISTING, num_partitions=1, replication_factor=1)]), 7)
    many = broker.meter.size(MANY)
    check_best(
        broker.meter,
        LOOP_HELD.with_lines(LINES.get(name, LOOP_HELD.lines)),
        lambda n: answered_once(broker, *REQUESTS[name](n, many)),
    )


def test_fragmented_share_state_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    """The first request writes batches between stored batches, until the state has 4,000 batches.

    The second request has thousands of entries for the same partition, each with one batch.
    """
    with broker.connect() as client:
        client.call(CreateTopicsRequest([CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7)
        key = ShareKey("g", broker.broker.cluster.state.topics["t"].topic_id, 0)
        client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=[f"g:{uuid_text(key.topic_id)}:0"]), 6)
    states = broker.broker.share_states

    def written(every: int, first: int, repeated: int = 1) -> tuple[Any, int]:
        batches = [
            StateBatch(first_offset=at, last_offset=at, delivery_state=2 * (at // every % 2), delivery_count=1 + first)
            for at in range(first, 8_000, every)
        ]
        asked = WritePartition(partition=0, state_epoch=1, leader_epoch=0, start_offset=0, state_batches=batches)
        return WriteShareGroupStateRequest(
            group_id="g", topics=[WriteStateData(topic_id=key.topic_id, partitions=[asked] * repeated)]
        ), 1

    def attempt(n: int) -> None:
        states.initialize(key, 1, 0)
        for first in (0, 2, 4):
            batches = tuple(PersistedBatch(at, at, 2, 1 + first) for at in range(first, 8_000, 8))
            states.write(key, StateWrite(1, 0, 0, 0, batches))
        answer = answered_once(broker, *written(8, 6))
        assert answer.results[0].partitions[0].error_code == 0
        assert states.batch_count(key) == 4_000
        answer = answered_once(broker, *written(8_000, 6, repeated=broker.meter.size(3_000)))
        assert {p.error_code for p in answer.results[0].partitions} == {0}

    check_best(broker.meter, LOOP_HELD, attempt)


def test_slow_subscription_patterns_block_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    """The test measures the first heartbeat of the group's member, and the first heartbeat after a topic was created."""
    slow, count = "(a?){1000}", 40
    names = [f"{'a' * 245}{number}" for number in range(count)]
    with broker.connect() as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        client.call(
            CreateTopicsRequest([CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names[1:]]), 7
        )

    def joined(n: int) -> tuple[Any, int]:
        return ConsumerGroupHeartbeatRequest(
            group_id=f"g{n}",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=[],
            subscribed_topic_regex=f"{slow}{n}?[0-9]*",
            topic_partitions=[],
        ), 1

    answers = answered(broker, joined)
    assert {sum(len(t.partitions) for t in a.assignment.topic_partitions) for a in answers} == {count - 1}
    with broker.connect() as client:
        client.call(CreateTopicsRequest([CreatableTopic(name=names[0], num_partitions=1, replication_factor=1)]), 7)
    # Let group.consumer.assignment.interval.ms pass.
    broker.env.advance(1_000)
    epoch = answers[0].member_epoch
    answers = answered(broker, lambda n: (ConsumerGroupHeartbeatRequest(group_id=f"g{n}", member_id="m", member_epoch=epoch), 1))
    assert {a.member_epoch for a in answers} == {epoch + 1}


def test_assignment_for_many_group_members_blocks_the_event_loop_briefly(broker: MeasuredBroker) -> None:
    """Members join before the assignment interval has passed; then one heartbeat computes the target assignment for all of them."""
    members = partitions = broker.meter.size(1_000)
    with broker.connect() as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        client.call(CreateTopicsRequest([CreatableTopic(name="t", num_partitions=partitions, replication_factor=1)]), 7)

        def beat(group: str, member: int, epoch: int) -> Any:
            request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=f"member-{member:030}", member_epoch=epoch)
            if epoch == 0:
                request.rebalance_timeout_ms, request.subscribed_topic_names, request.topic_partitions = 10_000, ["t"], []
            return client.call(request, 1)

        def target(attempt: int) -> None:
            group = f"g{attempt}"
            epochs = [beat(group, member, 0).member_epoch for member in range(members)]
            broker.env.advance(1_000)
            broker.meter.longest = 0.0
            answer = beat(group, 0, epochs[0])
            assert answer.error_code == 0
            shard, _ = broker.broker.groups.shard(group)
            targets = shard.consumers.groups[group].targets
            assert sum(len(indexes) for target in targets.values() for indexes in target.values()) == partitions
            assert len(targets) == members

        check_best(broker.meter, LOOP_HELD, target)
