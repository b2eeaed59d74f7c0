"""Checks options of Kafka's producer and of Spark's Kafka sink that this sink does not need: accepts some values, and refuses
others.

Users move a stream from ``format("kafka")`` with the options that it has. A value that the sink fulfils anyway is accepted. A value
that would break exactly-once, or that names a Java class, is refused with the reason. Each accepted option without effect is named
once in the log of a process.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from ottla.spark.errors import PipelineError

logger = logging.getLogger("ottla.spark")

WITHOUT_EFFECT: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "batch.size",
        "buffer.memory",
        "client.dns.lookup",
        "client.id",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "connections.max.idle.ms",
        "delivery.timeout.ms",
        "enable.metrics.push",
        "linger.ms",
        "max.block.ms",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Options of Kafka's producer (ProducerConfig) that may have any value: the sink builds its batches from whole Spark tasks, and
retries until its own timeouts."""


class _Rule(msgspec.Struct, frozen=True):
    """The accepted values of an option, in lower case, and the reason for which the sink refuses all other values."""

    accepted: tuple[str, ...]
    reason: str


MAX_DIGITS: Final = 10
"""Number of digits of the largest number that an option of Kafka can have, an INT."""
_A_JAVA_CLASS: Final = "it names a class of Java, and the sink runs in Python"
_RULES: Final[Mapping[str, _Rule]] = {
    "acks": _Rule(("all", "-1"), "with fewer acknowledgements than all, a committed record is lost with its leader"),
    "enable.idempotence": _Rule(("true",), "without it a retry duplicates records"),
    "includeheaders": _Rule(("true", "false"), "it is true or false; a column 'headers' is always written, as by Spark's sink"),
    "interceptor.classes": _Rule(("",), _A_JAVA_CLASS),
    "key.serializer": _Rule((), "the column 'key' is text or bytes, which the sink writes unchanged: convert it in the frame"),
    "value.serializer": _Rule((), "the column 'value' is text or bytes, which the sink writes unchanged: convert it in the frame"),
    "partitioner.class": _Rule(("",), f"{_A_JAVA_CLASS}: give the rows a column 'partition'"),
    "partitioner.ignore.keys": _Rule(("false",), "rows with a key go to the key's partition: leave out the column 'key' instead"),
    "transaction.two.phase.commit.enable": _Rule(("false",), "the sink itself decides when a transaction is committed"),
}
_NUMBERS: Final[Mapping[str, tuple[range, str]]] = {
    "max.in.flight.requests.per.connection": (range(1, 6), "with more than 5, a retry may duplicate records (KAFKA-5494)"),
    "retries": (range(1, 1 << 31), "without retries, each lost response aborts a batch"),
}
"""The accepted values of each numeric option, and the reason for which the sink refuses all other values."""


def accepts(name: str, value: str, spelled: str) -> bool:
    """Whether ``name``, in lower case and without the prefix ``kafka.``, is an option of this module. Raises `PipelineError` for a
    value that is refused; the error has the name as ``spelled`` by the user."""
    if name in WITHOUT_EFFECT:
        return True
    if name in _NUMBERS:
        allowed, reason = _NUMBERS[name]
        if not (value.isascii() and value.isdigit() and len(value) <= MAX_DIGITS) or int(value) not in allowed:
            raise PipelineError(f"option {spelled!r} is {value!r}: {reason}; leave the option out")
        return True
    rule = _RULES.get(name)
    if rule is None:
        return False
    if value.lower() not in rule.accepted:
        advice = f"; leave the option out, or give {rule.accepted[0]}" if any(rule.accepted) else "; leave the option out"
        raise PipelineError(f"option {spelled!r} is {value!r}: {rule.reason}{advice}")
    return True


def names() -> Iterable[str]:
    """Return the names of all options of this module."""
    return (*WITHOUT_EFFECT, *_RULES, *_NUMBERS)


_FULFILLED: Final = frozenset({"acks", "enable.idempotence", "includeheaders", *_NUMBERS})
"""Options whose accepted values ask for what the sink does in any case. The log does not list them as without effect."""
_noted: set[str] = set()
"""The options that the log of this process has named."""


def note_without_effect(options: Iterable[tuple[str, str]]) -> None:
    """Name accepted options without effect in the log, once in a process. ``options`` are pairs of a name and the user's
    spelling."""
    new = {name: spelled for name, spelled in options if name not in _FULFILLED and name not in _noted}
    if new:
        _noted.update(new)
        logger.warning(
            "options of Kafka's producer without effect on this sink: %s. The sink sends a task's rows in batches of up to 256 KiB"
            " and waits for all in-sync replicas",
            ", ".join(sorted(new.values())),
        )
