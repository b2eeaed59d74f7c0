"""The brokers on which scenarios run: ottla and Apache Kafka, with the same few set-ups."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ottla import Broker
from ottla.simulation.broker import SimulatedBroker
from tests.scenarios.users import USERS_SETTINGS, authenticated
from tests.support import oracle
from tests.support.raw_client import RawClient
from tests.wire.secured import SecuredBroker
from tools.kafka import ApacheKafka, free_port

TARGETS = ("simulated", "ottla", "kafka")
"""ottla in this process without sockets and real time, ottla in a process of its own, and Apache Kafka."""

_COMMON = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "auto.create.topics.enable": "false",
    "log.retention.check.interval.ms": "500",
}
_QUICK_START = {"broker.heartbeat.interval.ms": "200"}
"""A shorter heartbeat interval, so that a started broker learns sooner that it is no longer fenced.

The session timeout stays at Kafka's nine seconds, although a start after a kill waits for the end of the old session. With a
shorter session, load on the machine could fence a broker, which would add two leader epochs to each of its partitions.
"""
_TWO_PHASE = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
_SHORT_IDS = {
    "transactional.id.expiration.ms": "1500",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "200",
}
_SHORT_PRODUCERS = {"producer.id.expiration.ms": "1500", "producer.id.expiration.check.interval.ms": "200"}
_TARGETS_AT_ONCE = {"group.consumer.assignment.interval.ms": "0", "group.consumer.assignor.offload.enable": "false"}
"""A group's target assignment is computed by the heartbeat that makes it necessary."""
_QUICK_CONSUMERS = {
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
}
"""Lower bounds that allow a case to use short timeouts for its group."""
_QUICK_STREAMS = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.assignor.offload.enable": "false",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "500",
}
"""Immediate target assignments of streams groups, and lower bounds that allow a case to use short timeouts."""
_QUICK_SHARES = {
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
    "group.share.min.session.timeout.ms": "1000",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.min.record.lock.duration.ms": "1000",
}
"""Immediate target assignments of share groups, and lower bounds that allow short timeouts and acquisition locks."""
_ANY_API = {
    **_TARGETS_AT_ONCE,
    "group.min.session.timeout.ms": "6000",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.assignment.interval.ms": "0",
    "group.share.assignor.offload.enable": "false",
    "group.share.min.record.lock.duration.ms": "15000",
}
"""Settings of the scenarios about single APIs.

Limits are equal to Apache Kafka's defaults, because some of ottla's defaults are lower.
"""
_LONG_SESSIONS = {f"group.streams.{key}session.timeout.ms": "7200000" for key in ("max.", "")}
"""A member of a streams group stays in its group for two hours without a heartbeat."""
_CLEANER = {"log.cleaner.backoff.ms": "100", "log.cleaner.dedupe.buffer.size": "2097152"}
"""A small log cleaner buffer: before each cleaning, Apache Kafka clears the whole buffer, by default 128 MB."""


ACL_SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "unstable.api.versions.enable": "true",
}


@dataclass(slots=True, frozen=True)
class SetUp:
    settings: dict[str, str] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)


WITHOUT_GROUPS = "no-groups"
WITH_ACLS = "acls"
SET_UPS = {
    "default": SetUp(),
    "tv0": SetUp(features={"transaction.version": 0}),
    "tv1": SetUp(features={"transaction.version": 1}),
    # Scenarios on this broker change feature levels and use unstable API versions.
    "versions": SetUp({"unstable.api.versions.enable": "true"}),
    "model": SetUp(_TARGETS_AT_ONCE | _QUICK_STREAMS | _LONG_SESSIONS),
    # Transactional ids and producer ids expire soon, and two-phase commit is enabled.
    "short": SetUp(_SHORT_IDS | _SHORT_PRODUCERS | _TWO_PHASE | _CLEANER),
    "ids": SetUp(_SHORT_IDS),
    "cleaner": SetUp(_CLEANER),
    "consumers": SetUp(_TARGETS_AT_ONCE | _QUICK_CONSUMERS),
    "streams": SetUp(_TARGETS_AT_ONCE | _QUICK_STREAMS),
    "shares": SetUp(_TARGETS_AT_ONCE | _QUICK_SHARES),
    "apis": SetUp(_ANY_API),
    # No request for a group has been sent, so the offsets topic does not exist.
    WITHOUT_GROUPS: SetUp(),
    # Clients without a user have all permissions, and users have those that their case's ACLs grant.
    WITH_ACLS: SetUp(_ANY_API | ACL_SETTINGS),
    "letters": SetUp(_TARGETS_AT_ONCE | _QUICK_SHARES | {"errors.deadletterqueue.auto.create.topics.enable": "true"}),
}


