"""The brokers that scenarios run against: ottla and Apache Kafka, in the same few set-ups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ottla import Broker
from tools.kafka import ApacheKafka

TARGETS = ("ottla", "kafka")

_COMMON = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "500",
}
_TWO_PHASE = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
_SHORT_LIVES = {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
    "producer.id.expiration.ms": "1500",
    "producer.id.expiration.check.interval.ms": "200",
}


@dataclass(slots=True, frozen=True)
class SetUp:
    settings: dict[str, str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)


SET_UPS = {
    "default": SetUp(),
    "tv0": SetUp(features={"transaction.version": 0}),
    "tv1": SetUp(features={"transaction.version": 1}),
    "short": SetUp(_SHORT_LIVES),
    "2pc": SetUp(_TWO_PHASE | {"transactional.id.expiration.ms": "1500", **_SHORT_LIVES}),
    "unstable": SetUp({"unstable.api.versions.enable": "true"}),
    "idle": SetUp({"connections.max.idle.ms": "1000", "max.connections.per.ip": "20"}),
}


class Handle(Protocol):
    """A broker process that can be stopped, killed and started again on its directory."""

    @property
    def bootstrap(self) -> str: ...

    def restart(self, *, kill: bool = False) -> object: ...

    def stop(self) -> object: ...


def start(target: str, name: str, directory: Path) -> Handle:
    """A running broker of this kind and set-up. Raises `Unavailable` where Apache Kafka cannot be had."""
    found = SET_UPS[name]
    settings: Mapping[str, str] = _COMMON | found.settings
    if target == "ottla":
        return Broker(data_dir=directory, settings=settings, features=found.features).start()
    levels = [part for key, level in found.features.items() for part in ("--feature", f"{key}={level}")]
    return ApacheKafka(directory, settings=settings, format_arguments=("--standalone", *levels)).start()
