"""Decoding the records of internal topics: offsets, groups, transaction states and cluster metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.records.internal_topics import _kinds, _metadata_kinds, read
from ottla.coordinator.group.consumer.records import epoch_record
from ottla.coordinator.group.records import CommittedOffset, offset_record, offset_tombstone
from ottla.protocol import messages
from ottla.protocol.errors import DecodeError
from ottla.protocol.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from tests.dump.test_files import FIRST, dumped


def test_dump_decodes_records_of_transaction_state(directory: Path) -> None:
    (log,) = (path for path in directory.glob(f"{TRANSACTION_TOPIC}-*/{FIRST}.log") if path.stat().st_size)
    states = [entry for entry in dumped(log) if entry["kind"] == "record"]
    assert {state["type"] for state in states} == {"TransactionLog"}
    assert {state["key"]["transactional_id"] for state in states} == {"a"}
    assert [state["value"]["transaction_status"] for state in states] == [0, 1, 2, 4, 1, 3, 5]
    assert states[1]["value"]["transaction_partitions"] == [{"topic": "t", "partition_ids": [0]}]


def test_dump_decodes_records_of_cluster_metadata(directory: Path) -> None:
    records = [entry for entry in dumped(directory / f"{METADATA_TOPIC}-0" / f"{FIRST}.log") if entry["kind"] == "record"]
    topics = {entry["value"]["name"]: entry["value"]["topic_id"] for entry in records if entry["type"] == "TopicRecord"}
    assert "t" in topics
    assert len(topics["t"]) == 22
    assert not any("undecodable" in entry for entry in records)


def test_dump_decodes_records_of_consumer_offsets() -> None:
    committed = offset_record(("g", "t", 0), CommittedOffset(7, -1, "mine", 1))
    said = read(OFFSETS_TOPIC, committed.key, committed.value)
    assert said is not None
    assert (said["type"], said["key"], said["value"]["offset"]) == ("OffsetCommit", {"group": "g", "topic": "t", "partition": 0}, 7)
    gone = offset_tombstone(("g", "t", 0))
    assert read(OFFSETS_TOPIC, gone.key, None) == {"type": "OffsetCommit", "key": said["key"], "value": None}
    group = epoch_record("g", 3, 0)
    assert read(OFFSETS_TOPIC, group.key, group.value) == {
        "type": "ConsumerGroupMetadata",
        "key": {"group_id": "g"},
        "value": {"epoch": 3, "metadata_hash": 0},
    }


def test_record_types_of_an_internal_topic_have_unique_numbers() -> None:
    of_groups = [
        path
        for path in Path(messages.__path__[0]).glob("*_key.py")
        if not path.name.startswith(("transaction_", "share_s", "share_u"))
    ]
    assert len(_kinds(OFFSETS_TOPIC)) == len(of_groups) + 1
    assert set(_kinds(SHARE_STATE_TOPIC).values()) == {"share_snapshot", "share_update"}
    assert set(_kinds(TRANSACTION_TOPIC).values()) == {"transaction_log"}
    assert len(_metadata_kinds()) >= 9


@pytest.mark.parametrize(
    ("topic", "key", "value"),
    [
        (OFFSETS_TOPIC, None, b"v"),
        (OFFSETS_TOPIC, b"\0", b"v"),
        (OFFSETS_TOPIC, b"\0\x63", b"v"),
        (TRANSACTION_TOPIC, b"\0\0", b"v"),
        (TRANSACTION_TOPIC, b"\0\0\0\x01a", b"\0\x63"),
        (METADATA_TOPIC, None, None),
        (METADATA_TOPIC, None, b"\x01"),
        (METADATA_TOPIC, None, b"\x01\x7f\0"),
    ],
)
def test_dump_reports_a_malformed_record_of_an_internal_topic(topic: str, key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        read(topic, key, value)


def test_dump_does_not_decode_records_of_user_topics() -> None:
    assert read("orders", b"k", b"v") is None
