"""The simulated network: ordered connections, partitions that delay bytes, and nodes without power."""

from __future__ import annotations

import asyncio
import random
from typing import cast

from ottla.simulation.links import Links
from ottla.simulation.scheduler import Scheduler

HERE, THERE, PORT = "here", "there", 1


class Side(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.pieces = 0
        self.transport: asyncio.Transport | None = None
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.pieces += 1

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def write(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def close(self) -> None:
        assert self.transport is not None
        self.transport.close()


class Ground:
    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(0)
        self.links = Links(self.scheduler, random.Random(seed))
        self.accepted: list[Side] = []
        self.refused = 0
        self.links.listen(THERE, PORT, self._accept)

    def _accept(self) -> Side:
        self.accepted.append(Side())
        return self.accepted[-1]

    def dial(self) -> Side:
        side = Side()

        def refused() -> None:
            self.refused += 1

        self.links.dial(HERE, THERE, PORT, lambda: side, refused)
        return side

    def wait(self, ms: float = 1_000) -> None:
        self.scheduler.advance(ms)


def test_simulated_network_keeps_the_order_of_bytes_only_within_a_connection() -> None:
    overtaken = 0
    for seed in range(30):
        ground = Ground(seed)
        one, other = ground.dial(), ground.dial()
        ground.wait()
        sent = bytes(range(100))
        for at in range(0, 100, 10):
            one.write(sent[at : at + 10])
            other.write(sent[at : at + 10])
        while not any(side.data for side in ground.accepted):
            ground.wait(1)
        overtaken += not ground.accepted[0].data
        ground.wait()
        assert [bytes(side.data) for side in ground.accepted] == [sent, sent]
    assert overtaken


def test_one_write_to_a_simulated_connection_may_arrive_as_several_reads() -> None:
    ground = Ground()
    side = ground.dial()
    ground.wait()
    for _ in range(200):
        side.write(b"12345")
    ground.wait()
    assert len(ground.accepted[0].data) == 1_000
    assert ground.accepted[0].pieces > 200


def test_simulated_one_way_network_partition_delays_bytes_and_keeps_their_order() -> None:
    ground = Ground()
    side = ground.dial()
    ground.wait()
    (there,) = ground.accepted
    side.write(b"1")
    ground.links.cut(HERE, THERE)
    side.write(b"2")
    there.write(b"back")
    ground.wait()
    assert bytes(side.data) == b"back"
    assert bytes(there.data) == b""
    ground.links.heal(HERE, THERE)
    side.write(b"3")
    ground.wait()
    assert bytes(there.data) == b"123"


def test_close_during_a_simulated_network_partition_reaches_the_peer_after_it() -> None:
    ground = Ground()
    side = ground.dial()
    ground.wait()
    (there,) = ground.accepted
    ground.links.cut(HERE, THERE)
    side.write(b"last")
    side.close()
    ground.wait()
    assert side.is_lost
    assert not there.is_lost
    ground.links.heal(HERE, THERE)
    ground.wait()
    assert there.is_lost
    assert bytes(there.data) == b"last"


def test_powered_off_simulated_node_resets_connections_only_after_it_has_returned() -> None:
    ground = Ground()
    side = ground.dial()
    ground.wait()
    ground.links.close_host(THERE, without_a_word=True)
    ground.links.is_down.add(THERE)
    ground.wait()
    side.write(b"lost")
    ground.wait()
    assert not side.is_lost
    ground.links.is_down.discard(THERE)
    ground.links.release()
    ground.wait()
    assert side.is_lost
    assert bytes(ground.accepted[0].data) == b""


def test_killed_simulated_process_closes_its_connections() -> None:
    ground = Ground()
    side = ground.dial()
    ground.wait()
    ground.links.close_host(THERE, without_a_word=False)
    ground.wait()
    assert side.is_lost
    ground.dial()
    ground.wait()
    assert ground.refused == 1


def test_connecting_during_a_simulated_network_partition_gets_no_response() -> None:
    ground = Ground()
    ground.links.cut(THERE, HERE)
    side = ground.dial()
    ground.wait()
    assert side.transport is None
    assert ground.refused == 0
    assert not ground.accepted


def test_paused_simulated_process_gets_arrived_bytes_when_resumed() -> None:
    ground = Ground()
    side = ground.dial()
    ground.scheduler.advance(100)
    ground.links.freeze(THERE)
    side.write(b"early")
    ground.scheduler.advance(10_000)
    late = ground.dial()
    ground.scheduler.advance(1_000)
    assert (bytes(ground.accepted[0].data), late.transport, ground.refused) == (b"", None, 0)
    ground.links.thaw(THERE)
    ground.scheduler.advance(1)
    assert bytes(ground.accepted[0].data) == b"early"
