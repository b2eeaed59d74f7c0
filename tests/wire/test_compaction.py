"""Stock clients read a compacted log with empty batches, gaps, tombstones, and markers of transactions without records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla import Broker
from tests.scenarios.brokers import Wire
from tests.scenarios.play import perform
from tests.scenarios.world import World
from tests.wire.clients import Client
from tests.wire.conftest import read

pytestmark = [pytest.mark.wire, pytest.mark.entry("STO-15", "STO-26")]


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker with a topic ``t`` that has been compacted."""
    with Broker(data_dir=Path(tmp_path_factory.mktemp("compacted")), settings={"log.cleaner.backoff.ms": 50}) as broker:
        world = World(Wire(broker), "ottla", "")
        for command in (
            "topic t cleanup.policy=compact segment.ms=5000 min.cleanable.dirty.ratio=0.01",
            "N = init",
            "A = init aborted",
            "B = init committed",
            "M = init",
            "produce N t keys=a age=100000",
            "produce M t keys=f age=100000",
            "produce N t keys=b,a age=100000",
            "produce A t keys=x,y age=100000",
            "abort A",
            "produce B t keys=c,a",
            "commit B",
            "produce N t keys=-d,e",
            "produce N t keys=f age=-6000",
        ):
            perform(world, command)
        perform(world, "produce N t keys=a age=-12000")
        perform(world, "produce N t keys=g age=-18000")
        said = world.until("t is compacted", lambda: perform(world, "log t keys"), lambda answer: answer.count(":a=") == 1)
        assert said.startswith("1 p4 e0 data s0 | 2-3 p1"), f"the last batch of the producer is kept without records: {said}"
        yield broker.bootstrap
        world.close()


def test_consumer_reads_exactly_the_remaining_records_of_a_compacted_topic(
    client: Client, compacted: str, unique: Callable[[str], str], closing: Callable[[Any], Any]
) -> None:
    for committed in (True, False):
        consumer = closing(client.consumer(compacted, ["t"], group=unique("g"), committed=committed))
        received = [m.value for m in read(consumer, 7)]
        assert received == [b"n2", b"b1", None, b"n5", b"n6", b"n7", b"n8"]
