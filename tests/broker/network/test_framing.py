"""Frames are read unchanged from chunks of any size. Their memory grows only with the bytes received."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.network.framing import GROWTH, OWN_START_BYTES, SPARES_BYTES, Frames, FrameSizeError, ReceiveBuffers

MAX_FRAME_BYTES = 4 << 20
OVERWRITTEN = b"\xff" * (4 * OWN_START_BYTES)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


def put(frames: Frames, data: bytes) -> int:
    """Write as many bytes as fit into the receive buffer, and return their number."""
    room = frames.room()
    piece = data[: len(room)]
    room[: len(piece)] = piece
    frames.received(len(piece))
    return len(piece)


@pytest.mark.smoke
@settings(max_examples=60)
@given(
    payloads=st.lists(st.integers(1, 3 * OWN_START_BYTES).map(lambda n: bytes([n % 251]) * n), max_size=12),
    pieces=st.lists(st.integers(1, 2 * OWN_START_BYTES), min_size=2),
    takes=st.lists(st.integers(0, 3), min_size=1),
    keeps=st.lists(st.booleans(), min_size=1),
)
def test_connections_that_share_a_receive_buffer_read_their_own_requests(
    payloads: list[bytes], pieces: list[int], takes: list[int], keeps: list[bool]
) -> None:
    """Chunks have any size, frames are read at any time, and another connection uses the shared buffer in between."""
    buffers = ReceiveBuffers()
    frames, other = Frames(buffers, MAX_FRAME_BYTES), Frames(buffers, MAX_FRAME_BYTES)
    data, taken, at = b"".join(map(framed, payloads)), [], 0
    while data or frames.unread_bytes:
        done = put(frames, data[: pieces[at % len(pieces)]])
        data = data[done:]
        kept = None
        for _ in range(takes[at % len(takes)] if data else len(payloads)):
            frame = frames.next()
            if frame is None:
                break
            if keeps[at % len(keeps)]:
                frames.keep()
                kept = frame, bytes(frame)
            taken.append(bytes(frame))
        if kept is not None:
            put(other, OVERWRITTEN)
            other.discard()
            assert kept[0] == kept[1]
            del kept
        frames.settle()
        put(other, OVERWRITTEN)
        other.discard()
        at += 1
    assert taken == payloads
    assert frames.own_bytes == 0


def test_receive_buffer_grows_with_the_bytes_received() -> None:
    frames = Frames(ReceiveBuffers(), MAX_FRAME_BYTES)
    put(frames, (MAX_FRAME_BYTES).to_bytes(4, "big"))
    frames.settle()
    assert frames.own_bytes == OWN_START_BYTES
    arrived = 4
    while arrived < MAX_FRAME_BYTES:
        assert frames.next() is None
        arrived += put(frames, bytes(min(100_000, MAX_FRAME_BYTES + 4 - arrived)))
        frames.settle()
        assert frames.own_bytes <= max(GROWTH * arrived, OWN_START_BYTES)


def test_receive_buffer_is_released_when_all_requests_are_read() -> None:
    buffers = ReceiveBuffers()
    frames = Frames(buffers, MAX_FRAME_BYTES)
    for _ in range(3):
        data = framed(bytes(1 << 20))
        while data:
            data = data[put(frames, data) :]
            if frames.next() is None:
                frames.settle()
        frames.settle()
        assert frames.own_bytes == 0
    assert sum(map(len, buffers._spares)) <= SPARES_BYTES


def test_request_returned_to_the_receive_buffer_is_read_again() -> None:
    frames = Frames(ReceiveBuffers(), MAX_FRAME_BYTES)
    put(frames, framed(b"one") + framed(b"two"))
    first = frames.next()
    assert first is not None
    frames.put_back(first)
    frames.settle()
    assert [bytes(f) for f in (frames.next(), frames.next()) if f is not None] == [b"one", b"two"]


def test_receive_buffer_has_only_received_bytes_when_memory_is_short() -> None:
    frames = Frames(ReceiveBuffers(), MAX_FRAME_BYTES)
    put(frames, (1 << 20).to_bytes(4, "big") + bytes(50_000))
    frames.settle(may_grow=False)
    assert frames.own_bytes == 50_005
    assert len(frames.room()) == 1


@pytest.mark.parametrize("size", [0, -1, MAX_FRAME_BYTES + 1, -(1 << 31)])
def test_invalid_request_sizes_are_refused(size: int) -> None:
    frames = Frames(ReceiveBuffers(), MAX_FRAME_BYTES)
    put(frames, size.to_bytes(4, "big", signed=True))
    with pytest.raises(FrameSizeError, match=str(size)):
        frames.next()
