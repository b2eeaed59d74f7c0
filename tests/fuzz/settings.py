"""Settings of brokers under fuzzing: some are the same for all brokers, and others are drawn by the seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FIXED = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "log.retention.check.interval.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.segment.bytes": "100000",
}
DRAWN: dict[str, tuple[str, ...]] = {
    "auto.create.topics.enable": ("true", "false"),
    "num.partitions": ("1", "2"),
    "group.initial.rebalance.delay.ms": ("0", "0", "100", "3000"),
    "group.max.size": ("2", "2147483647"),
    "group.min.session.timeout.ms": ("100", "6000"),
    "log.segment.bytes": ("1048576", "2000", "100000"),
    "log.index.interval.bytes": ("4096", "1"),
    "log.cleaner.delete.retention.ms": ("0", "86400000"),
    "log.cleaner.min.cleanable.ratio": ("0.5", "0.0"),
    "log.retention.ms": ("604800000", "10000"),
    "log.message.timestamp.type": ("CreateTime", "CreateTime", "LogAppendTime"),
    "max.incremental.fetch.session.cache.slots": ("1000", "1", "0"),
    "max.request.partition.size.limit": ("2000", "2"),
    "message.max.bytes": ("1048588", "1048588", "5000"),
    "offset.metadata.max.bytes": ("4096", "1"),
    "offsets.retention.minutes": ("10080", "1"),
    "offsets.retention.check.interval.ms": ("600000", "1000"),
    "ottla.durability": ("process", "process", "power"),
    "producer.id.expiration.ms": ("86400000", "60000"),
    "producer.id.expiration.check.interval.ms": ("600000", "1000"),
    "transactional.id.expiration.ms": ("604800000", "60000"),
    "transaction.remove.expired.transaction.cleanup.interval.ms": ("3600000", "1000"),
    "transaction.max.timeout.ms": ("900000", "60000"),
    "transaction.two.phase.commit.enable": ("false", "true"),
}
CHANGED = 0.25
"""Probability that a setting differs from its usual value."""


@dataclass(slots=True)
class Given:
    """Settings and feature levels with which a broker is started."""

    settings: dict[str, str]
    features: dict[str, int] = field(default_factory=dict)


def drawn(rng: random.Random) -> Given:
    """Draw the settings and feature levels of a seed."""
    settings = dict(FIXED)
    for name, values in DRAWN.items():
        if rng.random() < CHANGED:
            settings[name] = rng.choice(values)
    features = {"transaction.version": rng.choice((0, 1))} if rng.random() < 0.15 else {}
    return Given(settings, features)


def written(given: Given) -> list[str]:
    """Format settings and features as lines of a trace."""
    differing = {name: value for name, value in given.settings.items() if FIXED.get(name) != value}
    return [f"set {n}={v}" for n, v in differing.items()] + [f"feature {n}={v}" for n, v in given.features.items()]


def read(lines: list[str]) -> Given:
    """Parse the lines that `written` returns, and add the settings that all brokers share."""
    given = Given(dict(FIXED))
    for line in lines:
        word, pair = line.split(" ", 1)
        name, _, value = pair.partition("=")
        if word == "set":
            given.settings[name] = value
        else:
            given.features[name] = int(value)
    return given
