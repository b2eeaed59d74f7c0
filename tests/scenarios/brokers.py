"""The brokers that scenarios run against: ottla and Apache Kafka, in the same few set-ups."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ottla import Broker
from ottla.simulation.broker import SimulatedBroker
from tests.raw import RawClient
from tools.kafka import QUICK_JVM, ApacheKafka

TARGETS = ("simulated", "ottla", "kafka")
"""ottla in this process without sockets and clock, ottla as users run it, Apache Kafka."""

_COMMON = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "500",
}
_QUICK_RESTART = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "200"}
"""After a kill the controller holds the old broker for alive until its session is over. With one second a broker on a busy machine
loses it while it starts: its partitions get another leader epoch, and a client's request is carried out twice."""
_TWO_PHASE = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
_SHORT_IDS = {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
_SHORT_PRODUCERS = {"producer.id.expiration.ms": "1500", "producer.id.expiration.check.interval.ms": "200"}
_SHORT_LIVES = _SHORT_IDS | _SHORT_PRODUCERS


@dataclass(slots=True, frozen=True)
class SetUp:
    settings: dict[str, str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)


SET_UPS = {
    "default": SetUp(),
    "tv0": SetUp(features={"transaction.version": 0}),
    "tv1": SetUp(features={"transaction.version": 1}),
    "features": SetUp(),
    "model": SetUp(),
    "short": SetUp(_SHORT_LIVES),
    "ids": SetUp(_SHORT_IDS),
    "cleaner": SetUp({"log.cleaner.backoff.ms": "100"}),
    "forgetful cleaner": SetUp({"log.cleaner.backoff.ms": "100"} | _SHORT_PRODUCERS),
    "2pc": SetUp(_TWO_PHASE | {"transactional.id.expiration.ms": "1500", **_SHORT_LIVES}),
    "unstable": SetUp({"unstable.api.versions.enable": "true"}),
    "idle": SetUp({"connections.max.idle.ms": "1000", "max.connections.per.ip": "20"}),
}


class Client(Protocol):
    """One connection."""

    def send(self, request: Any, version: int) -> tuple[int, int]: ...

    def receive(self, sent: tuple[int, int]) -> Any: ...

    def call(self, request: Any, version: int | None = None) -> Any: ...

    def close(self) -> None: ...


class Target(Protocol):
    """A broker that scenarios run against, with the clock it lives by."""

    def connect(self, client_id: str = "scenario") -> Client: ...

    def restart(self, *, kill: bool = False) -> object: ...

    def close(self) -> None: ...

    def sleep(self, ms: float) -> None: ...

    def now_ms(self) -> int: ...


class _Process(Protocol):
    @property
    def bootstrap(self) -> str: ...

    def restart(self, *, kill: bool = False) -> object: ...

    def stop(self) -> object: ...


class Wire:
    """A broker in a process of its own, over sockets."""

    def __init__(self, process: _Process) -> None:
        self.process = process

    def connect(self, client_id: str = "scenario") -> RawClient:
        return RawClient(self.process.bootstrap, client_id)

    def restart(self, *, kill: bool = False) -> None:
        self.process.restart(kill=kill)

    def close(self) -> None:
        self.process.stop()

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def start(target: str, name: str, directory: Path) -> Target:
    """A running broker of this kind and set-up. Raises `Unavailable` where Apache Kafka cannot be had."""
    set_up = SET_UPS[name]
    settings = _COMMON | set_up.settings
    if target == "simulated":
        return SimulatedBroker(settings, set_up.features).start()
    if target == "ottla":
        return Wire(Broker(data_dir=directory, settings=settings, features=set_up.features).start())
    levels = [part for key, level in set_up.features.items() for part in ("--feature", f"{key}={level}")]
    kafka = ApacheKafka(directory, settings=_QUICK_RESTART | settings, jvm=QUICK_JVM, format_arguments=("--standalone", *levels))
    return Wire(kafka.start())
