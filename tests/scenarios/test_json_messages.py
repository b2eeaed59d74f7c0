"""Requests are read from JSON, and responses are shown as JSON."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.records import batches, build_batch, read_records
from tests.scenarios.json_messages import Reader, Writer

NOW_MS = 1_700_000_000_000
TOPIC_ID = b"i" * 16


@pytest.fixture
def reader() -> Reader:
    return Reader({"t": TOPIC_ID}.__getitem__, NOW_MS)


@pytest.fixture
def writer() -> Writer:
    return Writer({TOPIC_ID: "t"}.__getitem__, lambda text: text.replace("secret", "masked"))


def test_omitted_fields_of_a_json_request_have_their_defaults(reader: Reader) -> None:
    read = reader.message(MetadataRequest, {"topics": [{"name": None, "topic_id": "t"}, {"name": "u"}]})
    assert read == MetadataRequest(topics=[MetadataRequestTopic(topic_id=TOPIC_ID, name=None), MetadataRequestTopic(name="u")])


def test_unknown_json_field_of_a_request_is_refused(reader: Reader) -> None:
    with pytest.raises(TypeError, match="HeartbeatRequest has no field generation"):
        reader.message(HeartbeatRequest, {"generation": 1})


def test_number_for_a_string_field_of_a_json_request_becomes_a_string(reader: Reader) -> None:
    assert reader.message(HeartbeatRequest, {"group_id": 1}).group_id == "1"


ASSIGNMENT = {"assignment": {"assigned_partitions": [{"topic": "t", "partitions": [3]}]}, "version": 1}


@pytest.mark.parametrize(
    ("field", "written", "expected"),
    [
        ("member_metadata", "text", b"text"),
        ("member_metadata", "0x00ff", b"\0\xff"),
        ("member_metadata", {"subscription": {"topics": ["t"]}}, b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"),
        ("member_assignment", ASSIGNMENT, b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\3\xff\xff\xff\xff"),
    ],
)
def test_json_response_encodes_bytes_fields_as_json_requests_do(
    reader: Reader, writer: Writer, field: str, written: object, expected: bytes
) -> None:
    read = reader.message(DescribedGroupMember, {field: written})
    assert getattr(read, field) == expected
    assert writer.fields(read) == {field: written}


def test_record_batch_of_a_json_request_has_the_given_records_and_producer(reader: Reader) -> None:
    content = {"batch": ["k=v", "w"], "times": 2, "producer_id": 7, "producer_epoch": 1, "base_sequence": 4, "compression": "gzip"}
    data = {"topic_data": [{"name": "t", "partition_data": [{"records": content}]}]}
    raw = reader.message(ProduceRequest, data).topic_data[0].partition_data[0].records
    ((_, header),) = batches(raw)
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.max_timestamp_ms) == (7, 1, 4, NOW_MS)
    assert [(record.key, record.value) for record in read_records(raw)] == [(b"k", b"v"), (None, b"w")] * 2


def test_json_request_may_damage_and_concatenate_record_batches(reader: Reader) -> None:
    content = [{"batch": ["v"]}, {"batch": ["v"], "byte": {"16": 9}, "cut": 1}]
    data = {"topic_data": [{"name": "t", "partition_data": [{"records": content}]}]}
    raw = reader.message(ProduceRequest, data).topic_data[0].partition_data[0].records
    good = bytes(build_batch([(None, b"v")], NOW_MS))
    assert raw[: len(good)] == good
    assert raw[len(good) :] == good[:16] + b"\x09" + good[17:-1]


def test_json_response_text_begins_with_the_error(writer: Writer) -> None:
    assert writer.response(HeartbeatResponse()) == "NONE"
    assert writer.response(HeartbeatResponse(error_code=25, throttle_time_ms=5)) == "UNKNOWN_MEMBER_ID"


def test_json_response_omits_or_masks_broker_specific_fields(writer: Writer) -> None:
    members = [DescribedGroupMember(member_id="z", client_host="/10.0.0.1"), DescribedGroupMember(member_id="secret")]
    described = DescribedGroup(error_code=3, error_message="why", group_id="g", members=members)
    assert writer.response(DescribeGroupsResponse(groups=[described])) == (
        '{"groups":[{"error_code":"UNKNOWN_TOPIC_OR_PARTITION","group_id":"g",'
        '"members":[{"member_id":"masked"},{"member_id":"z","client_host":"a host"}]}]}'
    )


def test_json_response_shows_records_batch_by_batch(writer: Writer) -> None:
    mine = build_batch([(b"k", b"v"), (None, b"w")], NOW_MS, producer_id=1, producer_epoch=2, base_sequence=3, transactional=True)
    whole = bytes(mine)
    data = PartitionData(high_watermark=2, records=whole + whole[:20])
    shown = writer.fields(FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]))
    (topic,) = shown["responses"]
    assert topic["topic_id"] == "t"
    assert topic["partitions"][0]["records"] == ["0-1 e-1 0x10 p e2 s3 k=v w", "and 20 bytes"]
