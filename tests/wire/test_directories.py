"""What lies in the data directory and is not a topic's, and topics that are not for clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla import Broker
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.support.waiting import logged

pytestmark = pytest.mark.wire


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with Broker(data_dir=tmp_path) as broker:
        world = World(Wire(broker), "ottla", "")
        yield world
        world.close()


def test_strays_are_set_aside(world: World, tmp_path: Path) -> None:
    for command in ("topic t", "A = init", "produce A t"):
        perform(world, command)
    broker = world.broker.process  # type: ignore[attr-defined]
    broker.stop()
    (tmp_path / "t-0").rename(tmp_path / "ghost-0")
    broker.start()
    world.forget_connection()
    assert [p.name for p in tmp_path.glob("ghost-0*")] != ["ghost-0"]
    assert logged(broker, "stray_directory_set_aside")
    perform(world, "topic ghost")
    assert perform(world, "ends ghost") == "start=0 lso=0 end=0"
    assert perform(world, "produce A ghost") == "NONE @0"


def test_internal_topics_are_not_for_clients(world: World) -> None:
    for command in ("A = init x", "N = init"):
        perform(world, command)
    assert perform(world, "produce N __transaction_state") == "INVALID_TOPIC_EXCEPTION"
