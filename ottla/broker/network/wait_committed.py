"""Delays the responses of coordinators until the records they depend on are committed (below the high watermark).

If this broker dies, records above the high watermark may be lost, and another coordinator may then decide otherwise. So no response
reveals such records, whether its request wrote or only read them (like the timeline of Kafka's CoordinatorRuntime).
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator, Mapping
from typing import Any

from ottla.broker.partitions.barrier import Barrier, LogPosition, Replicated
from ottla.protocol.errors import Code
from ottla.protocol.steps import Pause, Step, Steps

Refusal = Callable[[Code], Any]
"""Returns the response that refuses a request with an error."""


async def response_once_committed(barrier: Barrier, handled: Steps[Any], refusal: Refusal) -> Any:
    """Handle a request, and delay its response until the logs that it depends on (`Barrier.depend_on`) are committed.

    If the partition of such a log has a new leader or leader epoch, the response is NOT_COORDINATOR.
    """
    dependencies: dict[Replicated, LogPosition] = {}
    response = await _noting_dependencies(barrier, handled, dependencies)
    if response is None:
        return None
    for partition, position in dependencies.items():
        if _was_lost(dependencies):
            return refusal(Code.NOT_COORDINATOR)
        if position.end_offset > partition.log.high_watermark and not await barrier.before_response(
            partition.log, position.end_offset
        ):
            return refusal(Code.NOT_COORDINATOR)
    return response


def _was_lost(dependencies: Mapping[Replicated, LogPosition]) -> bool:
    """Whether the response may depend on lost records, because a partition has a new leader or leader epoch."""
    return any(
        not partition.is_led or partition.log.leader_epoch != position.leader_epoch for partition, position in dependencies.items()
    )


@types.coroutine
def _noting_dependencies(
    barrier: Barrier, handled: Steps[Any], dependencies: dict[Replicated, LogPosition]
) -> Generator[Step, None, Any]:
    """Drive a handler, and note after each step the logs on which it depends. Other requests are handled between the steps."""
    failure: BaseException | None = None
    while True:
        # A step may run within a step of another request: one member's SyncGroup ends the pauses of the other members' requests.
        others = barrier.take_dependencies()
        try:
            step = handled.send(None) if failure is None else handled.throw(failure)
        except StopIteration as ended:
            return ended.value
        finally:
            _add(dependencies, barrier.take_dependencies())
            barrier.dependencies = others
        failure = None
        try:
            yield step
        except GeneratorExit:
            handled.close()
            raise
        except Exception as error:
            # Pass on the error of a function that ran in a worker thread.
            failure = error
        if isinstance(step, Pause) and step.is_parked:
            # The response of a parked request may depend on all records that the logs have by now.
            for partition, first in dependencies.items():
                dependencies[partition] = LogPosition(first.leader_epoch, partition.log.log_end_offset)


def _add(dependencies: dict[Replicated, LogPosition], newer: Mapping[Replicated, LogPosition]) -> None:
    """Add the dependencies of a step. Keep the leader epoch of the first step: in a later epoch the writes of that step may be
    lost."""
    for partition, position in newer.items():
        first = dependencies.setdefault(partition, position)
        dependencies[partition] = LogPosition(first.leader_epoch, position.end_offset)
