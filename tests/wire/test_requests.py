"""Rules of the exactly-once protocol that stock clients do not reach, request by request."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from coordinator.result import LogRecord, partition_for
from coordinator.transaction.metadata import from_record, to_record
from coordinator.transaction.states import TxnState
from ottla import Broker
from protocol.errors import Code
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.records import batches, build_batch, read_records
from storage.config import LogConfig
from storage.log import Log
from storage.real_filesystem import RealFilesystem
from storage.recovery import open_log
from tests.raw import RawClient, make, retry

pytestmark = pytest.mark.wire

Identity = InitProducerIdResponse
NOT_READY = {Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR}


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    with RawClient(bootstrap) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient, ottla_topic: str) -> str:
    make(raw, ottla_topic)
    return ottla_topic


def init(client: RawClient, transactional_id: str | None, pid: int = -1, epoch: int = -1, version: int = 5) -> Identity:
    """Asks until the coordinator is there, which with Apache Kafka takes a moment."""
    client.call(FindCoordinatorRequest(key=transactional_id or "", key_type=1), 3)
    request = InitProducerIdRequest(transactional_id, 60_000, pid, epoch)
    found: Identity = retry(lambda: client.call(request, version), lambda answer: answer.error_code not in NOT_READY)
    return found


def produce(
    client: RawClient,
    topic: str,
    who: Identity,
    sequence: int,
    *,
    transactional_id: str | None = None,
    transactional: bool = True,
    version: int = 12,
    value: bytes = b"v",
) -> PartitionProduceResponse:
    batch = build_batch(
        [(None, value)],
        time.time_ns() // 1_000_000,
        producer_id=who.producer_id,
        producer_epoch=who.producer_epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    data = [TopicProduceData(topic, partition_data=[PartitionProduceData(0, bytes(batch))])]
    answer: PartitionProduceResponse = (
        client.call(ProduceRequest(transactional_id, -1, 1_000, data), version).responses[0].partition_responses[0]
    )
    return answer


def end(client: RawClient, transactional_id: str, who: Identity, *, commit: bool, version: int = 5) -> EndTxnResponse:
    """Asks again while an earlier end is still being carried out, as Apache Kafka does behind its answer."""
    request = EndTxnRequest(transactional_id, who.producer_id, who.producer_epoch, commit)
    answer: EndTxnResponse = retry(
        lambda: client.call(request, version), lambda found: found.error_code != Code.CONCURRENT_TRANSACTIONS
    )
    return answer


def add(client: RawClient, transactional_id: str, who: Identity, topic: str, version: int = 3) -> Code:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=who.producer_id,
        v3_and_below_producer_epoch=who.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(topic, [0])],
    )
    answer = client.call(request, version)
    return Code(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def end_offset(client: RawClient, topic: str, *, committed: bool = False) -> int:
    asked = [ListOffsetsTopic(topic, [ListOffsetsPartition(0, -1, -1)])]
    return int(client.call(ListOffsetsRequest(-1, int(committed), asked)).topics[0].partitions[0].offset)


def visible(client: RawClient, topic: str) -> list[bytes | None]:
    """Data records below the last stable offset that no aborted transaction wrote."""
    asked = [FetchTopic(topic, partitions=[FetchPartition(0, -1, 0, partition_max_bytes=1 << 20)])]
    answer = client.call(FetchRequest(max_wait_ms=0, isolation_level=1, topics=asked), 11).responses[0].partitions[0]
    aborted = sorted((a.first_offset, a.producer_id) for a in answer.aborted_transactions or ())
    data = bytes(answer.records or b"")
    found: list[bytes | None] = []
    hidden: set[int] = set()
    for at, header in batches(data):
        raw = data[at : at + header.size_bytes]
        while aborted and aborted[0][0] <= header.last_offset:
            hidden.add(aborted.pop(0)[1])
        if header.is_control:
            hidden.discard(header.producer_id)
        elif header.producer_id not in hidden:
            found += [r.value for r in read_records(raw)]
    return found


@pytest.mark.parametrize(
    ("version", "code"), [(9, Code.INVALID_TXN_STATE), (10, Code.INVALID_TXN_STATE), (11, Code.TRANSACTION_ABORTABLE)]
)
def test_a_partition_that_was_not_added_is_refused(raw: RawClient, topic: str, version: int, code: Code) -> None:
    who = init(raw, topic)
    assert produce(raw, topic, who, 0, transactional_id=topic, version=version).error_code == code
    assert end_offset(raw, topic) == 0
    assert add(raw, topic, who, topic) is Code.NONE
    assert produce(raw, topic, who, 0, transactional_id=topic, version=version).error_code == 0
    assert end_offset(raw, topic, committed=True) == 0


def test_newer_clients_add_by_producing_and_bump_by_ending(raw: RawClient, topic: str) -> None:
    who = init(raw, topic)
    for n in range(3):
        assert produce(raw, topic, who, 0, transactional_id=topic, value=b"%d" % n).error_code == 0
        ended = end(raw, topic, who, commit=n != 1)
        assert (ended.error_code, ended.producer_id, ended.producer_epoch) == (0, who.producer_id, who.producer_epoch + 1)
        again = end(raw, topic, who, commit=n != 1)
        assert again.producer_epoch == ended.producer_epoch, "a retry finds it done"
        stale = produce(raw, topic, who, 1, transactional_id=topic)
        assert stale.error_code == Code.INVALID_PRODUCER_EPOCH
        who = Identity(producer_id=ended.producer_id, producer_epoch=ended.producer_epoch)
    assert visible(raw, topic) == [b"0", b"2"]


def test_first_sequence_of_a_newer_client_must_be_zero(raw: RawClient, topic: str) -> None:
    who = init(raw, topic)
    assert produce(raw, topic, who, 7, transactional_id=topic).error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    plain = init(raw, None)
    assert produce(raw, topic, plain, 7, transactional=False).error_code == 0


def test_transactional_batches_need_the_transactional_id(raw: RawClient, topic: str) -> None:
    who, other = init(raw, topic), init(raw, topic + "-other")
    assert produce(raw, topic, who, 0).error_code == Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    options = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = [
        PartitionProduceData(i, bytes(build_batch([(None, b"v")], 1, producer_id=w.producer_id, **options)))  # type: ignore[arg-type]
        for i, w in enumerate((who, other))
    ]
    request = ProduceRequest(topic, -1, 1_000, [TopicProduceData(topic, partition_data=data)])
    codes = {p.index: p.error_code for p in raw.call(request, 12).responses[0].partition_responses}
    assert codes == {0: Code.NONE, 1: Code.UNKNOWN_TOPIC_OR_PARTITION}, "a partition that is not there does not count"
    raw.call(CreatePartitionsRequest([CreatePartitionsTopic(topic, 2, None)], 5_000))
    answer = raw.call(request, 12)
    assert {p.error_code for p in answer.responses[0].partition_responses} == {Code.INVALID_PRODUCER_ID_MAPPING}


@pytest.mark.parametrize(("version", "code"), [(3, Code.INVALID_PRODUCER_EPOCH), (4, Code.PRODUCER_FENCED)])
def test_fencing_is_spelled_by_version(raw: RawClient, topic: str, version: int, code: Code) -> None:
    who = init(raw, topic)
    init(raw, topic)
    init(raw, topic)
    assert init(raw, topic, who.producer_id, who.producer_epoch, version).error_code == code
    for end_version in range(5):
        expected = Code.INVALID_PRODUCER_EPOCH if end_version < 2 else Code.PRODUCER_FENCED
        assert end(raw, topic, who, commit=True, version=end_version).error_code == expected
        assert add(raw, topic, who, topic, min(end_version, 3)) == expected


def test_bad_initialisations(raw: RawClient) -> None:
    assert init(raw, "").error_code == Code.INVALID_REQUEST
    assert init(raw, "x", pid=5).error_code == Code.INVALID_REQUEST
    assert raw.call(InitProducerIdRequest("x", 900_001), 5).error_code == Code.INVALID_TRANSACTION_TIMEOUT
    assert raw.call(DescribeTransactionsRequest(["x"])).transaction_states[0].error_code == Code.TRANSACTIONAL_ID_NOT_FOUND
    assert init(raw, None).producer_id != init(raw, None).producer_id


def test_internal_topics_are_not_for_clients(raw: RawClient) -> None:
    make(raw, "__consumer_offsets")
    assert produce(raw, "__consumer_offsets", init(raw, None), 0, transactional=False).error_code == Code.INVALID_TOPIC_EXCEPTION


def commit_offset(client: RawClient, name: str, who: Identity, topic: str, offset: int, version: int, generation: int = -1) -> Code:
    request = TxnOffsetCommitRequest(
        name,
        name,
        who.producer_id,
        who.producer_epoch,
        generation,
        topics=[TxnOffsetCommitRequestTopic(topic, [TxnOffsetCommitRequestPartition(0, offset)])],
    )
    answer = retry(lambda: client.call(request, version), lambda found: found.topics[0].partitions[0].error_code not in NOT_READY)
    return Code(answer.topics[0].partitions[0].error_code)


def committed(client: RawClient, group: str, topic: str, *, stable: bool) -> tuple[Code, int]:
    asked = [OffsetFetchRequestGroup(group, topics=[OffsetFetchRequestTopics(topic, partition_indexes=[0])])]
    found = client.call(OffsetFetchRequest(groups=asked, require_stable=stable), 8).groups[0].topics[0].partitions[0]
    return Code(found.error_code), found.committed_offset


@pytest.mark.parametrize("version", [0, 2, 3, 4, 5])
def test_offsets_in_a_transaction(raw: RawClient, topic: str, version: int) -> None:
    name, who = topic, init(raw, topic)
    make(raw, "__consumer_offsets")
    if version < 5:
        code = Code.INVALID_TXN_STATE if version < 4 else Code.TRANSACTION_ABORTABLE
        assert commit_offset(raw, name, who, topic, 5, version) is code
        assert raw.call(AddOffsetsToTxnRequest(name, who.producer_id, who.producer_epoch, name), 3).error_code == 0
    assert commit_offset(raw, name, who, topic, 5, version) is Code.NONE
    assert committed(raw, name, topic, stable=False) == (Code.NONE, -1)
    assert committed(raw, name, topic, stable=True)[0] is Code.UNSTABLE_OFFSET_COMMIT
    if version >= 3:
        assert commit_offset(raw, name, who, topic, 5, version, generation=7) is Code.UNKNOWN_MEMBER_ID
    assert end(raw, name, who, commit=True, version=5 if version == 5 else 4).error_code == 0
    found = retry(lambda: committed(raw, name, topic, stable=True), lambda answer: answer[0] is Code.NONE)
    assert found == (Code.NONE, 5)


def test_a_topic_made_again_begins_empty(raw: RawClient, topic: str) -> None:
    who = init(raw, None)
    for i in range(8):
        produce(raw, topic, who, i, transactional=False)
    assert raw.call(DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=5_000)).responses[0].error_code == 0
    make(raw, topic)
    assert end_offset(raw, topic) == 0
    assert produce(raw, topic, who, 8, transactional=False).base_offset == 0


def test_producer_ids_are_never_given_twice() -> None:
    seen: set[int] = set()
    with Broker() as broker:
        for kill in (True, False, True):
            with RawClient(broker.bootstrap) as client:
                seen |= {init(client, None).producer_id for _ in range(10)}
            broker.restart(kill=kill)
        with RawClient(broker.bootstrap) as client:
            seen |= {init(client, None).producer_id for _ in range(10)}
    assert len(seen) == 40


@pytest.mark.parametrize("decision", [TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT])
def test_a_decided_transaction_is_ended_by_the_next_start(tmp_path: Path, decision: TxnState) -> None:
    """As after a crash between the Prepare record and the first marker."""
    broker = Broker(data_dir=tmp_path)
    with broker:
        with RawClient(broker.bootstrap) as client:
            make(client, "t")
            who = init(client, "decided")
            assert produce(client, "t", who, 0, transactional_id="decided").error_code == 0
        broker.stop()
        partition = partition_for("decided", 50)
        log = Log(
            RealFilesystem(), str(tmp_path / f"__transaction_state-{partition}"), "__transaction_state", partition, LogConfig()
        )
        open_log(log, 1, clean=True)
        newest = [record for _, _, batch in log.active.scan() for record in read_records(batch)][-1]
        _, metadata = from_record(LogRecord(newest.key, newest.value))
        assert metadata is not None
        assert metadata.state is TxnState.ONGOING
        bumped = msgspec.structs.replace(metadata, state=decision, producer_epoch=metadata.producer_epoch + 1)
        prepared = to_record(bumped, flexible=True)
        log.append_own(build_batch([(prepared.key, prepared.value)], 1), 1)
        log.close()
        broker.start()
        with RawClient(broker.bootstrap) as client:
            state = client.call(DescribeTransactionsRequest(["decided"])).transaction_states[0]
            outcome = decision.label.replace("Prepare", "Complete")
            assert state.transaction_state == outcome
            assert visible(client, "t") == ([b"v"] if outcome == "CompleteCommit" else [])
            assert end_offset(client, "t", committed=True) == 2


def test_strays_are_set_aside(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path)
    with broker:
        with RawClient(broker.bootstrap) as client:
            make(client, "t")
            produce(client, "t", init(client, None), 0, transactional=False)
        broker.stop()
        (tmp_path / "t-0").rename(tmp_path / "ghost-0")
        broker.start()
        assert [p.name for p in tmp_path.glob("ghost-0*")] != ["ghost-0"]
        assert any("stray_directory_set_aside" in line for line in broker.logs)
        with RawClient(broker.bootstrap) as client:
            make(client, "ghost")
            assert end_offset(client, "ghost") == 0
            assert produce(client, "ghost", init(client, None), 0, transactional=False).base_offset == 0
