"""Checks the logs after a run: a consumer must be able to read every batch."""

from __future__ import annotations

from ottla.protocol.markers import read_marker
from ottla.protocol.records import (
    HEADER_BYTES,
    SNAPPY,
    BatchHeader,
    crc_is_valid,
    read_records,
)
from ottla.storage.log import Log

XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_VERSIONS = (1).to_bytes(4, "big") * 2


def _for_strict_readers(raw: bytes, header: BatchHeader) -> bytes:
    """Return the batch with version 1 in the header of its xerial snappy stream.

    aiokafka only reads this version, while Java and librdkafka ignore the version.
    """
    payload = raw[HEADER_BYTES:]
    if header.compression != SNAPPY or not payload.startswith(XERIAL_MAGIC):
        return raw
    return raw[:HEADER_BYTES] + XERIAL_MAGIC + XERIAL_VERSIONS + payload[len(XERIAL_MAGIC) + len(XERIAL_VERSIONS) :]


def unreadable(log: Log) -> str | None:
    """Return what is wrong with the first unreadable batch of a log, or None."""
    following = log.segments[0].base_offset if log.segments else 0
    for segment in log.segments:
        size = 0
        for position, header, raw in segment.scan():
            size = position + len(raw)
            where = f"the batch at {header.base_offset}"
            if not crc_is_valid(raw, header):
                return f"{where} has a wrong CRC"
            if header.base_offset < following:
                return f"{where} comes after {following - 1}"
            following = header.next_offset
            if header.is_control:
                if read_marker(raw, header) is None:
                    return f"{where} is a control batch that is no marker"
                continue
            try:
                offsets = [record.offset for record in read_records(_for_strict_readers(bytes(raw), header))]
            except Exception as error:
                return f"{where} cannot be read: {error!r}"
            if not log.config.is_compacted and offsets != list(range(header.base_offset, header.next_offset)):
                return f"{where} holds the offsets {offsets[:10]}"
        if size != segment.size_bytes:
            return f"{segment.path('.log')} is readable for {size} of {segment.size_bytes} bytes only"
    return None if following <= log.log_end_offset else f"the log ends at {log.log_end_offset}, its batches at {following}"
