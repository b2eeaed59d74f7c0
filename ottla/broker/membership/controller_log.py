"""The metadata log on a broker that only reads it, because a controller elsewhere writes it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ottla.broker.membership.metadata_replica import MetadataReplica
from ottla.broker.metadata.metadata_log import Observer
from ottla.coordinator.result import Result
from ottla.protocol.errors import Code, KafkaError

T = TypeVar("T")


class ControllerLog:
    """A `MetadataLog` that refuses every change with NOT_CONTROLLER; `forwarding` sends changes to the controller."""

    def __init__(self, replica: MetadataReplica) -> None:
        self._replica = replica

    @property
    def end_offset(self) -> int:
        return self._replica.committed_end_offset

    @property
    def high_watermark(self) -> int:
        return self._replica.committed_end_offset

    @property
    def leader_epoch(self) -> int:
        return self._replica.last_epoch

    def observers(self) -> list[Observer]:
        return []

    def execute(self, result: Result[T]) -> T:
        raise KafkaError(Code.NOT_CONTROLLER)

    async def execute_large(self, command: Callable[[], Result[T]], before_append: Callable[[], None]) -> T:
        raise KafkaError(Code.NOT_CONTROLLER)
