"""Batches that hold the same `RECORDS` and differ only in optional details of their compression format, such as block sizes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import lz4.frame

from ottla.protocol import lz4_frames
from ottla.protocol.deflating import Deflated
from ottla.protocol.records import GZIP, LZ4, SNAPPY, ZSTD, compress
from ottla.protocol.zstd import zstd
from tests.support.batches import batch, record

COUNT = 200
TIMESTAMP_MS = 1_700_000_000_000
RECORDS = [record(delta=i, value=b"%04d" % i + b"." * 1_000) for i in range(COUNT)]
PLAIN = b"".join(RECORDS)
HALVES = b"".join(RECORDS[: COUNT // 2]), b"".join(RECORDS[COUNT // 2 :])
SKIPPABLE = struct.pack("<II", 0x184D2A53, 5) + b"extra"
LZ4_LEGACY = struct.pack("<I", 0x184C2102)
XERIAL_HEADER = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
RANDOM_LIKE = bytes(i * i * 31 + i // 7 & 0xFF for i in range(30_000))


def _lz4(**options: object) -> bytes:
    wanted = {"block_size": lz4.frame.BLOCKSIZE_MAX64KB, "block_linked": False, "store_size": False} | options
    return bytes(lz4.frame.compress(PLAIN, **wanted))


def _with_descriptor(descriptor: bytes, frame: bytes) -> bytes:
    """Replace the two-byte descriptor of an LZ4 frame with ``descriptor``, and update the header checksum."""
    return frame[:4] + descriptor + bytes((lz4_frames.header_checksum(descriptor),)) + frame[7:]


def _changed(frame: bytes, at: int, by: int = 1) -> bytes:
    at %= len(frame)
    return frame[:at] + bytes((frame[at] ^ by,)) + frame[at + 1 :]


def _lz4_framings() -> Iterator[tuple[str, bytes]]:
    frame = _lz4()
    checked = _lz4(content_checksum=True)
    sized = _lz4(store_size=True)
    blocks = _lz4(block_checksum=True)
    whole = _lz4(block_size=lz4.frame.BLOCKSIZE_MAX256KB)
    yield "independent", frame
    yield "linked", _lz4(block_linked=True)
    yield "linked_flag_of_one_block", _with_descriptor(bytes((whole[4] & ~0x20, whole[5])), whole)
    for size in (256, 1024, 4096):
        code = {256: lz4.frame.BLOCKSIZE_MAX256KB, 1024: lz4.frame.BLOCKSIZE_MAX1MB, 4096: lz4.frame.BLOCKSIZE_MAX4MB}[size]
        yield f"blocks_of_{size}_KiB", _lz4(block_size=code)
    yield "block_size_code_3", _with_descriptor(bytes((frame[4], 0x30)), frame)
    yield "block_size_reserved_bit", _with_descriptor(bytes((frame[4], frame[5] | 0x80)), frame)
    yield "block_size_low_bit", _with_descriptor(bytes((frame[4], frame[5] | 1)), frame)
    yield "block_checksums", blocks
    yield "block_checksum_wrong", _changed(blocks, 7 + 4 + struct.unpack_from("<I", blocks, 7)[0])
    yield "content_checksum", checked
    yield "content_checksum_wrong", _changed(checked, -1)
    yield "content_checksum_cut", checked[:-2]
    yield "content_size", sized
    yield "content_size_wrong", _with_descriptor(sized[4:6] + struct.pack("<Q", 7), sized[:7] + sized[15:])
    yield "content_size_too_large", _with_descriptor(sized[4:6] + struct.pack("<Q", 1 << 40), sized[:7] + sized[15:])
    yield "dictionary_id", _with_descriptor(bytes((frame[4] | 1, frame[5])) + b"\0\0\0\7", frame)
    yield "reserved_flag", _with_descriptor(bytes((frame[4] | 2, frame[5])), frame)
    yield "version_2", _with_descriptor(bytes((frame[4] & 0x3F | 0x80, frame[5])), frame)
    yield "header_checksum_wrong", _changed(frame, 6)
    yield "no_end_mark", frame[:-4]
    yield "cut", frame[:-10]
    yield "empty", b""
    yield "header_only", frame[:7]
    yield "trailing_bytes", frame + b"trailing"
    yield "trailing_zero_bytes", frame + bytes(4)
    halves = [bytes(lz4.frame.compress(half, block_linked=False)) for half in HALVES]
    yield "two_frames", b"".join(halves)
    yield "second_frame_empty", frame + bytes(lz4.frame.compress(b"", block_linked=False))
    yield "second_frame_linked", frame + bytes(lz4.frame.compress(b"x", block_linked=True))
    yield "skippable_frame_before", SKIPPABLE + frame
    yield "skippable_frame_after", frame + SKIPPABLE
    yield "legacy_frame", LZ4_LEGACY + frame[7:]
    stored = struct.pack("<I", len(PLAIN[:65_536]) | 1 << 31) + PLAIN[:65_536]
    rest = lz4.frame.compress(PLAIN[65_536:], block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=False, store_size=False)
    yield "stored_block", frame[:7] + stored + rest[7:]
    yield "small_blocks", frame[:7] + b"".join(_stored(PLAIN[at : at + 100]) for at in range(0, len(PLAIN), 100)) + bytes(4)
    yield "block_of_no_bytes_before", frame[:7] + struct.pack("<I", 1) + b"\0" + frame[7:]
    yield "block_above_maximum", frame[:7] + _stored(PLAIN[:65_537]) + _stored(PLAIN[65_537:65_538]) + bytes(4)


def _stored(data: bytes) -> bytes:
    return struct.pack("<I", len(data) | 1 << 31) + data


def gzip_member(data: bytes, flags: int = 0, fields: bytes = b"", *, method: int = 8, level: int = 6) -> bytes:
    """Return a gzip member with these flags and with the header fields that belong to the flags."""
    stream = zlib.compressobj(level, wbits=-15)
    head = b"\x1f\x8b" + bytes((method, flags)) + bytes(4) + b"\0\xff" + fields
    return head + stream.compress(data) + stream.flush() + struct.pack("<II", zlib.crc32(data), len(data))


def _gzip_framings() -> Iterator[tuple[str, bytes]]:
    one = gzip_member(PLAIN)
    first, second = (gzip_member(half) for half in HALVES)
    yield "one_member", one
    yield "two_members", first + second
    yield "many_members", b"".join(gzip_member(r) for r in RECORDS)
    yield "members_at_level_0", b"".join(gzip_member(half, level=0) for half in HALVES)
    yield "members_inside_a_record", gzip_member(PLAIN[:1_500]) + gzip_member(PLAIN[1_500:])
    yield "empty_member_first", gzip_member(b"") + one
    yield "empty_member_last", one + gzip_member(b"")
    yield "empty_members", gzip_member(b"") * 50 + one
    yield "flag_text", gzip_member(PLAIN, 1)
    yield "flag_name", gzip_member(PLAIN, 8, b"name\0")
    yield "flag_name_long", gzip_member(PLAIN, 8, b"n" * 20_000 + b"\0")
    yield "flag_comment", gzip_member(PLAIN, 16, b"comment\0")
    yield "flag_extra", gzip_member(PLAIN, 4, struct.pack("<H", 5) + b"extra")
    yield "flags_all", _with_header_checksum(PLAIN, 1 | 2 | 4 | 8 | 16, struct.pack("<H", 5) + b"extra" + b"name\0" + b"comment\0")
    yield "flag_checksum", _with_header_checksum(PLAIN, 2, b"")
    yield "flag_checksum_wrong", gzip_member(PLAIN, 2, b"\1\2")
    yield "flag_unknown", gzip_member(PLAIN, 0x80)
    yield "method_7", gzip_member(PLAIN, method=7)
    yield "name_without_end", gzip_member(PLAIN, 8)[:10] + b"n" * 50
    yield "second_with_fields", first + gzip_member(HALVES[1], 8, b"name\0")
    yield "second_with_long_name", first + gzip_member(HALVES[1], 8, b"n" * 20_000 + b"\0")
    yield "second_with_wrong_method", first + gzip_member(HALVES[1], method=7)
    yield "second_with_wrong_checksum", first + _changed(second, -5)
    yield "second_cut", first + second[:-3]
    yield "trailing_bytes", one + b"trailing"
    yield "trailing_many_bytes", one + b"trailing" * 100
    yield "trailing_zero_bytes", one + bytes(512)
    yield "trailing_start_of_a_member", one + second[:8]
    yield "trailing_damaged_member", one + _changed(second, 12, 0xFF)
    yield "size_wrong", _changed(one, -1)
    yield "checksum_wrong", _changed(one, -5)
    yield "trailer_cut", one[:-4]
    yield "empty", b""
    yield "zlib_instead", zlib.compress(PLAIN)
    yield "deflate_instead", zlib.compress(PLAIN, wbits=-15)
    for left in (8, 16, 18, 19, 20, 26, 40):
        yield f"buffer_ends_{left}_bytes_after_the_data", _ending_before_the_buffer(left)


def _with_header_checksum(data: bytes, flags: int, fields: bytes) -> bytes:
    head = gzip_member(data, flags, fields)[: 10 + len(fields)]
    return gzip_member(data, flags, fields + struct.pack("<H", zlib.crc32(head) & 0xFFFF))


def _ending_before_the_buffer(left: int) -> bytes:
    """Return two gzip members.

    The deflated data of the first member ends ``left`` bytes before the end of Java's buffer of 8 KiB.
    """
    records = [record(delta=i, value=b"%04d" % i) for i in range(COUNT)]
    wanted = 8_192 - left
    # Level 0 does not compress: it adds five bytes to each block of up to 65,535 bytes.
    for size in range(wanted - 40, wanted):
        filler = RANDOM_LIKE[:size]
        head = record(delta=0, value=filler)
        if len(head) + 5 == wanted:
            return gzip_member(head, level=0) + gzip_member(b"".join(records[1:]))
    raise AssertionError(left)


def _snappy_framings() -> Iterator[tuple[str, bytes]]:
    import cramjam

    def raw(data: bytes) -> bytes:
        return bytes(cramjam.snappy.compress_raw(data))

    def chunk(data: bytes) -> bytes:
        return struct.pack(">i", len(raw(data))) + raw(data)

    def chunks(size: int) -> bytes:
        return XERIAL_HEADER + b"".join(chunk(PLAIN[at : at + size]) for at in range(0, len(PLAIN), size))

    usual = bytes(compress(PLAIN, SNAPPY))
    yield "usual", usual
    yield "raw", raw(PLAIN)
    yield "raw_trailing_bytes", raw(PLAIN) + b"trailing"
    yield "raw_cut", raw(PLAIN)[:-3]
    yield "google_framing", bytes(cramjam.snappy.compress(PLAIN))
    for size in (100, 32_768, 65_536, 1 << 20):
        yield f"chunks_of_{size}", chunks(size)
    yield "chunk_of_no_bytes", chunks(65_536) + struct.pack(">i", 0)
    yield "chunk_that_inflates_to_nothing", XERIAL_HEADER + chunk(b"") + chunks(65_536)[16:]
    yield "chunk_of_minus_one", chunks(65_536) + struct.pack(">i", -1)
    yield "chunk_cut", chunks(65_536)[:-3]
    for size in (1, 3, 4, 8):
        yield f"trailing_{size}_zero_bytes", chunks(65_536) + bytes(size)
    yield "trailing_bytes", chunks(65_536) + b"\1\2\3"
    halves = [XERIAL_HEADER + chunk(half) for half in HALVES]
    yield "two_streams", b"".join(halves)
    yield "second_stream_of_version_0", halves[0] + _version(halves[1], 0)
    yield "second_stream_of_version_9", halves[0] + _version(halves[1], 9)
    yield "second_header_cut", chunks(65_536) + XERIAL_HEADER[:10]
    yield "second_header_of_another_kind", chunks(65_536) + b"\x82SNAPPX\0" + bytes(8)
    yield "header_only", XERIAL_HEADER
    yield "header_cut", XERIAL_HEADER[:12]
    yield "of_version_0", _version(usual, 0)
    yield "empty", b""


def _version(stream: bytes, number: int) -> bytes:
    return stream[:8] + struct.pack(">i", number) + stream[12:]


def _zstd_framings() -> Iterator[tuple[str, bytes]]:
    def frame(data: bytes, **options: int) -> bytes:
        wanted = {getattr(zstd.CompressionParameter, name): value for name, value in options.items()}
        return bytes(zstd.compress(data, options=wanted))

    def streamed(data: bytes, **options: int) -> bytes:
        """Return a frame whose header does not contain the content size."""
        wanted = {getattr(zstd.CompressionParameter, name): value for name, value in options.items()}
        stream = zstd.ZstdCompressor(options=wanted)
        return bytes(stream.compress(data[:10]) + stream.compress(data[10:]) + stream.flush())

    one = frame(PLAIN)
    yield "one_frame", one
    yield "content_size_absent", streamed(PLAIN)
    yield "content_size_not_written", frame(PLAIN, content_size_flag=0)
    yield "checksum", frame(PLAIN, checksum_flag=1)
    yield "checksum_wrong", _changed(frame(PLAIN, checksum_flag=1), -1)
    yield "two_frames", frame(HALVES[0]) + frame(HALVES[1])
    yield "frames_inside_a_record", frame(PLAIN[:1_500]) + frame(PLAIN[1_500:])
    yield "many_frames", b"".join(frame(r) for r in RECORDS)
    yield "empty_frame_first", frame(b"") + one
    yield "empty_frame_last", one + frame(b"")
    yield "skippable_frame_before", SKIPPABLE + one
    yield "skippable_frame_between", frame(HALVES[0]) + SKIPPABLE + frame(HALVES[1])
    yield "skippable_frame_after", one + SKIPPABLE
    yield "skippable_frames", SKIPPABLE * 100 + one
    yield "skippable_frame_only", SKIPPABLE
    yield "trailing_bytes", one + b"trailing"
    yield "trailing_zero_bytes", one + bytes(8)
    yield "trailing_two_bytes", one + b"\1\2"
    yield "cut", one[:-3]
    yield "empty", b""
    for log in (10, 20, 27):
        yield f"window_log_{log}", streamed(PLAIN, window_log=log)
    yield "window_log_28", _wider(streamed(PLAIN, window_log=20), 28)
    yield "second_frame_of_a_larger_window", streamed(HALVES[0], window_log=10) + streamed(HALVES[1], window_log=27)
    yield "second_frame_of_window_log_28", streamed(HALVES[0], window_log=10) + _wider(streamed(HALVES[1], window_log=20), 28)
    dictionary = zstd.train_dict([r + b"%d" % i for i, r in enumerate(RECORDS)], 2_000)
    yield "dictionary", bytes(zstd.compress(PLAIN, zstd_dict=dictionary))
    yield "raw_dictionary", bytes(zstd.compress(PLAIN, zstd_dict=zstd.ZstdDict(PLAIN[:2_000], is_raw=True)))
    yield "frame_of_version_0_7", b"\x27" + one[1:]


def _wider(frame: bytes, window_log: int) -> bytes:
    return frame[:5] + bytes((window_log - 10 << 3,)) + frame[6:]


def _by_the_broker(codec: int) -> bytes:
    """Return the payload as the broker's compaction compresses it, in several chunks."""
    deflated = Deflated(codec)
    for at in range(0, len(PLAIN), 70_000):
        deflated.add(PLAIN[at : at + 70_000])
    return deflated.end()


def _all() -> dict[str, tuple[int, bytes]]:
    framings = {GZIP: _gzip_framings, SNAPPY: _snappy_framings, LZ4: _lz4_framings, ZSTD: _zstd_framings}
    names = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
    named = {f"{names[codec]}/{name}": (codec, payload) for codec, made in framings.items() for name, payload in made()}
    for codec, name in names.items():
        named[f"{name}/as_the_broker_rewrites_it"] = codec, _by_the_broker(codec)
        named[f"{name}/as_the_broker_builds_it"] = codec, compress(PLAIN, codec)
    return named


FRAMINGS = _all()
"""Compression codec and payload of each variant of a compression format, by name."""


def framed(name: str) -> bytes:
    """Return a batch of `RECORDS` with the payload that `FRAMINGS` has for this name."""
    codec, payload = FRAMINGS[name]
    return batch(payload, count=COUNT, attributes=codec, timestamp_ms=TIMESTAMP_MS)
