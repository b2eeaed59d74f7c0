"""The brokers and clusters of one pytest session and worker.

Tests with equal options share a broker. A higher-scoped fixture (class, module or session scope) holds its broker, which is not
closed before the fixture ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

# `python_path` is imported early to record the directory in which pytest was started, before a test changes it.
import ottla.testing.python_path  # noqa: F401

if TYPE_CHECKING:
    from ottla.testing.cluster_handle import Cluster
    from ottla.testing.handle import Broker
    from ottla.testing.security.acls import Acl

MAX_BROKERS = 8
"""Maximum number of running brokers of a session, unless higher-scoped fixtures hold more. A broker takes about 45 MiB."""
MAX_CLUSTERS = 2
MACHINE, MANUAL = "machine", "manual"
FaultName = tuple[int | None, int]
"""The process id of a broker and the id of a fault. A restarted broker numbers its faults from 1 again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRequest:
    """The broker that a test needs. Equal requests get the same broker."""

    settings: tuple[tuple[str, str], ...] = ()
    features: tuple[tuple[str, int], ...] = ()
    clock: str = MACHINE
    broker_count: int = 1
    security: str | None = None
    users: tuple[tuple[str, str | None], ...] = ()
    """User names with passwords; None as password for clients with certificates."""
    acls: tuple[Acl, ...] | None = None
    has_registry: bool = False
    """Whether the broker has a schema registry; a cluster has none."""
    number: int = 0
    """Distinguishes brokers with equal options. A second broker is started if a higher-scoped fixture holds the first."""

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that `ottla.Broker` and `ottla.Cluster` have in common."""
        passwords = {name: password for name, password in self.users if password is not None}
        return {
            "settings": dict(self.settings),
            "features": dict(self.features),
            "security": self.security,
            "users": passwords or [name for name, _ in self.users],
            "acls": self.acls,
        }


@dataclass(slots=True)
class SessionBrokers:
    running: dict[BrokerRequest, Broker] = field(default_factory=dict)
    held: Counter[BrokerRequest] = field(default_factory=Counter)
    """Number of higher-scoped fixtures that hold each broker."""
    _kept: dict[object, set[FaultName]] = field(default_factory=dict)
    """The faults that higher-scoped fixtures have added, by fixture."""
    _begun_ms: dict[BrokerRequest, int] = field(default_factory=dict)
    """The start times of manual clocks, in ms."""

    def get(self, wanted: BrokerRequest, *, is_fresh: bool, shared: Collection[object] = ()) -> Broker:
        """Return a running broker. ``shared`` has the brokers of the test's higher-scoped fixtures, which are preferred if they
        match.

        With ``is_fresh`` the broker is reset, so a broker that higher-scoped fixtures of other tests hold is not used.
        """
        from ottla.testing.handle import Broker

        wanted = self._shared(wanted, shared) or (self._not_held(wanted) if is_fresh else wanted)
        broker = self.running.pop(wanted, None)
        if broker is not None and broker.is_copy and not broker.is_running:
            # The broker has ended, and this forked process cannot start it again.
            broker = None
        if broker is None:
            self._make_room()
            broker = Broker(clock=wanted.clock, schema_registry=wanted.has_registry, **wanted.arguments())
        self.running[wanted] = broker
        if not broker.is_running:
            # The broker is new, or a test has stopped the broker.
            broker.start()
        if broker.is_paused:
            broker.resume()
        if broker.clock.is_manual:
            begun_ms = self._begun_ms.setdefault(wanted, broker.clock.now_ms)
            if is_fresh and broker.clock.now_ms != begun_ms and not broker.is_copy:
                broker.begin_anew()
                self._begun_ms[wanted] = broker.clock.now_ms
                return broker
        if is_fresh:
            broker.reset()
        return broker

    def _shared(self, wanted: BrokerRequest, shared: Collection[object]) -> BrokerRequest | None:
        equal = {id(broker): request for request, broker in self.running.items() if replace(request, number=0) == wanted}
        return next((equal[id(broker)] for broker in shared if id(broker) in equal), None)

    def _not_held(self, wanted: BrokerRequest) -> BrokerRequest:
        """Return the request of the first broker with the wanted options that no higher-scoped fixture holds."""
        while self.held[wanted] > 0:
            wanted = replace(wanted, number=wanted.number + 1)
        return wanted

    def _make_room(self) -> None:
        """Close the least recently used broker that no higher-scoped fixture holds."""
        if len(self.running) >= MAX_BROKERS:
            oldest = next((request for request in self.running if not self.held[request]), None)
            if oldest is not None:
                self._begun_ms.pop(oldest, None)
                self.running.pop(oldest).close()

    @contextmanager
    def hold(self, wanted: BrokerRequest, *, is_fresh: bool, shared: Collection[object] = ()) -> Iterator[Broker]:
        """Yield a broker that is not closed during the block, for a higher-scoped fixture."""
        broker = self.get(wanted, is_fresh=is_fresh, shared=shared)
        # `get` has moved the broker's request to the end of the dictionary.
        request = next(reversed(self.running))
        self.held[request] += 1
        try:
            yield broker
        finally:
            self.held[request] -= 1

    def _held_brokers(self) -> list[Broker]:
        return [broker for request, broker in self.running.items() if self.held[request] > 0]

    def faults(self) -> set[FaultName]:
        """Return the faults of all held brokers."""
        from ottla.control.remote import ControlError

        names: set[FaultName] = set()
        for broker in self._held_brokers():
            if broker.is_running and not broker.is_paused:
                with suppress(ControlError):
                    names |= {(broker.pid, fault.id) for fault in broker.faults.all()}
        return names

    def keep_faults(self, owner: object, names: set[FaultName]) -> None:
        """Record faults that the higher-scoped fixture ``owner`` has added. The faults stay until `let_faults_go`."""
        if names:
            self._kept.setdefault(owner, set()).update(names)

    def let_faults_go(self, owner: object) -> None:
        self._kept.pop(owner, None)

    def remove_faults(self, brokers: Iterable[Broker] | None = None) -> None:
        """Resume brokers, by default all held brokers, and remove their faults, except those of higher-scoped fixtures."""
        from ottla.control.remote import ControlError

        kept = set().union(*self._kept.values())
        for broker in self._held_brokers() if brokers is None else brokers:
            # A forked process must not change the broker of its parent.
            if broker.is_copy or not broker.is_running:
                continue
            # Ignore the error if the broker has just ended.
            with suppress(ControlError):
                if broker.is_paused:
                    broker.resume()
                for fault in broker.faults.all():
                    if (broker.pid, fault.id) not in kept:
                        fault.remove()

    def close(self) -> None:
        _call_all(broker.close for broker in self.running.values())


@dataclass(slots=True)
class SessionClusters:
    """The clusters of one session and worker. Equal requests get the same cluster."""

    running: dict[BrokerRequest, Cluster] = field(default_factory=dict)

    def get(self, wanted: BrokerRequest) -> Cluster:
        from ottla.testing.cluster_handle import Cluster

        cluster = self.running.pop(wanted, None)
        if cluster is None or cluster.is_copy:
            if len(self.running) >= MAX_CLUSTERS:
                self.running.pop(next(iter(self.running))).close()
            cluster = Cluster(wanted.broker_count, **wanted.arguments())
        self.running[wanted] = cluster
        if not cluster.is_running:
            cluster.start()
        # The previous test may have killed or paused brokers, and left faults. Faults are removed first, because they may prevent
        # healing.
        cluster.remove_faults()
        cluster.heal()
        return cluster

    def close(self) -> None:
        _call_all(cluster.close for cluster in self.running.values())


def _call_all(calls: Iterable[Callable[[], None]]) -> None:
    """Call all functions, even if one raises, and raise the error afterwards."""
    with ExitStack() as stack:
        for call in calls:
            stack.callback(call)
