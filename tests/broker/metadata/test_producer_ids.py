"""Producer ids from blocks that a controller allocates, immediately or later."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.broker.metadata.producer_ids import ProducerIds
from ottla.protocol.errors import Code, KafkaError


class Controller:
    """A controller that answers when the test calls the stored callback."""

    def __init__(self) -> None:
        self.asked: list[Callable[[range | KafkaError], None]] = []

    def allocate_producer_ids(self, then: Callable[[range | KafkaError], None]) -> None:
        self.asked.append(then)


def test_producer_id_request_before_the_first_block_gets_a_retriable_error() -> None:
    """The block is requested only once, however many callers need an id before it arrives."""
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


def test_refused_producer_id_block_is_requested_again() -> None:
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


def test_next_producer_id_block_is_requested_before_the_last_id_is_used() -> None:
    controller = Controller()
    ids = ProducerIds(controller, ahead=2)
    ids.ask_ahead()
    ids.ask_ahead()
    controller.asked.pop()(range(10, 14))
    assert [ids.new(), ids.new()] == [10, 11]
    assert controller.asked == []
    assert ids.new() == 12
    (answer,) = controller.asked
    answer(range(20, 30))
    assert [ids.new() for _ in range(4)] == [13, 20, 21, 22]
    assert len(controller.asked) == 1


def test_refused_request_for_the_next_producer_id_block_keeps_the_current_block() -> None:
    controller = Controller()
    ids = ProducerIds(controller, ahead=2)
    ids.ask_ahead()
    controller.asked.pop()(range(10, 12))
    assert ids.new() == 10
    controller.asked.pop()(KafkaError(Code.KAFKA_STORAGE_ERROR, "not now"))
    assert ids.new() == 11
    controller.asked.pop()(range(50, 60))
    assert ids.new() == 50
