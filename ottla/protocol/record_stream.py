"""Reads the records of one batch, a few at a time, with only a piece of the payload in memory.

A record larger than `LARGE_RECORD_BYTES` is read in pieces and replaced by a placeholder: a small record with the same attributes
and deltas, whose key and value are null if the record's are, and otherwise empty. Pieces are decompressed in advance by C code that
releases the GIL, so a worker thread may run it.
"""

from __future__ import annotations

from collections import deque

from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.inflating import PIECE_BYTES, Allowance, memory_bytes, pieces
from ottla.protocol.primitives import Buffer, uvarint
from ottla.protocol.records import COMPRESSION_MASK, HEADER, HEADER_BYTES, BatchHeader
from ottla.protocol.steps import in_thread, next_turn

MIN_RECORD_BYTES = 7
"""Size in bytes of the smallest record: one each for length, attributes, two deltas, two lengths and the number of headers."""
RECORDS_AT_ONCE = 2_000
"""Number of records that are decoded at a time, in less than a millisecond."""
LARGE_RECORD_BYTES = 4 * PIECE_BYTES
READ_AHEAD_BYTES = 1 << 20
READ_AHEAD_PIECES = 64
MAX_KEY_BYTES = 1 << 20
"""Maximum size in bytes of a key that a placeholder keeps."""
_HEADERS_AT_ONCE = 5_000
_MAX_VARINT_BYTES = 10
_HEAD_BYTES = 4 * _MAX_VARINT_BYTES
MAX_RECORD_BYTES = 2_147_483_639
"""The default of ``max.decompressed.message.bytes``. No record can be larger."""
_NULL = b"\1"
"""The varint of the length -1, which means null."""


