"""The page ``overview``: the broker as a whole."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from msgspec import to_builtins

from ottla.addresses import joined_address
from ottla.client.errors import ClientError
from ottla.console.page_request import PARTITIONS_OF_A_TURN, Asked
from ottla.control.command import Steered
from ottla.storage.log import Log

NEWEST_SHOWN: Final = 20
"""Maximum number of transactional ids shown, those with the newest events."""
HELD_SHOWN: Final = 20
"""Maximum number of partitions shown whose readers are held back by an open transaction."""


def overview(asked: Asked) -> dict[str, Any]:
    topics = asked.client.topics()
    silent: list[ClientError] = []
    return {
        **asked.on_loop(_own),
        **_of_partitions(asked),
        "brokers": [
            {"node_id": node.node_id, "address": joined_address((node.host, node.port))} for node in asked.client.brokers.nodes()
        ],
        "topics": len(topics),
        "partitions": sum(topic.partitions for topic in topics),
        "groups": Counter(group.state for group in asked.client.groups(silent)),
        "transactions": Counter(transaction.state for transaction in asked.client.transactions(silent=silent)),
        "silent": sorted({str(error) for error in silent}),
    }


def _own(steered: Steered) -> dict[str, Any]:
    broker = steered.serving.broker
    problems = broker.problems
    return {
        "bootstrap": broker.bootstrap,
        "cluster_id": broker.cluster_id,
        "data_dir": steered.serving.directory,
        "is_sound": broker.is_sound and not problems,
        "problems": problems,
        "strays": to_builtins(broker.strays.summary()),
        "unexpected_errors": broker.unexpected_errors,
        "faults": len(steered.faults),
        # The machine's clock is not shown, because the page would change every second.
        "clock_ms": None if steered.clock is None else steered.clock.now_ms(),
        "newest": steered.history.newest(NEWEST_SHOWN),
    }


def _of_partitions(asked: Asked) -> dict[str, Any]:
    partitions = asked.on_loop(lambda steered: list(steered.serving.broker.partitions))
    looked_at = asked.in_turns(partitions, lambda _, partition: _looked_at(partition.log), PARTITIONS_OF_A_TURN)
    held = [one for _, one in looked_at if one is not None]
    held.sort(key=lambda one: one["last_stable_offset"] - one["high_watermark"])
    return {"size_bytes": sum(size_bytes for size_bytes, _ in looked_at), "held_count": len(held), "held": held[:HELD_SHOWN]}


def _looked_at(log: Log) -> tuple[int, dict[str, Any] | None]:
    """Return the size of a partition in bytes, and its last stable offset and high watermark if an open transaction holds readers
    back."""
    stable, high_watermark = log.last_stable_offset, log.high_watermark
    if stable >= high_watermark:
        return log.size_bytes, None
    held = {"topic": log.topic, "partition": log.partition, "last_stable_offset": stable, "high_watermark": high_watermark}
    return log.size_bytes, held
