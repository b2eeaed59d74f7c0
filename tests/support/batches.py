"""Batches that no Kafka client builds, such as malformed ones, built byte by byte."""

from __future__ import annotations

from crc32c import crc32c

from ottla.protocol.records import CRC_START, HEADER, HEADER_BYTES, LENGTH_OVERHEAD


def varint(value: int) -> bytes:
    """Return the zigzag varint encoding that records use."""
    coded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while coded > 0x7F:
        out.append(coded & 0x7F | 0x80)
        coded >>= 7
    return bytes([*out, coded])


def record(
    *,
    delta: int = 0,
    timestamp_delta_ms: int = 0,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    key_length: int | None = None,
    value_length: int | None = None,
    headers: bytes = b"\0",
    tail: bytes = b"",
    length: int | None = None,
) -> bytes:
    """Return one encoded record. Its lengths may deliberately be wrong."""
    parts = [b"\0", varint(timestamp_delta_ms), varint(delta)]
    for data, said in ((key, key_length), (value, value_length)):
        parts += [varint(said if said is not None else -1 if data is None else len(data)), data or b""]
    body = b"".join([*parts, headers, tail])
    return varint(len(body) if length is None else length) + body


def batch(
    payload: bytes,
    *,
    count: int = 1,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    timestamp_ms: int = 0,
    max_timestamp_ms: int | None = None,
    producer: tuple[int, int, int] = (-1, -1, -1),
    magic: int = 2,
) -> bytes:
    """Return a v2 batch with a valid CRC around any payload."""
    delta = count - 1 if last_offset_delta is None else last_offset_delta
    raw = bytearray(HEADER_BYTES)
    length = HEADER_BYTES - LENGTH_OVERHEAD + len(payload)
    max_timestamp_ms = timestamp_ms if max_timestamp_ms is None else max_timestamp_ms
    HEADER.pack_into(raw, 0, 0, length, -1, magic, 0, attributes, delta, timestamp_ms, max_timestamp_ms, *producer, count)
    raw += payload
    raw[17:21] = crc32c(bytes(raw[CRC_START:])).to_bytes(4, "big")
    return bytes(raw)
