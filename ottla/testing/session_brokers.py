"""The brokers and clusters of one pytest session and worker.

Tests with equal wishes share one, and what a fixture of a wider scope than a test holds is not closed before the fixture ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

# Imported for the directory in which pytest was started: a test may change it before a broker is wanted.
import ottla.testing.python_path  # noqa: F401

if TYPE_CHECKING:
    from ottla.testing.cluster_handle import Cluster
    from ottla.testing.handle import Broker

MAX_BROKERS = 8
"""How many brokers of a session run at once, unless wider fixtures hold more. Each takes some 45 MiB."""
MAX_CLUSTERS = 2
MACHINE, MANUAL = "machine", "manual"
"""The clocks of a broker."""
FaultName = tuple[int | None, int]
"""The process id of a broker and the id of a fault, because a process that is started again numbers its faults from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRequest:
    """The broker that a test wants. Equal wishes get the same broker."""

    settings: tuple[tuple[str, str], ...] = ()
    features: tuple[tuple[str, int], ...] = ()
    clock: str = MACHINE
    broker_count: int = 1
    number: int = 0
    """Tells brokers apart that are equal otherwise: more than one is needed where a wider fixture holds the first."""


@dataclass(slots=True)
class SessionBrokers:
    """The brokers of one session and worker."""

    running: dict[BrokerRequest, Broker] = field(default_factory=dict)
    held: Counter[BrokerRequest] = field(default_factory=Counter)
    """How many fixtures of a wider scope than a test have each broker. It is not closed before they end."""
    _kept: dict[object, set[FaultName]] = field(default_factory=dict)
    """The faults that fixtures of a wider scope have added, by fixture."""
    _begun_ms: dict[BrokerRequest, int] = field(default_factory=dict)
    """The times at which manual clocks began."""

    def get(self, wanted: BrokerRequest, *, is_fresh: bool, shared: Collection[object] = ()) -> Broker:
        """A running broker. ``shared`` are the brokers that the test has through wider fixtures: one of these if it is equal.

        A fresh broker is emptied, so it is none that wider fixtures hold, unless the test has it through one of them.
        """
        from ottla.testing.handle import Broker

        wanted = self._shared(wanted, shared) or (self._not_held(wanted) if is_fresh else wanted)
        broker = self.running.pop(wanted, None)
        if broker is not None and broker.is_copy and not broker.is_running:
            # The process that runs this test was forked from the one that started the broker, which has ended.
            broker = None
        if broker is None:
            self._make_room()
            broker = Broker(settings=dict(wanted.settings), features=dict(wanted.features), clock=wanted.clock)
        self.running[wanted] = broker
        if not broker.is_running:
            # The broker is new, or a test has stopped or killed it.
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
        """The request of a broker that is in ``shared`` and as wanted."""
        equal = {id(broker): request for request, broker in self.running.items() if replace(request, number=0) == wanted}
        return next((equal[id(broker)] for broker in shared if id(broker) in equal), None)

    def _not_held(self, wanted: BrokerRequest) -> BrokerRequest:
        """The request of the first equal broker that no wider fixture holds."""
        while self.held[wanted] > 0:
            wanted = replace(wanted, number=wanted.number + 1)
        return wanted

    def _make_room(self) -> None:
        """Close the broker whose last use is the longest ago, and that no wider fixture holds."""
        if len(self.running) >= MAX_BROKERS:
            oldest = next((request for request in self.running if not self.held[request]), None)
            if oldest is not None:
                self._begun_ms.pop(oldest, None)
                self.running.pop(oldest).close()

    @contextmanager
    def hold(self, wanted: BrokerRequest, *, is_fresh: bool, shared: Collection[object] = ()) -> Iterator[Broker]:
        """A broker that is not closed inside the block, for a fixture of a wider scope than a test."""
        broker = self.get(wanted, is_fresh=is_fresh, shared=shared)
        # The last one is the one that was got.
        request = next(reversed(self.running))
        self.held[request] += 1
        try:
            yield broker
        finally:
            self.held[request] -= 1

    def _held_brokers(self) -> list[Broker]:
        """The brokers that tests may have through a wider fixture."""
        return [broker for request, broker in self.running.items() if self.held[request] > 0]

    def faults(self) -> set[FaultName]:
        """The faults of all brokers that are held."""
        from ottla.control.remote import ControlError

        names: set[FaultName] = set()
        for broker in self._held_brokers():
            if broker.is_running and not broker.is_paused:
                with suppress(ControlError):
                    names |= {(broker.pid, fault.id) for fault in broker.faults.all()}
        return names

    def keep_faults(self, owner: object, names: set[FaultName]) -> None:
        """Note that ``owner``, a fixture of a wider scope, has added faults. They stay until `let_faults_go`."""
        if names:
            self._kept.setdefault(owner, set()).update(names)

    def let_faults_go(self, owner: object) -> None:
        self._kept.pop(owner, None)

    def remove_faults(self, brokers: Iterable[Broker] | None = None) -> None:
        """Resume brokers, and remove their faults but those that wider fixtures have added. By default of all that are held."""
        from ottla.control.remote import ControlError

        kept = set().union(*self._kept.values())
        for broker in self._held_brokers() if brokers is None else brokers:
            # A forked process leaves the broker of the other process as it is.
            if broker.is_copy or not broker.is_running:
                continue
            # The test may just have killed the broker.
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
    """The clusters of one session and worker. Equal wishes get the same one."""

    running: dict[BrokerRequest, Cluster] = field(default_factory=dict)

    def get(self, wanted: BrokerRequest) -> Cluster:
        from ottla.testing.cluster_handle import Cluster

        cluster = self.running.pop(wanted, None)
        if cluster is None or cluster.is_copy:
            if len(self.running) >= MAX_CLUSTERS:
                self.running.pop(next(iter(self.running))).close()
            cluster = Cluster(wanted.broker_count, settings=dict(wanted.settings), features=dict(wanted.features))
        self.running[wanted] = cluster
        if not cluster.is_running:
            cluster.start()
        # The test before may have killed or paused brokers, and left faults, also ones with which brokers would not heal.
        cluster.remove_faults()
        cluster.heal()
        return cluster

    def close(self) -> None:
        _call_all(cluster.close for cluster in self.running.values())


def _call_all(calls: Iterable[Callable[[], None]]) -> None:
    """Make all calls, also where one fails, and raise the error after them."""
    with ExitStack() as stack:
        for call in calls:
            stack.callback(call)
