"""Topics and partitions as control API and console read them: like a client sees them, in bounded steps, with transactions."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.broker.view.partitions import ABORTED_SHOWN, details, holder, log_detail, log_states, totals
from ottla.broker.view.topics import TopicListing, sizes, topic, topics
from ottla.client.admin.topics import list_topics
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import run
from tests.broker.view.viewed_world import ViewedWorld, steps_of

PARTITIONS_OF_A_STEP = 500
"""Upper bound on the partitions whose size one step reads, which takes some ms."""
LOG = SimpleNamespace(
    topic="orders",
    partition=0,
    log_start_offset=0,
    last_stable_offset=5,
    high_watermark=7,
    log_end_offset=7,
    size_bytes=3,
    leader_epoch=0,
)


@pytest.fixture
def viewed() -> Iterator[ViewedWorld]:
    world = ViewedWorld()
    world.do(
        "topic t partitions=2", "topic u", "A = init x", "produce A t n=2", "abort A", "produce A t", "produce A u", "commit A"
    )
    world.do("produce A t n=3")
    yield world
    world.close()


def test_console_lists_topics_like_the_kafka_api(viewed: ViewedWorld) -> None:
    listed = sorted(run(topics(viewed.broker)), key=lambda one: one.name)
    assert [(one.name, one.topic_id, one.partitions, one.replicas, one.is_internal) for one in listed] == [
        (one.name, one.topic_id, one.partitions, one.replicas, one.internal)
        for one in list_topics(viewed.client.brokers, internal=True)
    ]
    assert topic(viewed.broker, "t") in listed
    with pytest.raises(KafkaError, match="unknown topic 'none'; create it first") as refused:
        topic(viewed.broker, "none")
    assert refused.value.code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_console_topic_sizes_and_totals_include_all_partitions(viewed: ViewedWorld) -> None:
    (size,) = run(sizes(viewed.broker, [topic(viewed.broker, "t")]))
    assert (size.offsets, size.waiting) == (8, 3)
    found = run(totals(viewed.broker, 20))
    assert found.size_bytes == sum(partition.log.size_bytes for partition in viewed.broker.partitions)
    assert (found.held_count, [(held.topic, held.partition) for held in found.held]) == (1, [("t", 0)])
    assert run(totals(viewed.broker, 0)).held == []


def test_console_lists_open_and_aborted_transactions_of_a_partition(viewed: ViewedWorld) -> None:
    first, empty = run(details(viewed.broker, "t", [0, 1]))
    assert (first.leader, first.problem) == (viewed.broker.settings.node_id, "")
    assert first.detail is not None
    assert [(one.first_offset, one.last_offset) for one in first.detail.aborted] == [(0, 2)]
    assert (first.detail.markers, first.detail.open) == ([2, 4], [5])
    assert empty.detail is not None
    assert empty.detail.markers == []
    (missing,) = run(details(viewed.broker, "t", [2]))
    assert (missing.detail, missing.problem) == (None, "this broker has no replica of the partition")


def test_transaction_that_blocks_consumers_begins_at_the_last_stable_offset(viewed: ViewedWorld) -> None:
    found = holder(viewed.broker, "t", 0)
    assert found is not None
    assert (found[0].last_stable_offset, found[0].high_watermark, found[1].start_offset) == (5, 8, 5)
    assert found[1].producer_id == viewed.world.actors["A"].pid
    assert holder(viewed.broker, "u", 0) is None
    assert holder(viewed.broker, "none", 0) is None


def test_console_state_of_a_log_changes_with_each_append(viewed: ViewedWorld) -> None:
    places = [("t", 0), ("t", 1), ("none", 0)]
    before = run(log_states(viewed.broker, places))
    assert before == run(log_states(viewed.broker, places))
    assert before[2] is None
    viewed.do("produce A t")
    after = run(log_states(viewed.broker, places))
    assert after[0] != before[0]
    assert after[1:] == before[1:]


class CountingBroker:
    """A broker with a topic of many partitions. It counts how many are read in each step."""

    def __init__(self, partitions: int) -> None:
        self.count = partitions
        self.read = 0
        known = SimpleNamespace(partition_count=partitions, partitions=[SimpleNamespace(replicas=(1,), leader=1)] * partitions)
        state = SimpleNamespace(topics={"orders": known}, is_alone=True, node_id=1)
        self.cluster, self.partitions = SimpleNamespace(state=state), self

    def known(self, name: str, index: int) -> Any:
        self.read += 1
        return SimpleNamespace(log=LOG, leader_id=1, look_up=lambda read: None)

    def __iter__(self) -> Iterator[Any]:
        return iter([self.known("orders", index) for index in range(self.count)])


def test_console_reads_many_partitions_in_several_event_loop_steps() -> None:
    many = 3 * PARTITIONS_OF_A_STEP + 1
    broker = cast(Any, CountingBroker(many))
    listing = TopicListing(name="orders", topic_id=bytes(16), partitions=many, replicas=1, is_internal=False)
    (size,) = run(sizes(broker, [listing]))
    assert (size.offsets, size.waiting, size.size_bytes) == (7 * many, 2 * many, 3 * many)
    found = run(totals(broker, 20))
    assert (found.held_count, found.size_bytes, len(found.held)) == (many, 3 * many, 20)
    for reading in (sizes(broker, [listing]), totals(broker, 20), log_states(broker, [("orders", at) for at in range(many)])):
        assert steps_of(reading) > many // PARTITIONS_OF_A_STEP


def test_console_reads_each_partition_with_transactions_in_a_separate_event_loop_step() -> None:
    assert steps_of(details(cast(Any, CountingBroker(7)), "orders", range(7))) == 7 + 1


def test_console_lists_only_the_newest_aborted_transactions() -> None:
    read: list[int] = []

    class Index:
        def __init__(self, first: int) -> None:
            self._first = first

        def __reversed__(self) -> Iterator[Any]:
            for offset in range(self._first + 9_999, self._first - 1, -1):
                read.append(offset)
                yield SimpleNamespace(first_offset=offset, last_offset=offset)

    segments = [SimpleNamespace(txn_index=Index(first)) for first in (0, 10_000)]
    producers = SimpleNamespace(has_any=False, open_txns={})
    log = cast(Any, SimpleNamespace(**vars(LOG) | {"producers": producers, "segments": segments, "log_end_offset": 20_000}))
    assert [one.first_offset for one in log_detail(log).aborted] == list(range(20_000 - ABORTED_SHOWN, 20_000))
    assert len(read) == ABORTED_SHOWN
    log.log_start_offset = 19_998
    assert [one.first_offset for one in log_detail(log).aborted] == [19_998, 19_999]
