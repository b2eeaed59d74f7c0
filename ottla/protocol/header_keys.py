"""Replaces header keys that are not UTF-8, because aiokafka's C codec fails on them."""

from __future__ import annotations

from ottla.protocol.record_stream import malformed, varint, whole_headers, zigzag
from ottla.protocol.steps import next_turn

_READABLE_AT_ONCE, _RECORD_WORK = 2_000, 4
"""`with_readable_headers` lets other work run after 2,000 headers. A record without its headers counts as 4 headers."""


async def with_readable_headers(records: bytes, *, keeps_headers: bool) -> bytes:
    """Remove the headers of whole records or, with ``keeps_headers``, replace invalid bytes in header keys by U+FFFD.

    Kafka stores header keys unchanged, and Java replaces such bytes when it reads them. Raises INVALID_RECORD.
    """
    out: list[bytes] = []
    at = work = 0
    while at < len(records):
        if work >= _READABLE_AT_ONCE:
            await next_turn()
            work = 0
        try:
            length, start = varint(records, at)
            end = start + length
            fields = start + 1
            for _ in range(2):
                _, fields = varint(records, fields)
            for _ in range(2):
                size, fields = varint(records, fields)
                fields += max(size, 0)
            left, headers = varint(records, fields)
        except IndexError:
            raise malformed("a number is cut off") from None
        if left < 0:
            raise malformed(f"{left} headers")
        body = [records[start:fields], zigzag(left) if keeps_headers else b"\0"]
        while left:
            through, walked = whole_headers(records, headers, min(left, _READABLE_AT_ONCE - work))
            if not walked:
                raise malformed("a header is cut off")
            if keeps_headers:
                body.append(_readable(records, headers, walked))
            headers, left, work = through, left - walked, work + walked
            if work >= _READABLE_AT_ONCE:
                await next_turn()
                work = 0
        if headers != end:
            raise malformed(f"a record of {length} bytes whose fields have another length")
        whole = b"".join(body)
        out += (zigzag(len(whole)), whole)
        at, work = end, work + _RECORD_WORK
    return b"".join(out)


def _readable(data: bytes, at: int, count: int) -> bytes:
    """Return ``count`` headers from position ``at`` on, with keys in valid UTF-8."""
    out: list[bytes] = []
    for _ in range(count):
        size, start = varint(data, at)
        value_size, value = varint(data, start + size)
        key = data[start : start + size].decode(errors="replace").encode()
        at = value + max(value_size, 0)
        out += (zigzag(len(key)), key, data[start + size : at])
    return b"".join(out)
