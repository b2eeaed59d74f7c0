"""The timeline of a transactional id, built from the coordinator's log and from the records of its partitions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.cli.txn_timeline import diagram
from ottla.client.cluster import BrokerConnections
from ottla.client.errors import KafkaAnswered, Unreachable
from ottla.client.explain.timeline import Logged, TimelineEvent, TimelineLimits, events, logged, newest_timeline, timeline
from ottla.client.records.record import ConsumedRecord
from ottla.coordinator.transaction.metadata import TxnMetadata, key_record, to_record
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.records import assign, build_batch
from ottla.protocol.transaction_states import TxnState
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

WHERE = "__transaction_state:7"


def state(offset: int, name: str | None, *partitions: int, epoch: int = 0) -> Logged:
    return Logged(
        offset=offset,
        time_ms=1_000 + 10 * offset,
        state=name,
        producer_id=5,
        producer_epoch=epoch,
        timeout_ms=60_000,
        start_ms=1_010,
        partitions=frozenset(("orders", partition) for partition in partitions),
    )


def record(offset: int, time_ms: int, control: str | None = None, producer_id: int = 5) -> ConsumedRecord:
    return ConsumedRecord(
        topic="orders",
        partition=0,
        offset=offset,
        timestamp_ms=time_ms,
        key=None,
        value=b"v",
        headers=[],
        producer_id=producer_id,
        producer_epoch=0,
        transactional=True,
        control=control,
    )


def kinds(happened: list[TimelineEvent]) -> list[str]:
    return [event.kind for event in happened]


def test_transaction_timeline_has_its_events_from_begin_to_end() -> None:
    states = [
        state(0, "Empty"),
        state(1, "Ongoing", 0),
        state(2, "Ongoing", 0, 1),
        state(3, "PrepareCommit", 0, 1),
        state(5, "CompleteCommit"),
    ]
    data = [record(0, 1_011), record(1, 1_012), record(2, 1_040, "COMMIT")]
    happened = events(states, WHERE, data)
    assert kinds(happened) == ["init", "begin", "data", "add", "decide", "marker", "complete"]
    assert [event.partitions for event in happened if event.kind in ("begin", "add")] == [[("orders", 0)], [("orders", 1)]]
    assert happened[2].what == "2 records written"
    assert happened[2].where == "orders:0 at 0 to 1"
    assert happened[-1].what == "committed, every marker is written, 40 ms after it began"
    assert happened[-1].where == f"{WHERE} at 5"


def test_timeline_lists_a_new_producer_of_the_transactional_id() -> None:
    first, second = events([state(0, "Empty"), state(1, "Empty", epoch=1)], WHERE)
    assert first.what == "a producer gets the id (timeout 60,000 ms)"
    assert second.what == "a new producer owns the id; earlier producers are fenced (timeout 60,000 ms)"


def test_transaction_timeline_of_a_compacted_log_has_the_newest_record() -> None:
    """Compaction keeps only the newest state record of the id, so the timeline has only the event of that record."""
    assert kinds(events([state(9, "CompleteAbort")], WHERE)) == ["complete"]
    assert kinds(events([state(9, "Ongoing", 0)], WHERE)) == ["begin"]


def test_timeline_lists_the_expiry_of_a_transactional_id() -> None:
    assert kinds(events([state(0, "CompleteCommit"), state(1, None), state(2, "Empty")], WHERE)) == ["complete", "expire", "init"]


def test_timeline_lists_records_by_transaction() -> None:
    data = [record(0, 1_011), record(1, 1_020, "ABORT"), record(2, 1_030), record(3, 1_040)]
    happened = [event for event in events([], WHERE, data) if event.kind == "data"]
    assert [event.where for event in happened] == ["orders:0 at 0", "orders:0 at 2 to 3"]


def test_transaction_timeline_lists_records_with_earlier_timestamps_after_the_transaction_begin() -> None:
    states = [state(1, "Ongoing", 0), state(3, "PrepareCommit", 0), state(5, "CompleteCommit")]
    happened = events(states, WHERE, [record(0, 990), record(1, 1_040, "COMMIT")])
    assert kinds(happened) == ["begin", "data", "decide", "marker", "complete"]


@pytest.mark.parametrize("flexible", [True, False])
def test_transaction_log_records_are_decoded(flexible: bool) -> None:
    known = TxnMetadata(
        transactional_id="shop",
        producer_id=5,
        producer_epoch=3,
        timeout_ms=60_000,
        state=TxnState.PREPARE_COMMIT,
        partitions=frozenset({("orders", 1)}),
        start_ms=77,
    )
    written = to_record(known, flexible=flexible)
    read = logged("shop", written.key, written.value, 4, 99)
    assert read is not None
    assert (read.offset, read.time_ms, read.state, read.producer_id, read.producer_epoch) == (4, 99, "PrepareCommit", 5, 3)
    assert (read.start_ms, read.partitions) == (77, {("orders", 1)})
    assert logged("another", written.key, written.value, 4, 99) is None
    tombstone = logged("shop", key_record("shop"), None, 5, 99)
    assert tombstone is not None
    assert tombstone.state is None


@pytest.mark.parametrize(("key", "value"), [(None, b"x"), (b"", b"x"), (b"\xff\xff", b"x"), (key_record("shop"), b"\x7f\xff")])
def test_transaction_timeline_skips_foreign_records_of_the_transaction_log(key: bytes | None, value: bytes) -> None:
    assert logged("shop", key, value, 0, 0) is None


class Cluster:
    """A scripted cluster with transactions of one transactional id: the coordinator's log and one data partition."""

    def __init__(self, transactions: int, records: int) -> None:
        states = [state for _ in range(transactions) for state in (TxnState.EMPTY, TxnState.ONGOING, TxnState.COMPLETE_COMMIT)]
        self.logs = {
            TRANSACTION_TOPIC: [self._state(offset, state) for offset, state in enumerate(states)],
            "orders": [self._record(offset) for offset in range(records)],
        }
        leaders = metadata(nodes={1: "kafka"}, leaders={topic: [1] for topic in self.logs})
        self.broker = ScriptedBroker(answers={"Metadata": [leaders], "ListOffsets": self._offsets, "Fetch": self._fetch})

    def _state(self, offset: int, state: TxnState) -> bytes:
        known = TxnMetadata(
            transactional_id="shop",
            producer_id=5,
            producer_epoch=0,
            timeout_ms=60_000,
            state=state,
            partitions=frozenset({("orders", 0)}),
            start_ms=1_000,
        )
        written = to_record(known, flexible=True)
        batch = build_batch([(written.key, written.value)], 1_000 + offset)
        assign(batch, offset, 0)
        return bytes(batch)

    def _record(self, offset: int) -> bytes:
        batch = build_batch([(None, b"x")], 1_001, producer_id=5, producer_epoch=0, base_sequence=offset, transactional=True)
        assign(batch, offset, 0)
        return bytes(batch)

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        (topic,) = request.topics
        offset = len(self.logs[topic.name]) if topic.partitions[0].timestamp == -1 else 0
        partitions = [ListOffsetsPartitionResponse(partition_index=0, offset=offset)]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=topic.name, partitions=partitions)])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        records = b"".join(self.logs[topic.topic][topic.partitions[0].fetch_offset :])
        data = PartitionData(partition_index=0, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(topic=topic.topic, partitions=[data])])

    def brokers(self) -> BrokerConnections:
        return ScriptedCluster(kafka=self.broker).brokers()


