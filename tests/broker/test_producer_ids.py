"""Producer ids out of blocks that a controller gives, at once or later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.producer_ids import ProducerIds
from ottla.protocol.errors import Code, KafkaError


class Controller:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[Callable[[range | KafkaError], None]] = []

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        self.asked.append(then)


def test_who_asks_before_a_block_is_there_is_told_to_come_again() -> None:
    """And the block is asked for once, however many want an id meanwhile."""
    controller = Controller()
    ids = ProducerIds(controller)
    for _ in range(3):
        with pytest.raises(KafkaError) as refused:
            ids.new()
        assert refused.value.code is Code.COORDINATOR_LOAD_IN_PROGRESS
    (answer,) = controller.asked
    answer(range(5, 7))
    assert [ids.new(), ids.new()] == [5, 6]
    with pytest.raises(KafkaError):
        ids.new()
    assert len(controller.asked) == 2


def test_a_refused_block_is_asked_for_anew() -> None:
    controller = Controller()
    ids = ProducerIds(controller)
    with pytest.raises(KafkaError):
        ids.new()
    controller.asked.pop()(KafkaError(Code.KAFKA_STORAGE_ERROR, "the disk is full"))
    with pytest.raises(KafkaError, match="the disk is full") as refused:
        ids.new()
    assert refused.value.code is Code.COORDINATOR_LOAD_IN_PROGRESS
    controller.asked.pop()(range(1))
    assert ids.new() == 0
