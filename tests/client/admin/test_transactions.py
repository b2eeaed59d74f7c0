"""Finding and aborting hanging transactions, which are open in a partition although no coordinator will end them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ottla.client.admin import transactions
from ottla.client.errors import ClientError, KafkaAnswered
from ottla.protocol.errors import Code
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from ottla.protocol.messages.describe_producers import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from ottla.protocol.messages.describe_transactions import DescribeTransactionsResponse, TopicData, TransactionState
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.list_transactions import ListTransactionsResponse
from ottla.protocol.messages.list_transactions import TransactionState as ListedTransaction
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from tests.client.scripted import ScriptedBroker, ScriptedCluster, metadata

NOW_MS = 10_000_000
LATE_MS = NOW_MS - transactions.MAX_TRANSACTION_TIMEOUT_MS - 1


def producers(*states: ProducerState) -> DescribeProducersResponse:
    partitions = [PartitionResponse(partition_index=0, active_producers=list(states))]
    return DescribeProducersResponse(topics=[TopicResponse(name="t", partitions=partitions)])


def described(code: int = 0, state: str = "Ongoing", start_ms: int = 5, partition: int = 0) -> DescribeTransactionsResponse:
    known = TransactionState(
        error_code=code,
        transactional_id="x",
        transaction_state=state,
        transaction_timeout_ms=60_000,
        transaction_start_time_ms=start_ms,
        producer_id=7,
        producer_epoch=3,
        topics=[TopicData(topic="t", partitions=[partition])],
    )
    return DescribeTransactionsResponse(transaction_states=[known])


def test_listed_transactional_ids_are_described_with_one_request_to_each_coordinator() -> None:
    answered = [described().transaction_states[0] for _ in range(3)]
    codes = (Code.NONE, Code.TRANSACTIONAL_ID_NOT_FOUND, Code.NONE)
    states = [
        msgspec.structs.replace(state, transactional_id=name, error_code=code)
        for state, name, code in zip(answered, "abc", codes, strict=True)
    ]
    scripted = broker(DescribeTransactions=[DescribeTransactionsResponse(transaction_states=states)])
    found = transactions.describe_listed(ScriptedCluster(kafka=scripted).brokers(), dict.fromkeys("abc", 1))
    assert [one.transactional_id for one in found] == ["a", "c"]
    assert scripted.names().count("DescribeTransactions") == 1


def test_listed_transactional_id_whose_coordinator_moved_is_described_alone() -> None:
    moved = described(Code.NOT_COORDINATOR)
    scripted = broker(DescribeTransactions=[moved, described()])
    found = transactions.describe_listed(ScriptedCluster(kafka=scripted).brokers(), {"x": 1})
    assert [(one.transactional_id, one.producer_id) for one in found] == [("x", 7)]
    assert scripted.names()[-2:] == ["FindCoordinator", "DescribeTransactions"]


def test_listed_transactional_ids_are_described_without_connections_to_other_brokers() -> None:
    """The dead broker 2 coordinates none of the ids."""
    nodes = metadata(nodes={1: "kafka", 2: "dead"}, leaders={})
    cluster = ScriptedCluster(kafka=broker(Metadata=[nodes]))
    assert [one.transactional_id for one in transactions.describe_listed(cluster.brokers(), {"x": 1})] == ["x"]
    assert cluster.pauses == []


def test_dead_coordinator_of_listed_transactional_ids_is_waited_for_once() -> None:
    cluster = ScriptedCluster(kafka=broker(Metadata=[metadata(nodes={1: "kafka", 2: "dead"}, leaders={})]))
    with pytest.raises(ClientError, match="dead:9092"):
        transactions.describe_listed(cluster.brokers(timeout_s=10), {"x": 2, "y": 2})
    assert cluster.now_s <= 11


def broker(**answers: Any) -> ScriptedBroker:
    marked = WritableTxnMarkerResult(
        producer_id=7,
        topics=[WritableTxnMarkerTopicResult(name="t", partitions=[WritableTxnMarkerPartitionResult(partition_index=0)])],
    )
    return ScriptedBroker(
        answers={
            "Metadata": [metadata(nodes={1: "kafka"}, leaders={"t": [1]})],
            "FindCoordinator": [FindCoordinatorResponse(coordinators=[Coordinator(key="x", node_id=1, host="kafka", port=9092)])],
            "ListTransactions": [
                ListTransactionsResponse(transaction_states=[ListedTransaction(transactional_id="x", producer_id=7)])
            ],
            "DescribeTransactions": [described()],
            "EndTxn": [EndTxnResponse(producer_id=7, producer_epoch=4)],
            "WriteTxnMarkers": [WriteTxnMarkersResponse(markers=[marked])],
            **answers,
        }
    )


def open_producer(producer_id: int = 7, last_ms: int = LATE_MS, start: int = 4, coordinator_epoch: int = -1) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=3,
        last_timestamp=last_ms,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=start,
    )


@pytest.mark.parametrize(
    ("state", "known", "hangs"),
    [
        (open_producer(), described(), False),
        (open_producer(), described(partition=5), True),
        (open_producer(), described(code=Code.TRANSACTIONAL_ID_NOT_FOUND), True),
        (open_producer(producer_id=8), described(), True),
        (open_producer(producer_id=8, last_ms=NOW_MS), described(), False),
        (open_producer(start=-1), described(), False),
    ],
    ids=["known", "of other partitions", "id expired", "nobody's", "young", "none open"],
)
def test_open_transaction_of_a_partition_unknown_to_its_coordinator_is_found_as_hanging(
    state: ProducerState, known: DescribeTransactionsResponse, hangs: bool
) -> None:
    scripted = broker(DescribeProducers=[producers(state)], DescribeTransactions=[known])
    hanging = transactions.find_hanging(ScriptedCluster(kafka=scripted).brokers(), ["t"], now_ms=NOW_MS)
    assert [h.transaction.start_offset for h in hanging] == ([4] if hangs else [])


@pytest.mark.parametrize(("known_epoch", "sent"), [(-1, 0), (0, 0), (12, 12)])
def test_abort_marker_has_the_coordinator_epoch_of_the_partition(known_epoch: int, sent: int) -> None:
    scripted = broker(DescribeProducers=[producers(open_producer(coordinator_epoch=known_epoch))])
    transactions.abort_in_partition(ScriptedCluster(kafka=scripted).brokers(), "t", 0, 4)
    (marker,) = scripted.asked[-1][2].markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result) == (7, 3, sent, False)


def test_abort_at_an_offset_without_a_transaction_writes_no_marker() -> None:
    scripted = broker(DescribeProducers=[producers(open_producer())])
    with pytest.raises(ClientError, match="no open transaction begins at offset 5 of t-0; open transactions begin at 4"):
        transactions.abort_in_partition(ScriptedCluster(kafka=scripted).brokers(), "t", 0, 5)
    assert "WriteTxnMarkers" not in scripted.names()


def test_abort_of_an_unknown_transactional_id_does_not_create_it() -> None:
    scripted = broker(DescribeTransactions=[described(code=Code.TRANSACTIONAL_ID_NOT_FOUND)])
    with pytest.raises(KafkaAnswered, match="ottla txn list shows the"):
        transactions.abort(ScriptedCluster(kafka=scripted).brokers(), "x")
    assert "InitProducerId" not in scripted.names()


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort", "Empty", "Dead"])
def test_ended_transaction_is_not_reported_as_open(state: str) -> None:
    # For transaction version 1, the coordinator reports the start time of an ended transaction too.
    scripted = broker(DescribeTransactions=[described(state=state, start_ms=5)])
    assert transactions.describe(ScriptedCluster(kafka=scripted).brokers(), "x").start_ms is None


def versions(level: int) -> ApiVersionsResponse:
    """Return the ApiVersions response of a cluster that has finalized ``transaction.version`` at ``level``."""
    keys = [ApiVersion(api_key=k, min_version=e.min_version, max_version=e.max_version) for k, e in APIS.items()]
    feature = FinalizedFeatureKey(name="transaction.version", max_version_level=level, min_version_level=level)
    return ApiVersionsResponse(api_keys=keys, finalized_features=[feature])


def test_transaction_abort_waits_for_a_completing_transaction() -> None:
    answers = [InitProducerIdResponse(error_code=Code.CONCURRENT_TRANSACTIONS), InitProducerIdResponse()]
    states = [described(), described(state="PrepareAbort"), described(state="CompleteAbort")]
    scripted = broker(InitProducerId=answers, DescribeTransactions=states)
    world = ScriptedCluster(kafka=scripted)
    assert transactions.abort(world.brokers(), "x").start_ms == 5
    assert scripted.asked[-1][2].transaction_timeout_ms == 60_000
    assert len(world.pauses) == 1


@pytest.mark.parametrize(("level", "version", "epoch_after"), [(2, 5, 4), (1, 4, 3)])
def test_transaction_abort_uses_the_producer_id_of_the_described_transaction(level: int, version: int, epoch_after: int) -> None:
    scripted = broker(
        ApiVersions=[versions(level)],
        DescribeTransactions=[described(), described(state="CompleteAbort")],
        InitProducerId=[InitProducerIdResponse()],
    )
    transactions.abort(ScriptedCluster(kafka=scripted).brokers(), "x")
    (end,) = [asked for asked in scripted.asked if asked[0] == "EndTxn"]
    assert (end[1], end[2].producer_id, end[2].producer_epoch, end[2].committed) == (version, 7, 3, False)
    fence = scripted.asked[-1][2]
    assert (scripted.names()[-1], fence.producer_id, fence.producer_epoch) == ("InitProducerId", 7, epoch_after)


@pytest.mark.parametrize("code", [Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TXN_STATE])
def test_transaction_abort_does_not_end_a_newer_transaction(code: Code) -> None:
    scripted = broker(EndTxn=[EndTxnResponse(error_code=code)])
    with pytest.raises(KafkaAnswered, match="it has ended meanwhile; ottla txn describe x shows the id's current state"):
        transactions.abort(ScriptedCluster(kafka=scripted).brokers(), "x")
    assert "InitProducerId" not in scripted.names(), "InitProducerId would abort the newer transaction"


@pytest.mark.parametrize(("state", "done"), [("Ongoing", "was aborted"), ("PrepareCommit", "no earlier one")])
def test_transaction_that_begins_during_the_abort_continues(state: str, done: str) -> None:
    scripted = broker(DescribeTransactions=[described(state=state), described()])
    with pytest.raises(KafkaAnswered, match=f"another transaction meanwhile, which is still open; .*{done}"):
        transactions.abort(ScriptedCluster(kafka=scripted).brokers(), "x")
    assert "InitProducerId" not in scripted.names()


def test_producer_fenced_during_the_abort_is_not_fenced_again() -> None:
    states = [described(), described(state="CompleteAbort")]
    fenced = InitProducerIdResponse(error_code=Code.PRODUCER_FENCED)
    scripted = broker(DescribeTransactions=states, InitProducerId=[fenced])
    assert transactions.abort(ScriptedCluster(kafka=scripted).brokers(), "x").is_ongoing


def test_transactional_id_without_a_transaction_has_no_start_time() -> None:
    scripted = broker(DescribeTransactions=[described(state="Empty", start_ms=-1)])
    assert transactions.describe(ScriptedCluster(kafka=scripted).brokers(), "x").start_ms is None
