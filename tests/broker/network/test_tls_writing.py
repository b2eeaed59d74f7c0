"""Responses on a connection with TLS are encrypted in pieces, in order, and only as fast as the client reads them."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.network.tls_writing import MIN_HIGH_BYTES, PIECE_BYTES, TURN_BYTES, PacedTransport


class Below:
    """The transport of a socket."""

    unsent_bytes = 0

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes


class Tls(Below):
    """The transport of TLS. It pauses writing after ``room`` pieces."""

    protocol: PacedTransport

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.room = 0
        self.ended = ""
        self.is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def set_write_buffer_limits(self, high: int) -> None:
        assert high == PIECE_BYTES

    def write(self, data: Any) -> None:
        self.pieces.append(bytes(data))
        self.room -= 1
        if self.room == 0:
            self.protocol.pause_writing()

    def reads(self, pieces: int) -> None:
        """The client reads, which makes room."""
        self.room = pieces
        self.protocol.resume_writing()

    def close(self) -> None:
        self.ended = "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return bool(self.ended)


class Client(asyncio.BufferedProtocol):
    """The protocol of a connection."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")


def made(room: int) -> tuple[PacedTransport, Tls, Below, Client]:
    """Return a transport whose TLS accepts ``room`` pieces."""
    tls, below, client = Tls(), Below(), Client()
    tls.room = room
    tls.protocol = PacedTransport(cast(asyncio.Transport, tls), cast(asyncio.Transport, below), client)
    tls.protocol.set_write_buffer_limits(high=MIN_HIGH_BYTES)
    return tls.protocol, tls, below, client


def test_small_response_is_encrypted_at_once() -> None:
    paced, tls, _, client = made(room=9)
    paced.write(b"a")
    paced.writelines([b"b", b"c"])
    assert (tls.pieces, client.events, paced.get_write_buffer_size()) == ([b"a", b"b", b"c"], [], 0)


def test_response_waits_unencrypted_while_the_client_reads_nothing() -> None:
    paced, tls, below, client = made(room=2)
    data = bytes(range(256)) * (20 * PIECE_BYTES // 256)
    paced.write(data)
    paced.write(b"end")
    below.unsent_bytes = PIECE_BYTES
    assert [len(piece) for piece in tls.pieces] == [PIECE_BYTES] * 2
    assert paced.get_write_buffer_size() == 19 * PIECE_BYTES + 3
    assert client.events == ["pause"]
    tls.reads(3)
    assert (len(tls.pieces), client.events) == (5, ["pause"])
    below.unsent_bytes = 0
    tls.reads(16)
    assert b"".join(tls.pieces) == data + b"end"
    assert (client.events, paced.get_write_buffer_size()) == (["pause", "resume"], 0)


def test_connection_is_closed_after_its_last_response_was_encrypted() -> None:
    paced, tls, _, _ = made(room=1)
    paced.write(bytes(2 * PIECE_BYTES))
    paced.close()
    assert (paced.is_closing(), tls.ended, tls.is_reading) == (True, "", False)
    tls.reads(9)
    assert (len(tls.pieces), tls.ended) == (2, "closed")
    idle, tls, _, _ = made(room=1)
    idle.close()
    assert tls.ended == "closed"


def test_aborted_or_lost_connection_encrypts_nothing_more() -> None:
    paced, tls, _, _ = made(room=1)
    paced.write(bytes(9 * PIECE_BYTES))
    paced.abort()
    tls.reads(9)
    assert (len(tls.pieces), tls.ended, paced.get_write_buffer_size()) == (1, "aborted", 0)
    paced, tls, _, client = made(room=1)
    paced.write(bytes(18 * PIECE_BYTES))
    tls.ended = "lost"
    paced.connection_lost(None)
    tls.reads(9)
    assert (len(tls.pieces), client.events, paced.get_write_buffer_size()) == (1, ["pause", "lost"], 0)


async def test_large_response_is_encrypted_in_several_turns_of_the_event_loop() -> None:
    paced, tls, _, _ = made(room=1_000)
    paced.write(b"x" * (2 * TURN_BYTES))
    paced.write(b"end")
    assert sum(map(len, tls.pieces)) == TURN_BYTES
    for _ in range(3):
        await asyncio.sleep(0)
    assert b"".join(tls.pieces) == b"x" * (2 * TURN_BYTES) + b"end"


def test_lower_limit_below_what_tls_and_the_socket_hold_is_refused() -> None:
    paced, *_ = made(room=1)
    with pytest.raises(ValueError, match="the lower limit is 65536 bytes; it must be at least 262144"):
        paced.set_write_buffer_limits(high=4 * PIECE_BYTES)