def test_timeline_has_all_transactions_and_records_of_a_transactional_id() -> None:
    happened = timeline(Cluster(transactions=3, records=5).brokers(), "shop")
    assert kinds(happened).count("complete") == 3
    assert [event.what for event in happened if event.kind == "data"] == ["5 records written"]
    assert newest_timeline(Cluster(3, 5).brokers(), "shop", TimelineLimits(log_offsets=9, data_records=5)).unread == []


def test_timeline_of_an_unresponsive_cluster_does_not_report_an_unknown_transactional_id() -> None:
    with pytest.raises(Unreachable):
        timeline(ScriptedCluster().brokers(timeout_s=0.1), "shop")


def test_timeline_of_a_cluster_without_transactions_reports_an_unknown_transactional_id() -> None:
    broker = ScriptedBroker(answers={"Metadata": [metadata(nodes={1: "kafka"}, leaders={}, missing=(TRANSACTION_TOPIC,))]})
    with pytest.raises(KafkaAnswered, match="unknown transactional id 'shop'"):
        timeline(ScriptedCluster(kafka=broker).brokers(timeout_s=0.1), "shop")


def test_transaction_timeline_reports_offsets_and_records_beyond_its_read_limits() -> None:
    read = newest_timeline(Cluster(transactions=3, records=5).brokers(), "shop", TimelineLimits(log_offsets=6, data_records=4))
    assert kinds(read.events).count("complete") == 2
    assert "data" not in kinds(read.events)
    assert read.unread == [
        "__transaction_state:0 before offset 3",
        "topic orders, which has more than 4 records since the first of these events",
    ]


def test_transactional_id_outside_the_searched_offsets_is_not_reported_as_unknown() -> None:
    cluster = Cluster(transactions=3, records=5)
    assert newest_timeline(cluster.brokers(), "other", TimelineLimits(log_offsets=6, data_records=4)).events == []
    for limits in (TimelineLimits(), TimelineLimits(log_offsets=9)):
        with pytest.raises(KafkaAnswered, match="unknown transactional id 'other'"):
            newest_timeline(cluster.brokers(), "other", limits)


def test_transaction_timeline_diagram_escapes_mermaid_syntax_in_names() -> None:
    happened = events([state(0, "Empty"), state(1, "Ongoing", 0)], WHERE, [record(0, 1_011)])
    lines = diagram("shop;#1\n", happened).splitlines()
    assert lines[:4] == [
        "sequenceDiagram",
        "    participant C as shop,1 ",
        "    participant T as coordinator",
        "    participant P0 as orders:0",
    ]
    assert lines[-1] == "    C->>P0: 1 record written (5 epoch 0)"


def test_timeline_lists_transactions_of_one_millisecond_one_after_another() -> None:
    """All events have the same timestamp if the broker's clock is stopped."""
    names = ["Ongoing", "PrepareCommit", "CompleteCommit"]
    states = [replace(state(at, name, 0), time_ms=1_000, start_ms=1_000) for at, name in enumerate(names * 2)]
    data = [record(at, 1_000, "COMMIT" if at % 2 else None) for at in range(4)]
    happened = events(states, WHERE, data)
    assert kinds(happened) == ["begin", "data", "decide", "marker", "complete"] * 2
    assert [event.where for event in happened if event.kind == "data"] == ["orders:0 at 0", "orders:0 at 2"]
