"""Answers of coordinators leave when what they tell of is committed: below the high watermark of the coordinator's partition.

What is above may be lost with this broker, and another coordinator may then decide otherwise. So nobody is told of it, whether the
request has written it or has only read it (the timeline of Kafka's CoordinatorRuntime).
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
    """What a handler has returned, delayed until the logs that it has noted (`Barrier.depend_on`) are committed.

    Where another broker leads such a partition by then, the request is answered with NOT_COORDINATOR.
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
    """The response where everything is committed already, else ``later``, which gets it.

    Where a partition has another leader epoch by now, what the response tells of may be lost.
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
    """The answer to a request that waits: it may tell of all that the logs have when it is made."""
    later = Later(is_durable=ready.is_durable, on_abandoned=ready.abandon)

    def made(response: Any) -> None:
        later.is_large = ready.is_large
        delayed = _delayed(barrier, response, {partition: LogPosition.on(partition) for partition in partitions}, refusal, later)
        if delayed is not later:
            later.resolve(delayed)

    ready.on_ready(made)
    return later


def _in_steps(barrier: Barrier, steps: Steps[Any], dependencies: dict[Replicated, LogPosition], refusal: Refusal) -> Steps[Any]:
    """Run steps, and note on which logs each of them stands. Requests of others are handled in between."""
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
            # What the step has done in another thread was refused.
            failure = error
    _add(dependencies, barrier.take_dependencies())
    return _settled(barrier, response, dependencies, refusal)


def _add(dependencies: dict[Replicated, LogPosition], newer: Mapping[Replicated, LogPosition]) -> None:
    """Note what a step stands on. The leader epoch stays that of the first step: what was written in it is lost with it."""
    for partition, position in newer.items():
        first = dependencies.setdefault(partition, position)
        dependencies[partition] = LogPosition(first.leader_epoch, position.end_offset)
