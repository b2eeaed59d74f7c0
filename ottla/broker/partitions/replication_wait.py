"""Waits until all in-sync replicas have the batches of a request (Kafka's DelayedProduce)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from ottla.broker.loop.env import Timers
from ottla.broker.loop.wakeup import Wakeup
from ottla.broker.partitions.barrier import Barrier
from ottla.broker.partitions.partitions import Partition
from ottla.coordinator.replication.leader import ACKS_ALL
from ottla.protocol.errors import Code


class AppendedTo(NamedTuple):
    """A partition that a request has appended to, and the offset after the appended batch."""

    partition: Partition
    end_offset: int


async def replicated(
    barrier: Barrier, timers: Timers, appended: Sequence[AppendedTo], leaderships_lost: int, timeout_ms: int
) -> list[Code]:
    """Park the request until the high watermarks are above all appended batches; returns an error code for each batch.

    ``leaderships_lost`` is the barrier's counter before the first append. The code is NOT_LEADER_OR_FOLLOWER if another broker,
    which may not have the batch, was elected after the append, even if this broker leads again; REQUEST_TIMED_OUT if too few
    replicas have fetched the batch in time; NOT_ENOUGH_REPLICAS_AFTER_APPEND if the in-sync replicas have the batch, but are too
    few.
    """
    codes = [Code.NONE] * len(appended)
    waiting: list[int] = []
    for number, (partition, _) in enumerate(appended):
        if partition.was_lost_since(leaderships_lost):
            codes[number] = Code.NOT_LEADER_OR_FOLLOWER
        elif not partition.leader.is_sole:
            codes[number] = Code.REQUEST_TIMED_OUT
            waiting.append(number)
    left = len(waiting)
    wakeup: Wakeup | None = None

    def decided(number: int, is_committed: bool) -> None:
        nonlocal left
        left -= 1
        codes[number] = _code_of(appended[number], is_committed=is_committed)
        if wakeup is not None and not left:
            wakeup.wake()

    for number in waiting:
        barrier.answer_after(appended[number].partition.log, appended[number].end_offset, partial(decided, number))
    if left:
        wakeup = Wakeup(timers, timeout_ms)
        try:
            await wakeup.wait()
            return list(codes)
        finally:
            wakeup.stop()
            wakeup = None
    return codes


def _code_of(appended: AppendedTo, *, is_committed: bool) -> Code:
    partition, end_offset = appended
    if not is_committed or not partition.is_led:
        return Code.NOT_LEADER_OR_FOLLOWER
    code = partition.leader.answer_to(ACKS_ALL, end_offset, partition.log.high_watermark)
    assert code is not None, f"{partition.log.name}: {end_offset} is not committed"
    return code
