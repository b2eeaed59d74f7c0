"""ottla's broker membership in an Apache Kafka cluster: registration, metadata from the controller, and controlled shutdown."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.loop.env import RealEnv
from ottla.broker.membership.lifecycle import BrokerIdentity, BrokerLifecycle, Intervals
from ottla.broker.membership.membership import Membership
from ottla.broker.membership.metadata_fetch import MetadataFetch
from ottla.broker.membership.metadata_replica import MetadataReplica
from ottla.broker.membership.states import BrokerState
from ottla.broker.metadata.cluster import SUPPORTED_FEATURES
from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import Peer
from ottla.protocol.messages import feature_level_record, register_broker_record
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.support import oracle
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

BROKER = 7
REGISTER_BROKER, FEATURE_LEVEL = register_broker_record.RECORD_TYPE, feature_level_record.RECORD_TYPE


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    kafka = ApacheKafka(directory)
    try:
        kafka.start()
        yield kafka
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    finally:
        kafka.stop()


class Member:
    """The membership of a broker, without the rest of the broker."""

    def __init__(self, kafka: ApacheKafka) -> None:
        self.env = RealEnv()
        self.kinds: set[int] = set()
        self.peers: list[Peer] = []
        self._kafka = kafka
        directory = uuid.uuid4().bytes
        identity = BrokerIdentity(
            broker_id=BROKER,
            cluster_id=kafka.cluster_id,
            incarnation_id=uuid.uuid4().bytes,
            listeners=(("PLAINTEXT", "127.0.0.1", 19_999, 0),),
            features=tuple((name, low, high) for name, (low, high) in SUPPORTED_FEATURES.items()),
            rack="r1",
            log_directories=(directory,),
        )
        self.lifecycle = BrokerLifecycle(identity, Intervals(heartbeat_ms=300))
        self.membership = Membership(
            self.env,
            lifecycle=self.lifecycle,
            fetch=MetadataFetch(kafka.cluster_id, BROKER, directory),
            replica=MetadataReplica(lambda record, offset: self.kinds.add((record.value or b"\0\0")[1]), lambda: None),
            heartbeats=self.peer(*kafka.controller),
            fetches=self.peer(*kafka.controller),
            owner=self,
        )

    def state_changed(self) -> None:
        """Do nothing."""

    def metadata_lost(self, reason: str) -> None:
        pytest.fail(reason)

    def controller_replaced(self, reason: str) -> None:
        """Do nothing."""

    def peer(self, host: str, port: int) -> Peer:
        made = Peer(self.env, (host, port), client_id=str(BROKER), bug=self._bug, buffers=ReceiveBuffers())
        self.peers.append(made)
        return made

    @staticmethod
    def _bug() -> None:
        raise AssertionError("a callback raised an exception")

    async def ask(self, host: str, port: int, request: Any) -> Any:
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.peer(host, port).send(request, answered.set_result)
        answer = await answered
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def state(self) -> BrokerState:
        return self.lifecycle.state

    async def is_known(self) -> bool:
        """Whether the Apache Kafka broker includes this broker in its metadata."""
        return (BROKER, "r1") in await self.brokers()

    async def is_gone(self) -> bool:
        return not await self.is_known()

    async def brokers(self) -> set[tuple[int, str | None]]:
        """Return the ids and racks of the brokers in the Apache Kafka broker's metadata."""
        host, port = self._kafka.bootstrap.split(":")
        metadata = await self.ask(host, int(port), MetadataRequest(topics=[]))
        return {(broker.node_id, broker.rack) for broker in metadata.brokers}

    async def close(self) -> None:
        self.membership.stop()
        for peer in self.peers:
            peer.close()
        await asyncio.sleep(0.1)


async def until(condition: Callable[..., Awaitable[object]], wanted: object = True) -> None:
    """Wait on the event loop that runs the membership. Raises `oracle.ConditionNotMet`, like `oracle.wait_for`."""
    deadline_s = time.monotonic() + oracle.LIMIT_S
    while (value := await condition()) != wanted:
        if time.monotonic() > deadline_s:
            raise oracle.ConditionNotMet(f"{condition.__name__} is not {wanted} within {oracle.LIMIT_S:g} s; last value: {value}")
        await asyncio.sleep(oracle.PAUSE_S)


async def test_broker_joins_and_leaves_an_apache_kafka_controller(kafka: ApacheKafka) -> None:
    member = Member(kafka)
    lifecycle, membership = member.lifecycle, member.membership
    membership.start()
    await until(member.state, BrokerState.RECOVERY)
    assert {REGISTER_BROKER, FEATURE_LEVEL} <= member.kinds
    assert lifecycle.is_fenced
    assert not await member.is_known()

    membership.become_ready()
    await until(member.state, BrokerState.RUNNING)
    await until(member.is_known)

    block = await member.ask(*kafka.controller, AllocateProducerIdsRequest(broker_id=BROKER, broker_epoch=lifecycle.broker_epoch))
    assert (block.error_code, block.producer_id_len) == (0, 1_000)

    membership.begin_controlled_shutdown()
    await until(member.state, BrokerState.SHUTTING_DOWN)
    await until(member.is_gone)
    await member.close()
