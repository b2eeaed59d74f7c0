"""The connections to the other brokers of the cluster, by their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

from ottla.broker.network.framing import ReceiveBuffers
from ottla.broker.peers.peer import Peer, PeerEnv, PeerLimits
from ottla.coordinator.metadata.broker_registration import BrokerRegistration

if TYPE_CHECKING:
    from ottla.broker.peers.security import PeerSecurity

FETCH = "fetch"
"""Purpose of the connection for followers' fetches, which wait at the leader for records."""
COORDINATOR = "coordinator"
"""Purpose of the connection for coordinators: markers, and partitions to add to a transaction."""


class KnownBrokers(Protocol):
    """The registered brokers (coordinator.metadata.broker_registration.Registrations)."""

    @property
    def brokers(self) -> Mapping[int, BrokerRegistration]: ...


class BrokerListener(msgspec.Struct, frozen=True):
    """The listener on which brokers accept other brokers (``inter.broker.listener.name``). ``security`` is None without TLS and
    SASL."""

    name: str
    security: PeerSecurity | None = None


class BrokerPeers:
    """One connection for each broker and purpose, created at its first use.

    A broker responds to the requests of a connection in order, so requests that may wait at the broker have their own connection.
    """

    def __init__(
        self,
        env: PeerEnv,
        known: Callable[[], KnownBrokers],
        *,
        own_id: int,
        listener: BrokerListener,
        buffers: ReceiveBuffers,
        bug: Callable[[], None],
        limits: PeerLimits | None = None,
    ) -> None:
        """``bug`` is called in an ``except`` block when a callback of a request raises."""
        self._env = env
        self._known = known
        self._own_id = own_id
        self._listener = listener
        self._buffers = buffers
        self._bug = bug
        self._limits = limits
        # Each connection with the incarnation id that its broker had when the connection was created.
        self._peers: dict[tuple[int, str], tuple[Peer, bytes]] = {}
        self._is_closed = False

    def peer(self, broker_id: int, purpose: str = COORDINATOR) -> Peer | None:
        """The connection to a broker; None if the broker is not registered, is fenced, or has no listener for brokers.

        A fenced broker keeps its connection, but gets no new requests, because it leads no partition.
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
        client_id = f"broker-{self._own_id}-{purpose}"
        peer = Peer(
            self._env,
            address,
            client_id=client_id,
            bug=self._bug,
            buffers=self._buffers,
            security=self._listener.security,
            limits=self._limits,
        )
        self._peers[broker_id, purpose] = (peer, broker.incarnation_id)
        return peer

    def hang_up(self, broker_id: int, purpose: str) -> None:
        """Close one connection. Requests without a response fail; the next request opens another connection."""
        known = self._peers.pop((broker_id, purpose), None)
        if known is not None:
            known[0].close()

    def changed(self) -> None:
        """Close the connections to brokers that have a new address, were restarted, or are no longer registered.

        A restarted broker never responds to earlier requests. If its machine lost power, the old connection still looks open.
        """
        for (broker_id, purpose), (peer, incarnation_id) in list(self._peers.items()):
            if not self._is_current(broker_id, peer, incarnation_id):
                del self._peers[broker_id, purpose]
                peer.close()

    def close(self) -> None:
        """Close all connections for good. Requests without a response fail."""
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
        return next(((e.host, e.port) for e in broker.listeners if e.name == self._listener.name), None)
