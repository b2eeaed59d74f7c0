"""DescribeCluster: generated from protocol/schemas/describe_cluster.schema by protocol.codegen; do not edit."""

from __future__ import annotations

from struct import Struct as _Struct

import msgspec

from ottla.protocol.primitives import (
    Buffer,
    Put,
    compact_string,
    read_compact_length,
    read_compact_nullable_string,
    read_compact_string,
    skip_tags,
    uvarint,
)

_fmt_B_ = _Struct(">?")
_fmt_b = _Struct(">b")
_fmt_i = _Struct(">i")
_fmt_ih = _Struct(">ih")

API_KEY = 60

class DescribeClusterRequest(msgspec.Struct, gc=False):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


def _read_describe_cluster_request(buf: Buffer, pos: int, version: int) -> tuple[DescribeClusterRequest, int]:
    (include_cluster_authorized_operations,) = _fmt_B_.unpack_from(buf, pos)
    pos += 1
    endpoint_type: int = 1
    if version >= 1:
        (endpoint_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    include_fenced_brokers: bool = False
    if version >= 2:
        (include_fenced_brokers,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeClusterRequest(include_cluster_authorized_operations, endpoint_type, include_fenced_brokers), pos


def _write_describe_cluster_request(put: Put, m: DescribeClusterRequest, version: int) -> None:
    put(_fmt_B_.pack(m.include_cluster_authorized_operations))
    if version >= 1:
        put(_fmt_b.pack(m.endpoint_type))
    if version >= 2:
        put(_fmt_B_.pack(m.include_fenced_brokers))
    put(b"\0")


class DescribeClusterBroker(msgspec.Struct, gc=False):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


def _read_describe_cluster_broker(buf: Buffer, pos: int, version: int) -> tuple[DescribeClusterBroker, int]:
    (broker_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    host, pos = read_compact_string(buf, pos)
    (port,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    rack, pos = read_compact_nullable_string(buf, pos)
    is_fenced: bool = False
    if version >= 2:
        (is_fenced,) = _fmt_B_.unpack_from(buf, pos)
        pos += 1
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeClusterBroker(broker_id, host, port, rack, is_fenced), pos


def _write_describe_cluster_broker(put: Put, m: DescribeClusterBroker, version: int) -> None:
    put(_fmt_i.pack(m.broker_id))
    put(compact_string(m.host))
    put(_fmt_i.pack(m.port))
    put(compact_string(m.rack))
    if version >= 2:
        put(_fmt_B_.pack(m.is_fenced))
    put(b"\0")


class DescribeClusterResponse(msgspec.Struct, gc=False):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = []
    cluster_authorized_operations: int = -2147483648


def _read_describe_cluster_response(buf: Buffer, pos: int, version: int) -> tuple[DescribeClusterResponse, int]:
    throttle_time_ms, error_code = _fmt_ih.unpack_from(buf, pos)
    pos += 6
    error_message, pos = read_compact_nullable_string(buf, pos)
    endpoint_type: int = 1
    if version >= 1:
        (endpoint_type,) = _fmt_b.unpack_from(buf, pos)
        pos += 1
    cluster_id, pos = read_compact_string(buf, pos)
    (controller_id,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    _count, pos = read_compact_length(buf, pos)
    brokers: list[DescribeClusterBroker] = []
    for _ in range(_count):
        _brokers_item, pos = _read_describe_cluster_broker(buf, pos, version)
        brokers.append(_brokers_item)
    (cluster_authorized_operations,) = _fmt_i.unpack_from(buf, pos)
    pos += 4
    if buf[pos]:
        pos = skip_tags(buf, pos)
    else:
        pos += 1
    return DescribeClusterResponse(throttle_time_ms, error_code, error_message, endpoint_type, cluster_id, controller_id, brokers, cluster_authorized_operations), pos


def _write_describe_cluster_response(put: Put, m: DescribeClusterResponse, version: int) -> None:
    put(_fmt_ih.pack(m.throttle_time_ms, m.error_code))
    put(compact_string(m.error_message))
    if version >= 1:
        put(_fmt_b.pack(m.endpoint_type))
    put(compact_string(m.cluster_id))
    put(_fmt_i.pack(m.controller_id))
    put(uvarint(len(m.brokers) + 1))
    for item_brokers in m.brokers:
        _write_describe_cluster_broker(put, item_brokers, version)
    put(_fmt_i.pack(m.cluster_authorized_operations))
    put(b"\0")


decode_request = _read_describe_cluster_request
encode_request = _write_describe_cluster_request
decode_response = _read_describe_cluster_response
encode_response = _write_describe_cluster_response
