"""Records that consumer, streams and share groups write with common code equal those of each protocol's own Kafka schemas."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.coordinator.group.consumer.records import RECORDS as CONSUMER
from ottla.coordinator.group.consumer.records import REGEX, regex_record
from ottla.coordinator.group.modern.records import ModernRecords, group_key, member_key
from ottla.coordinator.group.share.records import RECORDS as SHARE
from ottla.coordinator.group.streams.records import RECORDS as STREAMS
from ottla.protocol.codec import encode_record
from ottla.protocol.messages import (
    consumer_group_regular_expression_key,
    consumer_group_target_assignment_metadata_value,
    share_group_target_assignment_member_value,
    share_group_target_assignment_metadata_value,
    streams_group_target_assignment_metadata_value,
)

TARGET_EPOCHS: dict[int, Any] = {
    CONSUMER.target_metadata: consumer_group_target_assignment_metadata_value.ConsumerGroupTargetAssignmentMetadataValue,
    SHARE.target_metadata: share_group_target_assignment_metadata_value.ShareGroupTargetAssignmentMetadataValue,
    STREAMS.target_metadata: streams_group_target_assignment_metadata_value.StreamsGroupTargetAssignmentMetadataValue,
}
MODULES = {
    CONSUMER.target_metadata: consumer_group_target_assignment_metadata_value,
    SHARE.target_metadata: share_group_target_assignment_metadata_value,
    STREAMS.target_metadata: streams_group_target_assignment_metadata_value,
}


def own_key(kind: int, schema: Any, **fields: str) -> bytes:
    name = schema.__name__.rpartition(".")[2].title().replace("_", "")
    return kind.to_bytes(2, "big") + encode_record(schema, getattr(schema, name)(**fields), 0)[2:]


@pytest.mark.parametrize("records", [CONSUMER, SHARE, STREAMS])
def test_each_group_type_writes_keys_of_its_own_record_schema(records: ModernRecords) -> None:
    for kind in (records.metadata, records.target_metadata):
        assert group_key(kind, "größe") == own_key(kind, records.keys[kind], group_id="größe")
    for kind in (records.member, records.target_member, records.current):
        assert member_key(kind, "g", "m") == own_key(kind, records.keys[kind], group_id="g", member_id="m")


@pytest.mark.parametrize("records", [CONSUMER, SHARE, STREAMS])
@pytest.mark.parametrize("assigned_ms", [0, 99])
def test_target_epoch_is_read_from_the_record_schema_of_the_group_type(records: ModernRecords, assigned_ms: int) -> None:
    value = TARGET_EPOCHS[records.target_metadata](assignment_epoch=3, assignment_timestamp=assigned_ms)
    record = records.target_epoch_record("g", 3, assigned_ms)
    assert record.value == encode_record(MODULES[records.target_metadata], value, 0)


def test_target_record_of_a_share_group_uses_the_share_group_schema() -> None:
    schema = share_group_target_assignment_member_value
    value = schema.ShareGroupTargetAssignmentMemberValue([schema.TopicPartition(topic_id=b"t" * 16, partitions=[1, 5])])
    assert SHARE.target_record("g", "m", {b"t" * 16: frozenset({5, 1})}).value == encode_record(schema, value, 0)


def test_regular_expression_record_key_uses_its_own_schema() -> None:
    key = own_key(REGEX, consumer_group_regular_expression_key, group_id="g", regular_expression="a.*")
    assert regex_record("g", "a.*", frozenset(), 0).key == key