class Client(Protocol):
    """A client with one connection to a broker."""

    def send(self, request: Any, version: int) -> tuple[int, int]: ...

    def receive(self, sent: tuple[int, int]) -> Any: ...

    def call(self, request: Any, version: int | None = None) -> Any: ...

    def close(self) -> None: ...


class Target(Protocol):
    """A broker on which scenarios run, with its clock."""

    def connect(self, client_id: str = "scenario") -> Client: ...

    def connect_as(self, user: str, client_id: str = "scenario") -> Client:
        """Connect as ``User:user``, on a broker whose clients authenticate."""
        ...

    def restart(self, *, kill: bool = False) -> object: ...

    def close(self) -> None: ...

    def sleep(self, ms: float) -> None: ...

    def now_ms(self) -> int: ...


class _Process(Protocol):
    @property
    def bootstrap(self) -> str: ...


class Wire:
    """A broker in a process of its own, reached over sockets. ``end`` ends it for good, by default with a clean stop.

    Users connect to ``users_at``, the address of its listener with SASL.
    """

    def __init__(self, process: _Process, end: Callable[[], object] | None = None, users_at: str = "") -> None:
        self.process: Any = process
        self._end = end
        self._users_at = users_at

    def connect(self, client_id: str = "scenario") -> RawClient:
        return RawClient(self.process.bootstrap, client_id)

    def connect_as(self, user: str, client_id: str = "scenario") -> RawClient:
        return authenticated(RawClient(self._users_at, client_id), user)

    def restart(self, *, kill: bool = False) -> None:
        self.process.restart(kill=kill)

    def close(self) -> None:
        self.process.stop() if self._end is None else self._end()

    def sleep(self, ms: float) -> None:
        time.sleep(ms / 1000)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def start(target: str, name: str, directory: Path) -> Target:
    """Start a broker of this kind with this set-up. Raises `Unavailable` if Apache Kafka is not available."""
    set_up = SET_UPS[name]
    settings = _COMMON | set_up.settings
    if target == "simulated":
        simulated = SimulatedBroker(settings, set_up.features).start()
        return simulated.with_coordinators() if name == WITH_ACLS else simulated
    if name == WITH_ACLS:
        return _start_with_users(target, directory, settings)
    if target == "ottla":
        return Wire(Broker(data_dir=directory, settings=settings, features=set_up.features).start())
    levels = [part for key, level in set_up.features.items() for part in ("--feature", f"{key}={level}")]
    kafka = ApacheKafka(directory, settings=_QUICK_START | settings, format_arguments=("--standalone", *levels))
    # A kill is faster than a clean stop, and no test needs the files that a clean stop would write.
    broker = Wire(kafka.start(), end=kafka.kill)
    _make_coordinators(broker, [oracle.TRANSACTION] if name == WITHOUT_GROUPS else [oracle.GROUP, oracle.TRANSACTION])
    return broker


def _start_with_users(target: str, directory: Path, settings: dict[str, str]) -> Wire:
    """Start a broker that has, besides its plain listener, one on which users authenticate."""
    settings = settings | USERS_SETTINGS
    if target == "ottla":
        ours = SecuredBroker(directory, settings)
        broker = Wire(ours, end=ours.close, users_at=ours.listening["SASL_PLAINTEXT"])
    else:
        port = free_port()
        kafka = ApacheKafka(directory, settings=_QUICK_START | settings, listeners={"SASL_PLAINTEXT": port}).start()
        broker = Wire(kafka, end=kafka.kill, users_at=f"127.0.0.1:{port}")
    _make_coordinators(broker, [oracle.GROUP, oracle.TRANSACTION])
    return broker


class Brokers:
    """Running brokers by target and set-up. Each broker is started when it is first needed."""

    def __init__(self, start: Callable[[str, str], Target]) -> None:
        self._start = start
        self._running: dict[tuple[str, str], Target] = {}

    def of(self, target: str, name: str) -> Target:
        """Return the broker, and start it first if necessary. Raises the exception of a failed start."""
        if (target, name) not in self._running:
            self._running[target, name] = self._start(target, name)
        return self._running[target, name]

    def close(self, target: str, name: str) -> None:
        """Stop a broker that is not needed for a while. An idle Apache Kafka uses 3 % of a processor."""
        self._running.pop((target, name)).close()

    def close_all(self) -> None:
        for target, name in list(self._running):
            self.close(target, name)


def _make_coordinators(broker: Wire, kinds: list[int]) -> None:
    """Create the coordinators' internal topics.

    A new Apache Kafka broker needs longer for this than a short-lived transactional id exists. Without the topics, group requests
    of a user without permission to look up a coordinator would get NOT_COORDINATOR until their time limit.
    """
    with broker.connect() as client:
        for kind in kinds:
            oracle.coordinator_known(client, "any", kind)
