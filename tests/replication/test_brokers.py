"""Brokers replicate over a network: what producers are answered, who is in sync, and what a failover keeps."""

from __future__ import annotations

import pytest

from ottla.protocol.errors import Code
from ottla.protocol.messages.produce import ProduceResponse
from tests.replication.brokers import World
from tests.storage.logs import stored


class Producer:
    """Keeps what it was answered, by the value of each batch."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.codes: dict[bytes, Code] = {}

    def send(self, broker_id: int, value: bytes, acks: int = -1, timeout_ms: int = 3_000) -> None:
        def answered(response: ProduceResponse) -> None:
            self.codes[value] = Code(response.responses[0].partition_responses[0].error_code)

        with self.world.nodes[broker_id].at_work():
            self.world.server(broker_id).produce(value, answered, acks=acks, timeout_ms=timeout_ms)


@pytest.fixture
def world() -> World:
    world = World(1)
    world.settle()
    return world


def values(world: World, broker_id: int, *, committed: bool = False) -> list[bytes]:
    log = world.partition(broker_id).log
    return [raw for header, raw in stored(log) if not committed or header.next_offset <= log.high_watermark]


def test_a_producer_is_answered_once_all_in_sync_have_its_batch(world: World) -> None:
    producer = Producer(world)
    producer.send(1, b"a")
    assert producer.codes == {}
    assert world.partition(1).log.log_end_offset == 1
    world.wait(500)
    assert producer.codes == {b"a": Code.NONE}
    assert [world.partition(b).log.log_end_offset for b in (1, 2, 3)] == [1, 1, 1]
    world.wait(500)
    assert [world.partition(b).log.high_watermark for b in (1, 2, 3)] == [1, 1, 1]


def test_with_acks_1_the_leader_alone_answers(world: World) -> None:
    producer = Producer(world)
    producer.send(1, b"a", acks=1)
    assert producer.codes == {b"a": Code.NONE}
    assert world.partition(1).log.high_watermark == 0


def test_who_follows_is_not_written_to(world: World) -> None:
    producer = Producer(world)
    producer.send(2, b"a")
    assert producer.codes == {b"a": Code.NOT_LEADER_OR_FOLLOWER}
    assert world.partition(2).log.log_end_offset == 0
