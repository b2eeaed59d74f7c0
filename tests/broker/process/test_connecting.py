"""An `Env` listens and connects in the same way on real sockets and in a simulated world."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.loop.env import Env, RealEnv
from ottla.protocol.codec import decode_response_frame, request_frame
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.env import SimulatedEnv
from tests.support.world import simulated_env

HOST = "127.0.0.1"
LARGE = bytes(range(256)) * 1_000


class Peer(asyncio.BufferedProtocol):
    """A protocol that stores received bytes, and sends them back if it `echoes`."""

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


class Dialled:
    """One attempt to connect, with its result."""

    def __init__(self, env: Env, port: int) -> None:
        self.peer = Peer()
        self.error: OSError | None = None
        self._made = 0
        self.attempt = env.connect(HOST, port, self._make, self._failed)

    def _make(self) -> Peer:
        self._made += 1
        return self.peer

    def _failed(self, error: OSError) -> None:
        assert self.error is None
        self.error = error

    @property
    def is_over(self) -> bool:
        return self.error is not None or hasattr(self.peer, "transport")


async def dial(env: Env, port: int) -> Dialled:
    """Connect to a port, and wait until the attempt has succeeded or failed."""
    dialled = Dialled(env, port)
    assert not dialled.is_over
    while not dialled.is_over:
        await turn(env)
    return dialled


async def turn(env: Env) -> None:
    if isinstance(env, SimulatedEnv):
        env.settle()
    await asyncio.sleep(0)


async def turns(env: Env, peer: Peer, count: int) -> None:
    """Run the event loop until `count` bytes have arrived."""
    while len(peer.arrived) < count:
        await turn(env)


@pytest.mark.parametrize("make_env", [simulated_env, pytest.param(RealEnv, marks=pytest.mark.wire)])
async def test_connected_sockets_exchange_data_and_detect_the_close(make_env: type[Env]) -> None:
    env: Env = make_env()
    called: list[Peer] = []

    def accept() -> Peer:
        called.append(Peer(echoes=True))
        return called[-1]

    listening = await env.listen(HOST, 0, accept)
    caller = (await dial(env, listening.port)).peer
    caller.transport.write(LARGE)
    await turns(env, caller, len(LARGE))
    assert caller.arrived == called[0].arrived == LARGE
    caller.transport.close()
    while not (caller.is_lost and called[0].is_lost):
        await turn(env)
    listening.close()
    assert isinstance((await dial(env, listening.port)).error, ConnectionRefusedError)


@pytest.mark.parametrize("make_env", [simulated_env, pytest.param(RealEnv, marks=pytest.mark.wire)])
async def test_cancelled_connection_attempt_calls_no_callback(make_env: type[Env]) -> None:
    env: Env = make_env()
    called: list[Peer] = []

    def accept() -> Peer:
        called.append(Peer(echoes=True))
        return called[-1]

    listening = await env.listen(HOST, 0, accept)
    cancelled = Dialled(env, listening.port)
    cancelled.attempt.cancel()
    connected = (await dial(env, listening.port)).peer
    assert not cancelled.is_over
    connected.transport.close()
    while not (connected.is_lost and all(peer.is_lost for peer in called)):
        await turn(env)
    listening.close()
    refused = Dialled(env, listening.port)
    refused.attempt.cancel()
    assert isinstance((await dial(env, listening.port)).error, ConnectionRefusedError)
    assert not refused.is_over


async def test_connection_delivers_no_bytes_while_reading_is_paused() -> None:
    env, called = simulated_env(), Peer()
    listening = await env.listen(HOST, 0, lambda: called)
    caller = (await dial(cast(Any, env), listening.port)).peer
    called.transport.pause_reading()
    caller.transport.writelines([b"a", b"b"])
    env.settle()
    assert called.arrived == b""
    called.transport.resume_reading()
    env.settle()
    assert called.arrived == b"ab"


def test_simulated_broker_answers_over_the_simulated_network() -> None:
    broker = SimulatedBroker().start()
    caller = Dialled(cast(Any, broker.env), 9092).peer
    broker.env.settle()
    caller.transport.write(request_frame(18, 0, 7, "peer", ApiVersionsRequest()))
    broker.env.settle()
    size = int.from_bytes(caller.arrived[:4], "big")
    correlation_id, response = decode_response_frame(18, 0, bytes(caller.arrived[4 : 4 + size]))
    assert (correlation_id, response.error_code) == (7, 0)
    broker.stop()
    broker.env.settle()
    assert caller.is_lost


async def test_connection_to_an_invalid_port_is_reported_as_an_error() -> None:
    """A registration of another broker may contain an invalid port."""
    dialled = await dial(RealEnv(), 70_000)
    assert dialled.error is not None
