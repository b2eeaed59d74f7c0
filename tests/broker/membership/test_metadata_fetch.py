"""How an observer interprets the responses to its fetches of the metadata log."""

from __future__ import annotations

import pytest

from ottla.broker.membership.metadata_fetch import METADATA_TOPIC_ID, FetchOutcome, MetadataFetch, Step
from ottla.protocol.errors import Code
from ottla.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)


@pytest.fixture
def fetch() -> MetadataFetch:
    return MetadataFetch("abc", 2, b"d" * 16)


def answer(partition: PartitionData, topic_id: bytes = METADATA_TOPIC_ID) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=topic_id, partitions=[partition])])


def epoch(fetch: MetadataFetch) -> int:
    return fetch.request(0, 0).topics[0].partitions[0].current_leader_epoch


def test_metadata_fetch_contains_broker_id_cluster_id_and_position(fetch: MetadataFetch) -> None:
    request = fetch.request(17, 3)
    partition = request.topics[0].partitions[0]
    assert request.replica_state is not None
    assert (request.cluster_id, request.replica_state.replica_id, request.topics[0].topic_id) == ("abc", 2, METADATA_TOPIC_ID)
    assert (partition.fetch_offset, partition.last_fetched_epoch, partition.replica_directory_id) == (17, 3, b"d" * 16)


def test_metadata_fetch_repeats_with_the_leader_epoch_of_the_error_response(fetch: MetadataFetch) -> None:
    leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=7)
    taken = fetch.take(answer(PartitionData(error_code=Code.FENCED_LEADER_EPOCH, current_leader=leader)))
    assert taken.step is Step.ASK_AGAIN
    assert epoch(fetch) == 7


@pytest.mark.parametrize("code", [Code.FENCED_LEADER_EPOCH, Code.UNKNOWN_LEADER_EPOCH, Code.NOT_LEADER_OR_FOLLOWER])
def test_metadata_fetch_waits_after_an_error_response_without_a_newer_epoch(fetch: MetadataFetch, code: Code) -> None:
    fetch.leader_epoch = 7
    older = LeaderIdAndEpoch(leader_id=3, leader_epoch=6)
    assert fetch.take(answer(PartitionData(error_code=code, current_leader=older))).step is Step.WAIT
    assert epoch(fetch) == 7


def test_fetched_metadata_is_appended_and_the_high_watermark_never_decreases(fetch: MetadataFetch) -> None:
    taken = fetch.take(answer(PartitionData(high_watermark=5, records=b"batches")))
    assert taken == FetchOutcome(step=Step.APPEND, records=b"batches", high_watermark=5)
    assert fetch.take(answer(PartitionData(high_watermark=-1))).high_watermark == 5
    assert fetch.request(0, 0).topics[0].partitions[0].high_watermark == 5


def test_metadata_fetch_uses_a_newer_leader_epoch_of_a_response_with_records(fetch: MetadataFetch) -> None:
    taken = fetch.take(answer(PartitionData(records=b"x", current_leader=LeaderIdAndEpoch(leader_id=3, leader_epoch=9))))
    assert taken.step is Step.APPEND
    assert epoch(fetch) == 9


def test_diverging_epoch_in_a_metadata_fetch_truncates_the_log(fetch: MetadataFetch) -> None:
    taken = fetch.take(answer(PartitionData(diverging_epoch=EpochEndOffset(epoch=4, end_offset=30))))
    assert (taken.step, taken.end_offset, taken.epoch) == (Step.TRUNCATE, 30, 4)


def test_metadata_snapshot_is_fetched_when_the_fetch_offset_was_deleted(fetch: MetadataFetch) -> None:
    taken = fetch.take(answer(PartitionData(snapshot_id=SnapshotId(end_offset=900, epoch=2))))
    assert (taken.step, taken.end_offset, taken.epoch) == (Step.SNAPSHOT, 900, 2)


@pytest.mark.parametrize(
    "response",
    [
        FetchResponse(error_code=Code.INCONSISTENT_CLUSTER_ID),
        FetchResponse(),
        answer(PartitionData(), topic_id=b"o" * 16),
        answer(PartitionData(partition_index=1, records=b"x")),
        answer(PartitionData(error_code=Code.UNKNOWN_SERVER_ERROR, records=b"x")),
    ],
)
def test_metadata_fetch_response_with_an_error_or_another_partition_appends_no_records(
    fetch: MetadataFetch, response: FetchResponse
) -> None:
    taken = fetch.take(response)
    assert taken.step is Step.WAIT
    assert taken.reason
    assert taken.records == b""
