"""Answers of coordinators leave when what they tell of is committed: below the high watermark of the coordinator's partition.

What is above may be lost with this broker, and another coordinator may then decide otherwise. So nobody is told of it, whether the
request has written it or has only read it (the timeline of Kafka's CoordinatorRuntime).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import GeneratorType
from typing import Any

from ottla.broker.gate import Gate, Replicated
from ottla.broker.later import Later
from ottla.protocol.errors import Code, KafkaError
from ottla.storage.steps import Steps

Refusal = Callable[[Code], Any]
"""The response that refuses a request with an error."""


def once_committed(gate: Gate, response: Any, refusal: Refusal) -> Any:
    """What a handler has returned, delayed until the logs that it has noted (`Gate.stand_on`) are committed.

    Where another broker leads such a partition by then, the request is answered with NOT_COORDINATOR.
    """
    standing = gate.take_standing()
    if type(response) is GeneratorType:
        return _in_steps(gate, response, standing, refusal)
    if not standing or response is None:
        return response
    if type(response) is Later:
        return _once_ready(gate, response, list(standing), refusal)
    return _delayed(gate, response, standing, refusal, Later())


def _delayed(gate: Gate, response: Any, standing: Mapping[Replicated, int], refusal: Refusal, later: Later) -> Any:
    """The response where everything is committed already, else ``later``, which gets it."""
    awaited = {partition: end for partition, end in standing.items() if partition.is_led and end > partition.log.high_watermark}
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
        gate.answer_behind(partition.log, min(end_offset, partition.log.log_end_offset), committed)
    return later


def _once_ready(gate: Gate, ready: Later, partitions: list[Replicated], refusal: Refusal) -> Later:
    """The answer to a request that waits: it may tell of all that the logs have when it is made."""
    later = Later(is_durable=ready.is_durable, on_abandoned=ready.abandon)

    def made(response: Any) -> None:
        later.is_large = ready.is_large
        ends = {partition: partition.log.log_end_offset for partition in partitions}
        delayed = _delayed(gate, response, ends, refusal, later)
        if delayed is not later:
            later.resolve(response)

    ready.on_ready(made)
    return later


def _in_steps(gate: Gate, steps: Steps[Any], standing: dict[Replicated, int], refusal: Refusal) -> Steps[Any]:
    """Run steps, and note on which logs each of them stands. Requests of others are handled in between."""
    failure: BaseException | None = None
    while True:
        gate.take_standing()
        try:
            step = next(steps) if failure is None else steps.throw(failure)
        except StopIteration as ended:
            response = ended.value
            break
        except KafkaError as error:
            response = refusal(error.code)
            break
        standing |= gate.take_standing()
        failure = None
        try:
            yield step
        except Exception as error:
            # What the step has done in another thread was refused.
            failure = error
    standing |= gate.take_standing()
    if response is None or not standing:
        return response
    if type(response) is Later:
        return _once_ready(gate, response, list(standing), refusal)
    return _delayed(gate, response, standing, refusal, Later())
