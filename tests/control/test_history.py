"""The history of a transactional id: requests, refusals, fencing and decisions."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ottla.broker.handlers.write_txn_markers import failed
from ottla.broker.hooks.transaction_history import PARTITIONS_KEPT, TEXT_CHARACTERS, Asker, Happened, Kind
from ottla.broker.network.request_history import TRANSACTIONS_REPORTED
from ottla.control.history import EVENTS_OF_ONE_ID, MAX_WAITING_BYTES, UNSORTED_EVENTS, EventHistory
from ottla.protocol.errors import Code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest
from ottla.protocol.records import build_batch
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.client import SimulatedClient
from ottla.simulation.env import START_MS
from tests.support.raw_client import create

ID = "orders"
ASKER = Asker(client_id="checkout", client_host="127.0.0.1", api="EndTxn", version=4)
Events = list[dict[str, Any]]


class HistoryWorld:
    """A broker with a history, and a topic ``t``."""

    def __init__(self, **settings: str) -> None:
        self.history = EventHistory()
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = SimulatedBroker(given, transaction_listener=self.history).start().with_coordinators()
        with self.broker.connect() as client:
            create(client, "t", 30)  # type: ignore[arg-type]

    def events(self, *kinds: str) -> Events:
        view = self.history.view(ID)
        assert view is not None
        return [event for event in view.events if not kinds or event["kind"] in kinds]

    def init(self, client: SimulatedClient, timeout_ms: int = 60_000) -> tuple[int, int]:
        answer = client.call(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms), 5)
        while answer.error_code == Code.CONCURRENT_TRANSACTIONS:
            self.broker.sleep(10)
            answer = client.call(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=timeout_ms), 5)
        assert answer.error_code == 0
        return answer.producer_id, answer.producer_epoch


@pytest.fixture
def world() -> Iterator[HistoryWorld]:
    made = HistoryWorld()
    yield made
    made.broker.close()
    assert made.broker.bugs == 0


def add(client: SimulatedClient, who: tuple[int, int], *partitions: int, topic: str = "t") -> Any:
    return client.call(
        AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=who[0],
            v3_and_below_producer_epoch=who[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        ),
        3,
    )


def added(answer: Any) -> set[int]:
    """Return the error codes of the partitions in an AddPartitionsToTxn response."""
    return {p.partition_error_code for topic in answer.results_by_topic_v3_and_below for p in topic.results_by_partition}


def commit_offsets(client: SimulatedClient, who: tuple[int, int], indexes: list[int]) -> set[int]:
    """Commit offsets of the group billing for partitions of topic ``t``. Returns their error codes."""
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in indexes]
    request = TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id="billing",
        producer_id=who[0],
        producer_epoch=who[1],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=partitions)] if partitions else [],
    )
    return {p.error_code for topic in client.call(request, 3).topics for p in topic.partitions}


def held_by(world: HistoryWorld) -> str | None:
    view = world.history.view(ID)
    return None if view is None or view.holder is None else view.holder.client_id


def end(client: SimulatedClient, who: tuple[int, int], *, commit: bool = True) -> Any:
    request = EndTxnRequest(transactional_id=ID, producer_id=who[0], producer_epoch=who[1], committed=commit)
    return client.call(request, 3)


def test_history_records_a_transaction_from_begin_to_end(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client:
        who = world.init(client)
        assert added(add(client, who, 0, 1)) == {0}
        assert end(client, who).error_code == 0
    events = world.events()
    assert [(e["kind"], e.get("api", "")) for e in events] == [("request", "InitProducerId"), ("request", "EndTxn")]
    assert {e["client_id"] for e in events if e["kind"] == "request"} == {"checkout"}
    assert all("error" not in e for e in events)
    init, ended = events
    assert (init["new_producer_id"], init["new_producer_epoch"]) == who
    assert init["time_ms"] >= START_MS
    assert (ended["outcome"], ended["producer_id"], ended["producer_epoch"]) == ("commit", *who)


def test_history_shows_the_client_of_the_last_successful_init_producer_id_as_owner(world: HistoryWorld) -> None:
    with world.broker.connect("first") as client:
        world.init(client)
    with world.broker.connect("second") as client:
        world.init(client)
        client.call(InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=0), 5)
    view = world.history.view(ID)
    assert view is not None
    assert view.holder is not None
    assert (view.holder.client_id, bool(view.holder.client_host)) == ("second", True)
    assert view.events[-1]["error"] == "INVALID_TRANSACTION_TIMEOUT"


def test_history_records_a_changed_client_id_of_a_connection_once(world: HistoryWorld) -> None:
    # A proxy may send requests of several clients on one connection.
    with world.broker.connect("first") as client:
        who = world.init(client)
        for name in ("first", "second", "third"):
            client.client_id = name
            add(client, who, 99)
    assert [e["client_id"] for e in world.events("request")] == ["first", "first", "second", "third"]


def test_history_after_a_restart_shows_the_client_that_adds_partitions_as_owner(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client:
        who = world.init(client)
        # The history is empty after a restart of the broker.
        world.history.clear()
        for index in range(3):
            assert added(add(client, who, index)) == {0}
        view = world.history.view(ID)
        assert view is not None
        assert view.holder is not None
        assert view.holder.client_id == "checkout"
        (first,) = view.events
    assert (first["api"], first["partitions"]) == ("AddPartitionsToTxn", [{"topic": "t", "partition": 0}])


def test_history_shows_no_owner_after_add_partitions_without_partitions(world: HistoryWorld) -> None:
    with world.broker.connect("first") as stale, world.broker.connect("second") as client:
        old = world.init(stale)
        who = world.init(client)
        world.history.clear()
        # The response cannot contain an error, because the request names no partition.
        assert added(add(stale, old)) == set()
        assert world.history.view(ID) is None
        commit_offsets(stale, old, [])
        assert held_by(world) is None
        add(client, who, 0)
        assert held_by(world) == "second"
        add(stale, old)
        assert held_by(world) == "second"


def test_history_shows_no_owner_after_a_transactional_offset_commit(world: HistoryWorld) -> None:
    # If another broker is the id's coordinator, only that coordinator knows whether the producer was replaced.
    with world.broker.connect("first") as client:
        who = world.init(client)
        client.call(AddOffsetsToTxnRequest(transactional_id=ID, producer_id=who[0], producer_epoch=who[1], group_id="billing"), 3)
        world.history.clear()
        assert commit_offsets(client, who, [0]) == {0}
    assert [event["api"] for event in world.events()] == ["TxnOffsetCommit"]
    assert held_by(world) is None


def test_history_records_partitions_added_by_another_client(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client, world.broker.connect("intruder") as other:
        who = world.init(client)
        add(client, who, 0)
        assert added(add(other, who, 3)) == {0}
    (told,) = [event for event in world.events() if event["api"] == "AddPartitionsToTxn"]
    assert (told["client_id"], told["partitions"]) == ("intruder", [{"topic": "t", "partition": 3}])
    assert held_by(world) == "checkout"


def test_history_after_a_restart_shows_the_client_that_sends_end_txn_as_owner(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client:
        who = world.init(client)
        add(client, who, 0)
        world.history.clear()
        assert end(client, who).error_code == 0
        assert added(add(client, who, 0)) == {0}
    view = world.history.view(ID)
    assert view is not None
    assert view.holder is not None
    assert [event["api"] for event in view.events] == ["EndTxn"]
    assert view.holder.since_ms == view.events[0]["time_ms"]


def test_history_records_a_refusal_after_many_granted_partition_additions(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client, world.broker.connect("broker-2") as leader:
        who = world.init(client)
        good = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=who[0],
            producer_epoch=who[1],
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        bad = AddPartitionsToTxnTransaction(transactional_id=ID, producer_id=99, producer_epoch=0, topics=good.topics)
        leader.call(AddPartitionsToTxnRequest(transactions=[*[good] * TRANSACTIONS_REPORTED, bad, good]), 5)
    assert [event["error"] for event in world.events() if "error" in event] == ["INVALID_PRODUCER_ID_MAPPING"]


def test_history_shows_no_owner_after_a_transaction_verification_by_a_leader(world: HistoryWorld) -> None:
    with world.broker.connect("checkout") as client, world.broker.connect("broker-2") as leader:
        who = world.init(client)
        world.history.clear()
        one = AddPartitionsToTxnTransaction(
            transactional_id=ID,
            producer_id=who[0],
            producer_epoch=who[1],
            topics=[AddPartitionsToTxnTopic(name="t", partitions=[0])],
        )
        request = AddPartitionsToTxnRequest(transactions=[one])
        (answer,) = leader.call(request, 5).results_by_transaction
        assert {p.partition_error_code for topic in answer.topic_results for p in topic.results_by_partition} == {0}
        assert world.history.view(ID) is None
        one.topics[0].partitions = [99]
        leader.call(request, 5)
    view = world.history.view(ID)
    assert view is not None
    assert view.holder is None
    assert [(e["client_id"], e["error"]) for e in view.events] == [("broker-2", "UNKNOWN_TOPIC_OR_PARTITION")]


def test_history_records_fencing_and_refusals_of_the_fenced_producer(world: HistoryWorld) -> None:
    with world.broker.connect("first") as client, world.broker.connect("second") as other:
        who = world.init(client)
        add(client, who, 0)
        successor = world.init(other)
        assert end(client, who).error_code == Code.PRODUCER_FENCED
    (fenced,) = world.events("fenced")
    assert (fenced["client_id"], fenced["producer_epoch"], fenced["new_producer_epoch"]) == ("second", who[1], successor[1])
    assert [e["outcome"] for e in world.events("decided")] == ["fenced"]
    refused = [(e["client_id"], e["api"], e["error"]) for e in world.events("request") if "error" in e]
    assert refused == [("second", "InitProducerId", "CONCURRENT_TRANSACTIONS"), ("first", "EndTxn", "PRODUCER_FENCED")]


def test_history_records_a_transaction_timeout(world: HistoryWorld) -> None:
    with world.broker.connect("slow") as client:
        who = world.init(client, timeout_ms=1_000)
        add(client, who, 0)
        world.broker.sleep(2_000)
        assert end(client, who).error_code != 0
    assert [e["outcome"] for e in world.events("decided")] == ["timeout"]
    assert "error" in world.events("request")[-1]


def test_history_includes_transaction_markers_only_if_refused(world: HistoryWorld) -> None:
    class RefusingOnce:
        """Refuses the first markers, and passes on all later markers."""

        def __init__(self, real: Any) -> None:
            self.real = real
            self.sent = 0

        def write_txn_markers(self, request: WriteTxnMarkersRequest, on_response: Callable[[Any], None]) -> None:
            self.sent += 1
            if self.sent == 1:
                on_response(failed(request, 2, Code.KAFKA_STORAGE_ERROR))
            else:
                self.real.write_txn_markers(request, on_response)

    sender: Any = world.broker.broker.transactions._completions._markers
    sender._transport = transport = RefusingOnce(sender._transport)
    with world.broker.connect() as client:
        who = world.init(client)
        add(client, who, 0, 1)
        assert end(client, who).error_code == 0
        world.broker.sleep(2_000)
    assert transport.sent == 2
    (markers,) = world.events("markers")
    assert (markers["error"], markers["outcome"], markers["producer_id"]) == ("KAFKA_STORAGE_ERROR", "commit", who[0])
    assert markers["partitions"] == [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}]


def test_history_records_transactional_offset_requests_with_their_group(world: HistoryWorld) -> None:
    with world.broker.connect("mover") as client:
        producer_id, epoch = world.init(client)
        client.call(
            AddOffsetsToTxnRequest(transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, group_id="billing"), 3
        )
        commit_offsets(client, (producer_id, epoch), [0, 99])
        assert end(client, (producer_id, epoch), commit=False).error_code == 0
    added, committed = world.events("request")[1:3]
    assert (added["api"], added["group_id"]) == ("AddOffsetsToTxn", "billing")
    assert (committed["api"], committed["group_id"], committed["error"]) == (
        "TxnOffsetCommit",
        "billing",
        "UNKNOWN_TOPIC_OR_PARTITION",
    )
    assert world.events("markers") == []


def test_history_includes_transactional_batches_only_if_refused(world: HistoryWorld) -> None:
    def produce(client: SimulatedClient, who: tuple[int, int], sequence: int) -> int:
        batch = build_batch(
            [(None, b"v")], START_MS, producer_id=who[0], producer_epoch=who[1], base_sequence=sequence, transactional=True
        )
        data = [PartitionProduceData(index=0, records=bytes(batch))]
        topic_data = [TopicProduceData(name="t", partition_data=data)]
        answer = client.call(ProduceRequest(transactional_id=ID, acks=-1, topic_data=topic_data), 12)
        return int(answer.responses[0].partition_responses[0].error_code)

    with world.broker.connect("first") as client, world.broker.connect("second") as other:
        who = world.init(client)
        assert produce(client, who, 0) == 0
        world.init(other)
        assert produce(client, who, 1) == Code.INVALID_PRODUCER_EPOCH
    (refused,) = [e for e in world.events("request") if e["api"] == "Produce"]
    assert (refused["client_id"], refused["error"], refused["producer_epoch"]) == ("first", "INVALID_PRODUCER_EPOCH", who[1])
    assert refused["partitions"] == [{"topic": "t", "partition": 0}]


def test_history_records_the_error_of_one_of_many_partitions(world: HistoryWorld) -> None:
    with world.broker.connect() as client:
        who = world.init(client)
        add(client, who, *range(30), 31)
    event = world.events("request")[-1]
    assert event["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    assert (len(event["partitions"]), event["partition_count"]) == (PARTITIONS_KEPT, 31)


def test_history_records_a_commit_when_its_response_is_sent() -> None:
    world = HistoryWorld(ottla_durability="power")
    with world.broker.connect("careful") as client:
        who = world.init(client)
        add(client, who, 0)
        assert end(client, who).error_code == 0
    assert [e["api"] for e in world.events("request")][-1] == "EndTxn"
    world.broker.close()
    assert world.broker.bugs == 0


def happened(transactional_id: str = ID, **fields: Any) -> Happened:
    return Happened(**{"time_ms": 1, "kind": Kind.REQUEST, "transactional_id": transactional_id, "asker": ASKER, **fields})


def test_busy_transactional_id_evicts_only_its_own_history_events() -> None:
    history = EventHistory()
    history.happened(happened("quiet"))
    for at in range(EVENTS_OF_ONE_ID + 7):
        history.happened(happened("busy", time_ms=at))
    quiet, busy = history.view("quiet"), history.view("busy")
    assert quiet is not None
    assert busy is not None
    assert (len(quiet.events), quiet.forgotten) == (1, 0)
    assert (len(busy.events), busy.forgotten, busy.events[0]["time_ms"]) == (EVENTS_OF_ONE_ID, 7, 7)


def test_history_lists_transactional_ids_with_the_newest_events_first() -> None:
    history = EventHistory()
    for at, name in enumerate(["a", "b", "c", "a"]):
        history.happened(happened(name, time_ms=at, error=Code.PRODUCER_FENCED))
    assert [(one.transactional_id, one.newest_ms) for one in history.newest(2)] == [("a", 3), ("c", 2)]


def test_total_size_of_the_history_is_limited() -> None:
    history = EventHistory(max_bytes=100_000)
    for at in range(1_000):
        history.happened(happened(f"id-{at}"))
        assert history.size_bytes <= 100_000
    assert history.view("id-0") is None
    assert history.view("id-999") is not None
    for _ in range(1_000):
        history.happened(happened("id-999", partitions=(("t" * 249, 1),) * PARTITIONS_KEPT))
        assert history.size_bytes <= 100_000
    assert history.view("id-999") is not None
    history.clear()
    assert history.size_bytes == 0


def test_number_of_unsorted_history_events_is_limited() -> None:
    history = EventHistory(max_bytes=0)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for at in range(UNSORTED_EVENTS - 1):
            # The largest names that a request can have: an id of 32,767 bytes and truncated topic names, with a wide character in
            # each.
            partitions = tuple((f"{at:0{TEXT_CHARACTERS - 1}d}\U0001f600{index:03d}", index) for index in range(PARTITIONS_KEPT))
            history.happened(happened(f"{at:032763d}\U0001f600", partitions=partitions))
        assert tracemalloc.get_traced_memory()[0] - before < MAX_WAITING_BYTES
    finally:
        tracemalloc.stop()


def test_history_drops_a_transactional_id_longer_than_its_size_limit() -> None:
    history = EventHistory(max_bytes=10_000)
    history.happened(happened("x" * 32_000))
    assert (history.view("x" * 32_000), history.size_bytes) == (None, 0)


def test_history_shortens_a_long_client_id(world: HistoryWorld) -> None:
    with world.broker.connect("c" * 32_000) as client:
        world.init(client)
    assert world.events()[0]["client_id"] == "c" * TEXT_CHARACTERS + "..."
    assert world.history.view("other") is None
