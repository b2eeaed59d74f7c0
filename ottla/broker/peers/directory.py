"""The connections to the other brokers of the cluster, by their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import Peer, PeerEnv, Timings
from ottla.coordinator.metadata.broker_registration import BrokerRegistration

FETCH = "fetch"
"""For the fetches of followers, which wait at the leader for records."""
COORDINATOR = "coordinator"
"""For what coordinators send: markers, and partitions to add to a transaction."""


class KnownBrokers(Protocol):
    """Which brokers have registered (coordinator.broker_registration.Registrations)."""

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]: ...


class BrokerPeers:
    """One connection a broker and purpose, made when it is first asked for.

    A connection answers its requests in their order, so whatever may wait at the other broker has a purpose of its own.
    """

    def __init__(
        self,
        env: PeerEnv,
        known: Callable[[], KnownBrokers],
        *,
        own_id: int,
        listener: Callable[[], str],
        buffers: ReceiveBuffers,
        bug: Callable[[], None],
        timings: Timings | None = None,
    ) -> None:
        """``listener`` gives the name of the listener that brokers use among themselves (``inter.broker.listener.name``). ``bug``
        is called in an ``except`` block where a callback of a request has raised."""
        self._env = env
        self._known = known
        self._own_id = own_id
        self._listener = listener
        self._buffers = buffers
        self._bug = bug
        self._timings = timings
        # With each connection the incarnation of the broker for which it was made.
        self._peers: dict[tuple[int, str], tuple[Peer, bytes]] = {}
        self._is_closed = False

    def peer(self, broker_id: int, purpose: str = COORDINATOR) -> Peer | None:
        """The connection to a broker. None where the broker is not registered, is fenced, or has no listener for brokers.

        A broker that was fenced keeps its connection, but is not asked anything new: it leads nothing.
        """
        broker = self._known().brokers.get(broker_id)
        address = self._address(broker_id)
        if address is None or broker is None or broker.is_fenced or self._is_closed:
            return None
        known = self._peers.get((broker_id, purpose))
        if known is not None and self._is_current(broker_id, *known):
            return known[0]
        if known is not None:
            known[0].close()
        host, port = address
        client_id = f"broker-{self._own_id}-{purpose}"
        peer = Peer(self._env, host, port, client_id=client_id, bug=self._bug, buffers=self._buffers, timings=self._timings)
        self._peers[broker_id, purpose] = (peer, broker.incarnation_id)
        return peer

    def hang_up(self, broker_id: int, purpose: str) -> None:
        """Close one connection. Requests without an answer fail; the next one opens another connection."""
        known = self._peers.pop((broker_id, purpose), None)
        if known is not None:
            known[0].close()

    def changed(self) -> None:
        """Close the connections to brokers that have another address by now, have started again, or are not registered any more.

        What an earlier life of a broker was asked is never answered, and where its machine has lost power nobody says so.
        """
        for (broker_id, purpose), (peer, incarnation_id) in list(self._peers.items()):
            if not self._is_current(broker_id, peer, incarnation_id):
                del self._peers[broker_id, purpose]
                peer.close()

    def close(self) -> None:
        """Close all connections for good. Requests without an answer fail."""
        self._is_closed = True
        peers, self._peers = self._peers, {}
        for peer, _ in peers.values():
            peer.close()

    def _is_current(self, broker_id: int, peer: Peer, incarnation_id: bytes) -> bool:
        broker = self._known().brokers.get(broker_id)
        is_same_life = broker is not None and broker.incarnation_id == incarnation_id
        return is_same_life and self._address(broker_id) == (peer.host, peer.port)

    def _address(self, broker_id: int) -> tuple[str, int] | None:
        broker = self._known().brokers.get(broker_id)
        if broker is None or broker_id == self._own_id:
            return None
        listener = self._listener()
        return next(((e.host, e.port) for e in broker.listeners if e.name == listener), None)
