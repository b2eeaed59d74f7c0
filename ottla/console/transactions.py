"""The pages ``transactions`` and ``transaction``: the state and history of transactional ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from ottla.broker.view.transactions import TransactionDescription
from ottla.client.durations import elapsed_ms
from ottla.client.errors import KafkaAnswered
from ottla.client.explain.timeline import Timeline, TimelineEvent, TimelineLimits, newest_timeline
from ottla.console.page_request import Asked, clients_of, now_of
from ottla.console.paging import first_of, matching, part_of
from ottla.control.command import CommandRefused
from ottla.control.timeline import holder_text, merged
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import TRANSACTION_TOPIC
from ottla.protocol.java_hash import partition_for
from ottla.protocol.topic_partition import TopicPartition

EVENTS_SHOWN: Final = 100
PARTITIONS_SHOWN: Final = 40
"""Maximum number of partitions shown for a transaction, and for each event."""
LIMITS: Final = TimelineLimits(log_offsets=20_000, data_records=20_000, data_bytes=32 << 20)
"""The part of the logs that is searched for events. Searching it takes at most a second."""


def transactions(asked: Asked) -> dict[str, Any]:
    """List the transactional ids. Ids with open transactions come first."""
    listed = asked.view.transactions()
    ordered = sorted(listed.rows, key=lambda one: (not one.is_open, one.transactional_id))
    part = part_of(matching(ordered, asked, lambda one: one.transactional_id), asked)
    ids = [row.transactional_id for row in part.rows]
    described = asked.view.described(part.rows)
    now_ms, holders = asked.loop.read(lambda controlled: (now_of(controlled), clients_of(controlled, ids)))
    rows = [
        {
            "transactional_id": one.transactional_id,
            "state": one.state,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "open_ms": None if one.start_ms is None else elapsed_ms(one.start_ms, now_ms),
            "timeout_ms": one.timeout_ms,
            "partitions": len(one.partitions),
            "client": holders.get(one.transactional_id, ""),
        }
        for one in described
    ]
    return {"part": msgspec.structs.replace(part, rows=rows), "missing": listed.missing}


def transaction(asked: Asked) -> dict[str, Any]:
    name = asked.required("id")
    described = asked.view.transaction(name)
    logged = asked.last_read.get(_key(asked, name, described), lambda: _logged(asked, name))
    now_ms, known = asked.loop.read(lambda controlled: (now_of(controlled), msgspec.to_builtins(controlled.history.view(name))))
    events = merged(logged.events, known)
    if described is None and not events:
        raise CommandRefused(404, f"no events found of transactional id {name!r}; not searched: {' and '.join(logged.unread)}")
    described = described or _expired(name, events)
    return {
        "transactional_id": name,
        "state": described.state,
        "producer_id": described.producer_id,
        "producer_epoch": described.producer_epoch,
        "open_ms": None if described.start_ms is None else elapsed_ms(described.start_ms, now_ms),
        "timeout_ms": described.timeout_ms,
        "partitions": _named(described.partitions),
        "client": holder_text(known),
        "unread": logged.unread,
        "earlier": max(0, len(events) - EVENTS_SHOWN),
        "events": [_event(event) for event in events[-EVENTS_SHOWN:]],
    }


def _logged(asked: Asked, transactional_id: str) -> Timeline:
    with asked.deadline.alone():
        return newest_timeline(asked.client().brokers, transactional_id, LIMITS)


def _key(asked: Asked, transactional_id: str, described: TransactionDescription | None) -> object:
    """Return a cache key that changes when a log with events of the transactional id changes. Returns None if a log is not on this
    broker."""
    try:
        count = asked.view.topic(TRANSACTION_TOPIC).partitions
    except (KafkaError, KafkaAnswered):
        return None
    places = [(TRANSACTION_TOPIC, partition_for(transactional_id, count)), *(() if described is None else described.partitions)]
    states = asked.view.log_states(places)
    return None if None in states else (*places, *states)


def _expired(transactional_id: str, events: Sequence[TimelineEvent]) -> TransactionDescription:
    producer_id, producer_epoch = next((event.producer for event in reversed(events) if event.producer[0] >= 0), (-1, -1))
    return TransactionDescription(
        transactional_id=transactional_id,
        state="none: its coordinator no longer has the id",
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=0,
        start_ms=None,
        partitions=[],
    )


def _event(event: TimelineEvent) -> dict[str, Any]:
    producer_id, producer_epoch = event.producer
    return {
        "time_ms": event.time_ms,
        "kind": event.kind,
        "what": event.what,
        "where": event.where,
        "producer_id": producer_id,
        "producer_epoch": producer_epoch,
        "partitions": _named(event.partitions),
    }


def _named(partitions: Sequence[TopicPartition]) -> list[str]:
    return first_of([f"{topic}:{index}" for topic, index in partitions], PARTITIONS_SHOWN)
