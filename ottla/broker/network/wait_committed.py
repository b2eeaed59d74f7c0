"""Delays the responses of coordinators until the records they depend on are committed (below the high watermark).

Records above the high watermark may be lost with this broker, and another coordinator may then decide otherwise. So no response
reveals them, whether its request wrote or only read them (like the timeline of Kafka's CoordinatorRuntime).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Any

from ottla.broker.loop.pending_response import Later
from ottla.broker.partitions.barrier import Barrier, LogPosition, Replicated
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import Steps

Refusal = Callable[[Code], Any]
"""The response that refuses a request with an error."""


def once_committed(barrier: Barrier, response: Any, refusal: Refusal) -> Any:
    """Delay a handler's result until the logs that it depends on (`Barrier.depend_on`) are committed.

    If another broker leads such a partition by then, the response is NOT_COORDINATOR.
    """
    dependencies = barrier.take_dependencies()
    if type(response) is GeneratorType:
        return _in_steps(barrier, response, dependencies, refusal)
    return _settled(barrier, response, dependencies, refusal)


def _settled(barrier: Barrier, response: Any, dependencies: Mapping[Replicated, LogPosition], refusal: Refusal) -> Any:
    if not dependencies or response is None:
        return response
    if type(response) is Later:
        return _once_ready(barrier, response, list(dependencies), refusal)
    return _delayed(barrier, response, dependencies, refusal, Later())


def _delayed(
    barrier: Barrier, response: Any, dependencies: Mapping[Replicated, LogPosition], refusal: Refusal, later: Later
) -> Any:
    """The response if everything is already committed, else ``later``, which is resolved with it.

    If a partition has another leader epoch by now, the records that the response depends on may be lost.
    """
    if any(
        not partition.is_led or partition.log.leader_epoch != position.leader_epoch for partition, position in dependencies.items()
    ):
        return refusal(Code.NOT_COORDINATOR)
    awaited = {partition: s.end_offset for partition, s in dependencies.items() if s.end_offset > partition.log.high_watermark}
    if not awaited:
        return response
    waiting = len(awaited)

    def committed(is_committed: bool) -> None:
        nonlocal waiting
        waiting -= 1
        if not is_committed:
            later.resolve(refusal(Code.NOT_COORDINATOR))
        elif not waiting:
            later.resolve(response)

    for partition, end_offset in awaited.items():
        barrier.answer_after(partition.log, end_offset, committed)
    return later


def _once_ready(barrier: Barrier, ready: Later, partitions: list[Replicated], refusal: Refusal) -> Later:
    """Delay a pending response: it may depend on all records that the logs have when it is ready."""
    later = Later(is_durable=ready.is_durable, on_abandoned=ready.abandon)

    def made(response: Any) -> None:
        later.is_large = ready.is_large
        delayed = _delayed(barrier, response, {partition: LogPosition.on(partition) for partition in partitions}, refusal, later)
        if delayed is not later:
            later.resolve(delayed)

    ready.on_ready(made)
    return later


def _in_steps(barrier: Barrier, steps: Steps[Any], dependencies: dict[Replicated, LogPosition], refusal: Refusal) -> Steps[Any]:
    """Run steps, and record the logs on which each of them depends. Other requests are handled between the steps."""
    failure: BaseException | None = None
    while True:
        barrier.take_dependencies()
        try:
            step = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            response = ended.value
            break
        except KafkaError as error:
            response = refusal(error.code)
            break
        _add(dependencies, barrier.take_dependencies())
        failure = None
        try:
            yield step
        except Exception as error:
            # The function of the step, which ran in a worker thread, has failed.
            failure = error
    _add(dependencies, barrier.take_dependencies())
    return _settled(barrier, response, dependencies, refusal)


def _add(dependencies: dict[Replicated, LogPosition], newer: Mapping[Replicated, LogPosition]) -> None:
    """Add the dependencies of a step. The leader epoch stays that of the first step, whose writes are lost in a later epoch."""
    for partition, position in newer.items():
        first = dependencies.setdefault(partition, position)
        dependencies[partition] = LogPosition(first.leader_epoch, position.end_offset)
