"""Record batches for Produce requests: valid ones, and ones with a valid CRC but wrong header, records or compression."""

from __future__ import annotations

import gzip
import random

import msgspec

from ottla.protocol.records import GZIP, HEADER, HEADER_BYTES, build_batch, compress, pack_batch, read_header, renew_crc
from tests.fuzz.vocabulary import Cast
from tests.support.batches import batch, record

BOMB_BYTES = 4 << 20
"""Decompressed size of the largest compressed batch, in bytes."""
HEADER_FIELDS = ("base_offset", "length", "leader_epoch", "magic", "crc", "attributes", "last_offset_delta", "base_timestamp_ms",
                 "max_timestamp_ms", "producer_id", "producer_epoch", "base_sequence", "record_count")  # fmt: skip
_WIDTHS = (64, 32, 32, 8, 32, 16, 32, 64, 64, 64, 16, 32, 32)
ATTRIBUTES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 0x10, 0x20, 0x30, 0x31, 0x40, 0x80, 0x7FFF, -1, 0x18, 0x38)


def squeezed(payload: bytes, compression: int) -> bytes:
    """Compress a payload so that equal payloads give equal bytes.

    For this reason the gzip header has no timestamp.
    """
    return gzip.compress(payload, mtime=0) if compression == GZIP else compress(payload, compression)


def compressed(raw: bytes, compression: int) -> bytes:
    """Return the batch with its records compressed."""
    header = msgspec.structs.replace(read_header(raw), attributes=read_header(raw).attributes | compression)
    return bytes(pack_batch(header, squeezed(raw[HEADER_BYTES:], compression)))


def sound(rng: random.Random, cast: Cast, topic: str, partition: int) -> bytes:
    """Return a batch that a stock producer would send."""
    producer = cast.producer
    count = rng.choice((1, 1, 1, 2, 5, 20))
    records = [(rng.choice((None, b"k", b"key")), rng.choice((b"v", b"", b"x" * 100))) for _ in range(count)]
    if rng.random() < 0.3:
        return compressed(bytes(build_batch(records, cast.now_ms)), rng.choice((0, 1, 2, 3, 4)))
    raw = bytes(
        build_batch(
            records,
            cast.now_ms,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=producer.sequence(topic, partition),
            transactional=bool(producer.transactional_id) and rng.random() < 0.9,
        )
    )
    return compressed(raw, rng.choice((0, 0, 0, 1, 2, 3, 4)))


def _number(rng: random.Random, bits: int, known: int) -> int:
    limit = 1 << (bits - 1)
    value = rng.choice((-1, 0, 1, 2, -2, limit - 1, -limit, known + 1, known - 1, known + 2, rng.randrange(-limit, limit)))
    return max(-limit, min(limit - 1, value))


def with_wrong_header(rng: random.Random, raw: bytes) -> bytes:
    """Return the batch with one to three header fields changed."""
    fields = list(HEADER.unpack_from(raw))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(fields))
        name = HEADER_FIELDS[at]
        if name == "crc":
            fields[at] = rng.getrandbits(32)
        elif name == "attributes":
            fields[at] = rng.choice(ATTRIBUTES)
        else:
            fields[at] = _number(rng, _WIDTHS[at], fields[at])
    fields[4] &= 0xFFFFFFFF
    out = bytearray(raw)
    HEADER.pack_into(out, 0, *fields)
    if rng.random() < 0.9:
        renew_crc(out)
    return bytes(out)


def with_wrong_records(rng: random.Random, producer: tuple[int, int, int]) -> bytes:
    """Return a batch with a valid header around invalid records."""
    count = rng.choice((1, 1, 2, 3))
    parts = []
    for at in range(count):
        lie = rng.randrange(9)
        edges = (-1, -2, 0, 1, 5, 127, 128, 2**31 - 1, -(2**31), 2**40)
        parts.append(
            record(
                delta=at if lie != 0 else rng.choice(edges),
                key=rng.choice((None, b"k")),
                value=rng.choice((None, b"v", b"x" * 200)),
                key_length=rng.choice(edges) if lie == 1 else None,
                value_length=rng.choice(edges) if lie == 2 else None,
                headers=rng.choice(
                    (b"\x02\x02h\x02v", b"\x01", b"\xff\xff\xff\xff\x0f", b"\x02\x01", b"\x04\x02h\x01", b"\x80" * 12)
                )
                if lie == 3
                else b"\0",
                tail=rng.randbytes(rng.randrange(4)) if lie == 4 else b"",
                length=rng.choice(edges) if lie == 5 else None,
            )
        )
    payload = b"".join(parts)
    if rng.random() < 0.2:
        payload = payload[: rng.randrange(len(payload) + 1)]
    compression = rng.choice((0, 0, 0, 0, 1, 2, 3, 4))
    payload = squeezed(payload, compression)
    if compression and rng.random() < 0.3:
        payload = flipped(rng, payload)
    return batch(
        payload,
        count=count if rng.random() < 0.9 else rng.choice((0, -1, 2**31 - 1, count + 1)),
        attributes=compression | (0x10 if producer[0] >= 0 and rng.random() < 0.5 else 0),
        timestamp_ms=rng.choice((0, -1, -2, 1 << 62, -(1 << 63))),
        producer=producer,
    )


def bomb(rng: random.Random) -> bytes:
    """Return a small batch that decompresses to many bytes or many records."""
    size = rng.choice((1 << 16, 1 << 20, BOMB_BYTES))
    kind = rng.randrange(3)
    compression = rng.choice((1, 2, 3, 4))
    if kind == 0:
        return batch(squeezed(record(value=bytes(size)), compression), attributes=compression)
    if kind == 1:
        return batch(squeezed(bytes(size), compression), attributes=compression, count=rng.choice((1, size)))
    count = size >> 10
    payload = b"".join(record(delta=at, key=None, value=None) for at in range(count))
    return batch(squeezed(payload, compression), count=count, attributes=compression)


def flipped(rng: random.Random, raw: bytes) -> bytes:
    """Return the bytes with a few of them changed, and sometimes a few removed."""
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    if out and rng.random() < 0.2:
        at = rng.randrange(len(out))
        del out[at : at + rng.randrange(1, 5)]
    return bytes(out)


def records(rng: random.Random, cast: Cast, topic: str, partition: int, hostility: float) -> bytes | None:
    """Return the records of one partition of a Produce request. ``hostility`` is the probability that they are invalid."""
    raw = sound(rng, cast, topic, partition)
    if rng.random() >= hostility:
        return raw
    kind = rng.randrange(16)
    if kind < 6:
        return with_wrong_header(rng, raw)
    if kind < 10:
        producer = cast.producer
        who = (producer.producer_id, producer.epoch, producer.sequence(topic, partition))
        return with_wrong_records(rng, rng.choice((who, (-1, -1, -1))))
    if kind == 10:
        return None
    if kind == 11:
        return rng.choice((b"", raw[: rng.randrange(len(raw))], raw + raw, raw + b"\0", raw[:HEADER_BYTES]))
    if kind == 12:
        out = bytearray(flipped(rng, raw))
        if len(out) >= HEADER_BYTES:
            renew_crc(out)
        return bytes(out)
    if kind == 13:
        return flipped(rng, raw)
    if kind == 14 and rng.random() < 0.2:
        return bomb(rng)
    return rng.randbytes(rng.randrange(100))
