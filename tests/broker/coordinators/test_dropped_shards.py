"""A coordinator's topic is deleted, and sometimes recreated, while work for its old log is still pending."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.broker.coordinators.groups import DeletedTopic
from ottla.protocol.errors import Code
from ottla.protocol.internal_topics import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.simulation.broker import SimulatedBroker
from ottla.simulation.faulty_filesystem import FaultyFilesystem
from ottla.storage.filesystem import Damaged
from tests.scenarios.play import perform
from tests.scenarios.world import World


@pytest.fixture
def disk() -> FaultyFilesystem:
    return FaultyFilesystem()


@pytest.fixture
def broker(disk: FaultyFilesystem) -> Iterator[SimulatedBroker]:
    started = SimulatedBroker({"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}, fs=disk).start()
    yield started
    started.close()
    assert started.bugs == 0


@pytest.fixture
def world(broker: SimulatedBroker) -> Iterator[World]:
    made = World(broker, "ottla", "")
    yield made
    made.close()


@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("refused", ["marker", "outcome"])
def test_recreated_transaction_log_ignores_decisions_of_the_deleted_log(
    broker: SimulatedBroker, disk: FaultyFilesystem, world: World, refused: str, is_made_again: bool
) -> None:
    """The deleted log left a marker to retry, or an outcome that could not be logged."""
    for command in ("topic t", "A = init x", "produce A t"):
        perform(world, command)
    world.held.add("t")
    inner = broker.broker
    disk.refuses = lambda number, kind, path: "/data/t-0" in path
    assert perform(world, "commit A") == "NONE p1 e1"
    if refused == "outcome":
        disk.refuses = lambda number, kind, path: "__transaction_state-0" in path and kind == "append"
        broker.sleep(300)
        assert inner.transactions.delayed == 1
    inner.cluster.delete_topic(TRANSACTION_TOPIC)
    disk.refuse_nothing()
    if is_made_again:
        assert perform(world, "B = init y").startswith("NONE")
    broker.sleep(5_000)
    assert inner.unexpected_errors == 0
    assert inner.transactions.delayed == 0
    if is_made_again:
        assert perform(world, "describe x") == "TRANSACTIONAL_ID_NOT_FOUND"
        assert inner.partitions.get(TRANSACTION_TOPIC, 0).log.log_end_offset == 1


def joining(metadata: bytes) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
    )


def test_parked_group_requests_are_answered_when_the_coordinator_topic_is_deleted(broker: SimulatedBroker, world: World) -> None:
    perform(world, "topic t")
    assert perform(world, "commit_offsets h t=5").startswith("NONE")
    first, second = broker.connect("one"), broker.connect("two")
    assert first.call(joining(b"a"), 3).error_code == 0
    sent = second.send(joining(b"b"), 3)
    broker.broker.cluster.delete_topic(OFFSETS_TOPIC)
    assert second.receive(sent).error_code == Code.NOT_COORDINATOR
    for client in (first, second):
        client.close()


def test_parked_group_requests_are_answered_when_the_coordinators_log_goes_offline(broker: SimulatedBroker, world: World) -> None:
    """Changes of the group can no longer be written, so parked requests would otherwise never be answered."""
    perform(world, "topic t")
    assert perform(world, "commit_offsets h t=5").startswith("NONE")
    first, second = broker.connect("one"), broker.connect("two")
    assert first.call(joining(b"a"), 3).error_code == 0
    sent = second.send(joining(b"b"), 3)
    partitions = broker.broker.partitions
    partitions.disk_refused(partitions.get(OFFSETS_TOPIC, 0).log, Damaged("log", "somebody else wrote to it"))
    began_ms = broker.now_ms()
    assert second.receive(sent).error_code == Code.NOT_COORDINATOR
    assert broker.now_ms() - began_ms < 200
    assert first.call(joining(b"a"), 3).error_code == Code.NOT_COORDINATOR
    for client in (first, second):
        client.close()


def test_recreated_offsets_log_ignores_pending_deletions_of_the_old_log(broker: SimulatedBroker, world: World) -> None:
    """A pending deletion of offsets in the old log, up to position 100, does not delete an offset in the recreated log."""
    perform(world, "topic t")
    groups = broker.broker.groups
    assert perform(world, "commit_offsets g t=5").startswith("NONE")
    groups._forgotten[DeletedTopic("t", 0, 100)] = None
    broker.broker.cluster.delete_topic(OFFSETS_TOPIC)
    assert perform(world, "commit_offsets g t=7").startswith("NONE")
    broker.sleep(20_000)
    assert groups.shard("g")[0].offset_count("g") == 1


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        *((f"produce A u v={version}", "NOT_ENOUGH_REPLICAS") for version in (11, 12)),
        *((f"offsets A g u=1 v={version}", "NOT_COORDINATOR") for version in (4, 5)),
    ],
)
def test_transactional_batch_is_refused_when_the_transaction_log_is_offline(
    broker: SimulatedBroker, world: World, command: str, refused: str
) -> None:
    """Memory already lists the partition in the transaction, so only the state of the log can cause the refusal.

    In the lower version of each API the client adds the partitions itself; in the higher version the broker adds them implicitly.
    """
    for first in ("topic u", "A = init x", "add A u", "add_offsets A g"):
        perform(world, first)
    partitions = broker.broker.partitions
    partitions.disk_refused(partitions.get(TRANSACTION_TOPIC, 0).log, Damaged("log", "somebody else wrote to it"))
    assert perform(world, f"{command} once") == refused
    assert partitions.get("u", 0).log.log_end_offset == 0
    assert perform(world, "committed g u") == "-1"
