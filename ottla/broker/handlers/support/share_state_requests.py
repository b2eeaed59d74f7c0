"""Handles the share partitions of a request one after the other, for the five APIs of share states."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from ottla.broker.coordinators.share_states import STATE_WORK
from ottla.broker.handlers.support.each import each
from ottla.coordinator.share_state.records import ShareKey
from ottla.protocol.java_hash import id_work

UNITS_PER_BATCH = 2
"""Estimated time to write or read a state batch, in units of 2 us."""
STORED_PER_UNIT = 2
"""Number of stored state batches that count as one unit of work. A write may process all stored batches of a share partition."""


class RequestPartition(Protocol):
    partition: int


P_co = TypeVar("P_co", bound=RequestPartition, covariant=True)
P = TypeVar("P", bound=RequestPartition)
R = TypeVar("R")
A = TypeVar("A")


class RequestTopic(Protocol[P_co]):
    @property
    def topic_id(self) -> bytes: ...

    @property
    def partitions(self) -> Sequence[P_co]: ...


async def for_each_partition(
    group_id: str,
    topics: Sequence[RequestTopic[P]],
    one: Callable[[ShareKey, P], R],
    answer: Callable[[list[tuple[bytes, list[R]]]], A],
    batch_work: Callable[[ShareKey, P], int] = lambda key, asked: 0,
) -> A:
    """Handle each share partition, and build the response. As in Kafka it is empty for a request without a group or topics, or with
    a topic without partitions."""
    if not group_id or any(not topic.partitions for topic in topics):
        return answer([])

    def by_topic(results: Iterator[R]) -> A:
        return answer([(topic.topic_id, list(islice(results, len(topic.partitions)))) for topic in topics])

    key_work = STATE_WORK + id_work(group_id)
    return await each(
        ((ShareKey(group_id, topic.topic_id, p.partition), p) for topic in topics for p in topic.partitions),
        lambda asked: one(*asked),
        by_topic,
        work=lambda asked: key_work + batch_work(*asked),
        groups=len(topics),
    )
