"""An `Env` listens and connects: on this machine and in a simulated world alike."""

from __future__ import annotations

import asyncio
import random

import pytest

from ottla.broker.env import Env, RealEnv
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import START_MS, SimulatedEnv
from ottla.simulation.memory_filesystem import MemoryFilesystem

HOST = "127.0.0.1"
LARGE = bytes(range(256)) * 1_000


class Peer(asyncio.BufferedProtocol):
    """Keeps what arrives, and sends it back where it is the one that was called."""

    def __init__(self, *, echoes: bool = False) -> None:
        self._echoes = echoes
        self._room = bytearray(1 << 12)
        self.arrived = bytearray()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._room

    def buffer_updated(self, nbytes: int) -> None:
        self.arrived += self._room[:nbytes]
        if self._echoes:
            self.transport.write(bytes(self._room[:nbytes]))


def simulated() -> SimulatedEnv:
    return SimulatedEnv(MemoryFilesystem(), random.Random(1), START_MS)


async def turns(env: Env, peer: Peer, count: int) -> None:
    """Until so many bytes have arrived."""
    while len(peer.arrived) < count:
        if isinstance(env, SimulatedEnv):
            env.settle()
        await asyncio.sleep(0)


@pytest.mark.parametrize("make_env", [simulated, pytest.param(RealEnv, marks=pytest.mark.wire)])
async def test_two_protocols_talk_to_each_other(make_env: type[Env]) -> None:
    env: Env = make_env()
    called: list[Peer] = []

    def accept() -> Peer:
        called.append(Peer(echoes=True))
        return called[-1]

    listening = await env.listen(HOST, 0, accept)
    caller = await env.connect(HOST, listening.port, Peer)
    caller.transport.write(LARGE)
    await turns(env, caller, len(LARGE))
    assert caller.arrived == called[0].arrived == LARGE
    caller.transport.close()
    while not (caller.is_lost and called[0].is_lost):
        if isinstance(env, SimulatedEnv):
            env.settle()
        await asyncio.sleep(0)
    listening.close()
    with pytest.raises(ConnectionRefusedError):
        await env.connect(HOST, listening.port, Peer)


async def test_who_reads_nothing_is_sent_nothing() -> None:
    env, called = simulated(), Peer()
    listening = await env.listen(HOST, 0, lambda: called)
    caller = await env.connect(HOST, listening.port, Peer)
    called.transport.pause_reading()
    caller.transport.writelines([b"a", b"b"])
    env.settle()
    assert called.arrived == b""
    called.transport.resume_reading()
    env.settle()
    assert called.arrived == b"ab"


def test_a_simulated_broker_answers_whoever_connects_to_it() -> None:
    broker = SimulatedBroker().start()
    caller = asyncio.run(broker.env.connect(HOST, 9092, Peer))
    caller.transport.write(request_frame(18, 0, 7, "peer", ApiVersionsRequest()))
    broker.env.settle()
    size = int.from_bytes(caller.arrived[:4], "big")
    correlation_id, response = decode_response_frame(18, 0, bytes(caller.arrived[4 : 4 + size]))
    assert (correlation_id, response.error_code) == (7, 0)
    broker.stop()
    broker.env.settle()
    assert caller.is_lost
    broker._loop.close()
