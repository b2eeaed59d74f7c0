"""WriteTxnMarkers: generated from protocol/schemas/write_txn_markers.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import pack, unpack_from, Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")
_fmt_q = _Struct(">q")
_fmt_qhB_ = _Struct(">qh?")

API_KEY = 27

class WritableTxnMarkerTopic(msgspec.Struct, gc=False):
    name: str = ""
    partition_indexes: list[int] = []


def _read_writable_txn_marker_topic(buf: Buffer, pos: int, version: int) -> tuple[WritableTxnMarkerTopic, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partition_indexes: list[int] = list(unpack_from(f">{_count}i", buf, pos))
    pos += 4 * _count
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WritableTxnMarkerTopic(name, partition_indexes), pos


def _write_writable_txn_marker_topic(put: Put, m: WritableTxnMarkerTopic, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partition_indexes) + 1))
    put(pack(f">{len(m.partition_indexes)}i", *m.partition_indexes))
    put(b"\0")


class WritableTxnMarker(msgspec.Struct, gc=False):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = []
    coordinator_epoch: int = 0
    transaction_version: int = 0


def _read_writable_txn_marker(buf: Buffer, pos: int, version: int) -> tuple[WritableTxnMarker, int]:
    producer_id, producer_epoch, transaction_result = _fmt_qhB_.unpack_from(buf, pos)
    pos += 11
    _count, pos = read_compact_length(buf, pos)
    topics: list[WritableTxnMarkerTopic] = []
    for _ in range(_count):
        _topics_item, pos = _read_writable_txn_marker_topic(buf, pos, version)
        topics.append(_topics_item)
    (coordinator_epoch,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    transaction_version: int = 0
    if version >= 2:
        (transaction_version,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WritableTxnMarker(producer_id, producer_epoch, transaction_result, topics, coordinator_epoch, transaction_version), pos


def _write_writable_txn_marker(put: Put, m: WritableTxnMarker, version: int) -> None:
    put(_fmt_qhB_.pack(m.producer_id, m.producer_epoch, m.transaction_result))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_writable_txn_marker_topic(put, item_topics, version)
    put(_fmt_i.pack(m.coordinator_epoch))
    if version >= 2:
        put(_fmt_b.pack(m.transaction_version))
    put(b"\0")


class WriteTxnMarkersRequest(msgspec.Struct, gc=False):
    markers: list[WritableTxnMarker] = []


def _read_write_txn_markers_request(buf: Buffer, pos: int, version: int) -> tuple[WriteTxnMarkersRequest, int]:
    _count, pos = read_compact_length(buf, pos)
    markers: list[WritableTxnMarker] = []
    for _ in range(_count):
        _markers_item, pos = _read_writable_txn_marker(buf, pos, version)
        markers.append(_markers_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WriteTxnMarkersRequest(markers), pos


def _write_write_txn_markers_request(put: Put, m: WriteTxnMarkersRequest, version: int) -> None:
    put(uvarint(len(m.markers) + 1))
    for item_markers in m.markers:
        _write_writable_txn_marker(put, item_markers, version)
    put(b"\0")


class WritableTxnMarkerPartitionResult(msgspec.Struct, gc=False):
    partition_index: int = 0
    error_code: int = 0


def _read_writable_txn_marker_partition_result(buf: Buffer, pos: int, version: int) -> tuple[WritableTxnMarkerPartitionResult, int]:
    partition_index, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WritableTxnMarkerPartitionResult(partition_index, error_code), pos


def _write_writable_txn_marker_partition_result(put: Put, m: WritableTxnMarkerPartitionResult, version: int) -> None:
    put(_fmt_ih.pack(m.partition_index, m.error_code))
    put(b"\0")


class WritableTxnMarkerTopicResult(msgspec.Struct, gc=False):
    name: str = ""
    partitions: list[WritableTxnMarkerPartitionResult] = []


def _read_writable_txn_marker_topic_result(buf: Buffer, pos: int, version: int) -> tuple[WritableTxnMarkerTopicResult, int]:
    name, pos = read_compact_string(buf, pos)
    _count, pos = read_compact_length(buf, pos)
    partitions: list[WritableTxnMarkerPartitionResult] = []
    for _ in range(_count):
        _partitions_item, pos = _read_writable_txn_marker_partition_result(buf, pos, version)
        partitions.append(_partitions_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WritableTxnMarkerTopicResult(name, partitions), pos


def _write_writable_txn_marker_topic_result(put: Put, m: WritableTxnMarkerTopicResult, version: int) -> None:
    put(compact_string(m.name))
    put(uvarint(len(m.partitions) + 1))
    for item_partitions in m.partitions:
        _write_writable_txn_marker_partition_result(put, item_partitions, version)
    put(b"\0")


class WritableTxnMarkerResult(msgspec.Struct, gc=False):
    producer_id: int = 0
    topics: list[WritableTxnMarkerTopicResult] = []


def _read_writable_txn_marker_result(buf: Buffer, pos: int, version: int) -> tuple[WritableTxnMarkerResult, int]:
    (producer_id,) = _fmt_q.unpack_from(buf, pos)
    pos += 8
    _count, pos = read_compact_length(buf, pos)
    topics: list[WritableTxnMarkerTopicResult] = []
    for _ in range(_count):
        _topics_item, pos = _read_writable_txn_marker_topic_result(buf, pos, version)
        topics.append(_topics_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WritableTxnMarkerResult(producer_id, topics), pos


def _write_writable_txn_marker_result(put: Put, m: WritableTxnMarkerResult, version: int) -> None:
    put(_fmt_q.pack(m.producer_id))
    put(uvarint(len(m.topics) + 1))
    for item_topics in m.topics:
        _write_writable_txn_marker_topic_result(put, item_topics, version)
    put(b"\0")


class WriteTxnMarkersResponse(msgspec.Struct, gc=False):
    markers: list[WritableTxnMarkerResult] = []


def _read_write_txn_markers_response(buf: Buffer, pos: int, version: int) -> tuple[WriteTxnMarkersResponse, int]:
    _count, pos = read_compact_length(buf, pos)
    markers: list[WritableTxnMarkerResult] = []
    for _ in range(_count):
        _markers_item, pos = _read_writable_txn_marker_result(buf, pos, version)
        markers.append(_markers_item)
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return WriteTxnMarkersResponse(markers), pos


def _write_write_txn_markers_response(put: Put, m: WriteTxnMarkersResponse, version: int) -> None:
    put(uvarint(len(m.markers) + 1))
    for item_markers in m.markers:
        _write_writable_txn_marker_result(put, item_markers, version)
    put(b"\0")


decode_request = _read_write_txn_markers_request
encode_request = _write_write_txn_markers_request
decode_response = _read_write_txn_markers_response
encode_response = _write_write_txn_markers_response