def varint(buf: Buffer, at: int) -> tuple[int, int]:
    """Return a zigzag varint and the position after it. Raises IndexError."""
    byte = buf[at]
    at += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at
    value, shift = byte & 0x7F, 7
    while True:
        byte = buf[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise IndexError


def zigzag(value: int) -> bytes:
    return uvarint((value << 1) ^ (value >> 63))


def malformed(reason: str) -> KafkaError:
    return KafkaError(Code.INVALID_RECORD, f"the records do not match the batch header: {reason}")


class RecordTooLarge(KafkaError):
    """A record of a compressed batch is larger than ``max.decompressed.message.bytes`` (INVALID_RECORD)."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            Code.INVALID_RECORD,
            f"a record has {size_bytes} bytes; at most {limit_bytes} are allowed (max.decompressed.message.bytes)",
        )


def whole_records(data: bytes, start: int, at_most: int) -> tuple[int, int]:
    """Skip the whole records in ``data`` from position ``start``, at most ``at_most`` records.

    Returns the position after the last skipped record, and the number of skipped records.
    """
    at, size = start, len(data)
    for count in range(at_most):
        try:
            # Nearly all lengths have one or two bytes. They are read inline, because calling `varint` takes longer than the rest.
            value, body = data[at], at + 1
            if value >= 0x80:
                second = data[body]
                if second < 0x80:
                    value, body = value & 0x7F | second << 7, at + 2
                else:
                    length, body = varint(data, at)
                    value = length << 1 if length >= 0 else 1
        except IndexError:
            return at, count
        if value & 1:
            raise malformed("a record of fewer than no bytes")
        length = value >> 1
        if body + length > size:
            return at, count
        at = body + length
    return at, at_most


def whole_headers(data: bytes, start: int, at_most: int) -> tuple[int, int]:
    """Skip the whole headers of a record in ``data`` from position ``start``, at most ``at_most`` headers.

    Returns the position after the last skipped header, and the number of skipped headers.
    """
    at, size = start, len(data)
    for count in range(at_most):
        try:
            key_size, value_at = varint(data, at)
            if key_size < 0:
                raise _keyless()
            value_size, end = varint(data, value_at + key_size)
        except IndexError:
            return at, count
        end += max(value_size, 0)
        if end > size:
            return at, count
        at = end
    return at, at_most


def _keyless() -> KafkaError:
    return malformed("a header without a key")


def plain(header: BatchHeader, records: Buffer, count: int) -> bytes:
    """``count`` records as an uncompressed batch for aiokafka's C codec. Length and CRC are wrong; the codec ignores them."""
    head = HEADER.pack(
        header.base_offset,
        header.batch_length,
        header.leader_epoch,
        header.magic,
        header.crc,
        header.attributes & ~COMPRESSION_MASK,
        header.last_offset_delta,
        header.base_timestamp_ms,
        header.max_timestamp_ms,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        count,
    )
    return b"".join((head, records))


class RecordStream:
    """Reads the records of one batch. With ``keeps_keys`` a placeholder has the key of its record.

    The methods raise INVALID_RECORD for bytes that are not records, and for a key longer than `MAX_KEY_BYTES` with ``keeps_keys``;
    CORRUPT_MESSAGE if the payload cannot be decompressed; `TooLarge` if it decompresses to more than ``allowance``;
    `RecordTooLarge` for a record of a compressed batch larger than ``max_record_bytes``, after the records before it were returned.
    """

    __slots__ = (
        "_allowance",
        "_at",
        "_base",
        "_data",
        "_error",
        "_is_aside",
        "_is_done",
        "_keeps_keys",
        "_max_record_bytes",
        "_pieces",
        "_ready",
        "large_bytes",
        "memory_bytes",
    )

    def __init__(
        self,
        batch: Buffer,
        header: BatchHeader,
        allowance: Allowance | None = None,
        *,
        keeps_keys: bool = False,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        payload = memoryview(batch)[HEADER_BYTES:]
        self._is_aside = header.compression != 0
        self._pieces = pieces(payload, header.compression)
        self._allowance = allowance if self._is_aside else None
        self._ready: deque[bytes | memoryview] = deque()
        self._keeps_keys = keeps_keys
        # As in Kafka, max.message.bytes is the only limit for uncompressed records.
        self._max_record_bytes = max_record_bytes if self._is_aside else MAX_RECORD_BYTES
        self.large_bytes = 0
        """Size in bytes of the large record at which `next_whole` stopped, else 0. The record's first bytes are in memory."""
        self._error: BaseException | None = None
        self._is_done = False
        self._data = b""
        self._at = 0
        self._base = 0
        self.memory_bytes = memory_bytes(payload, header.compression) if self._is_aside else 0
        """Maximum memory in bytes for reading this batch."""

    @property
    def inflated_bytes(self) -> int:
        """Number of decompressed bytes of the payload that were read so far."""
        return self._base + len(self._data)

    def _read_ahead(self) -> None:
        """Decompress some pieces in advance. An error is stored, and raised when the piece is needed (`_next_piece`)."""
        size = 0
        try:
            for _ in range(READ_AHEAD_PIECES if self._is_aside else 1):
                piece = next(self._pieces, None)
                if piece is None:
                    self._is_done = True
                    return
                size += len(piece)
                self._ready.append(piece)
                if size >= READ_AHEAD_BYTES:
                    return
        except KafkaError as error:
            self._error, self._is_done = error, True

    async def _next_piece(self) -> bytes | memoryview | None:
        while not self._ready:
            if self._error is not None:
                raise self._error
            if self._is_done:
                return None
            if self._is_aside:
                await in_thread(self._read_ahead)
            else:
                self._read_ahead()
        piece = self._ready.popleft()
        if self._allowance is not None:
            self._allowance.take(len(piece))
        return piece

    async def _more(self, wanted_bytes: int = 1) -> bool:
        """Append at least ``wanted_bytes`` of the payload to the bytes in memory, or the whole rest.

        Returns False if nothing is left.
        """
        parts: list[bytes | memoryview] = [self._data[self._at :]]
        while wanted_bytes > 0 and (piece := (await self._next_piece())) is not None:
            parts.append(piece)
            wanted_bytes -= len(piece)
        self._base += self._at
        self._data, self._at = b"".join(parts), 0
        return len(parts) > 1

    async def next_records(self, at_most: int = RECORDS_AT_ONCE) -> tuple[bytes, int]:
        """Return the bytes of the next records, and their number, which is 0 at the end. A placeholder replaces a large record."""
        records, count = await self.next_whole(at_most)
        if not count and self.large_bytes:
            return (await self._stand_in()), 1
        return records, count

    async def next_whole(self, at_most: int = RECORDS_AT_ONCE) -> tuple[bytes, int]:
        """Return the bytes of the next records, and their number, which is 0 at the end and before a large record.

        Before a large record, `large_bytes` is the record's size, and `take` reads the record's bytes.
        """
        self.large_bytes = 0
        while True:
            end, count = whole_records(self._data, self._at, at_most)
            if count:
                if end - self._at > self._max_record_bytes:
                    end, count = self._records_within_limit(count)
                records, self._at = self._data[self._at : end], end
                return records, count
            size, missing_bytes = self._next_size()
            if missing_bytes > LARGE_RECORD_BYTES:
                while len(self._data) - self._at < _HEAD_BYTES and (await self._more()):
                    pass
                self.large_bytes = size
                return b"", 0
            if not (await self._more(missing_bytes)):
                if self._at < len(self._data):
                    raise malformed("the last record is cut off")
                return b"", 0

    def _records_within_limit(self, count: int) -> tuple[int, int]:
        """Return the end and the number of the whole records, at most ``count``, before the first record that is too large.

        Raises `RecordTooLarge` if the first record is too large.
        """
        at = self._at
        for done in range(count):
            length, body = varint(self._data, at)
            if length > self._max_record_bytes:
                if not done:
                    raise RecordTooLarge(length, self._max_record_bytes)
                return at, done
            at = body + length
        return at, count

    async def take(self, at_most: int) -> bytes:
        """Return the next bytes of the payload, at least one byte and at most ``at_most`` bytes."""
        if self._at == len(self._data) and not (await self._more()):
            raise malformed("the last record is cut off")
        part = self._data[self._at : self._at + at_most]
        self._at += len(part)
        return part

    def _next_size(self) -> tuple[int, int]:
        """Return the size of the next record in bytes, and the number of its bytes that are not in memory yet.

        Returns (0, 1) if not even the whole length prefix is in memory. Raises `RecordTooLarge`.
        """
        try:
            length, body = varint(self._data, self._at)
        except IndexError:
            return 0, 1
        if length > self._max_record_bytes:
            raise RecordTooLarge(length, self._max_record_bytes)
        return body + length - self._at, max(1, body + length - len(self._data))

    async def _varint(self) -> int:
        while len(self._data) - self._at < _MAX_VARINT_BYTES and (await self._more()):
            pass
        try:
            value, self._at = varint(self._data, self._at)
        except IndexError:
            raise malformed("a number is cut off") from None
        return value

    async def _skip(self, size: int) -> None:
        left = max(size, 0)
        while left:
            here = min(left, len(self._data) - self._at)
            self._at += here
            left -= here
            if left and not (await self._more()):
                raise malformed("a field is cut off")

    async def _stand_in(self) -> bytes:
        """Read one large record in pieces and return its placeholder. Raises INVALID_RECORD if fields and length do not match."""
        length = await self._varint()
        end = self._base + self._at + length
        attributes = self._data[self._at]
        self._at += 1
        timestamp_delta = await self._varint()
        offset_delta = await self._varint()
        key = await self._key()
        value_size = await self._varint()
        await self._skip(value_size)
        headers = await self._varint()
        if headers < 0:
            raise malformed(f"{headers} headers")
        while headers and self._base + self._at < end:
            self._at, walked = whole_headers(self._data, self._at, min(headers, _HEADERS_AT_ONCE))
            headers -= walked
            if headers and walked < _HEADERS_AT_ONCE:
                # Only a part of the next header is in memory.
                await self._skip_header()
                headers -= 1
            await next_turn()
        if headers or self._base + self._at != end:
            raise malformed(f"a record of {length} bytes whose fields have another length")
        body = bytes((attributes,)) + zigzag(timestamp_delta) + zigzag(offset_delta)
        body += _NULL if key is None else zigzag(len(key)) + key
        body += (_NULL if value_size < 0 else b"\0") + b"\0"
        return zigzag(len(body)) + body

    async def _skip_header(self) -> None:
        key_size = await self._varint()
        if key_size < 0:
            raise _keyless()
        await self._skip(key_size)
        await self._skip(await self._varint())

    async def _key(self) -> bytes | None:
        size = await self._varint()
        if not self._keeps_keys or size <= 0:
            await self._skip(size)
            return b"" if size >= 0 else None
        if size > MAX_KEY_BYTES:
            raise malformed(f"a key of {size} bytes")
        key = b""
        while len(key) < size:
            key += await self.take(size - len(key))
        return key
