"""Connects the coordinators of a broker with the coordinators and leaders on other brokers."""

from __future__ import annotations

from ottla.broker.coordinators.markers import MarkerTransport
from ottla.broker.coordinators.transactions import Transactions
from ottla.broker.coordinators.verification import Verification
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.peers.leaders import Peers
from ottla.broker.peers.marker_transport import LeaderTransport
from ottla.broker.peers.remote_verification import CoordinatorVerification
from ottla.coordinator.metadata.cluster import ClusterState


class OtherCoordinators:
    """Sends to the coordinators and leaders of all brokers. ``local`` serves this broker's own partitions and coordinator."""

    def __init__(self, kernel: Kernel, state: ClusterState, peers: Peers) -> None:
        self._kernel = kernel
        self._state = state
        self._peers = peers

    def transport(self, local: MarkerTransport) -> MarkerTransport:
        return LeaderTransport(self._kernel.env, broker_id=self._state.node_id, state=self._state, peers=self._peers, local=local)

    def verification(self, partitions: Partitions, transactions: Transactions, local: Verification) -> Verification:
        return CoordinatorVerification(self._kernel, partitions, transactions, self._state, self._peers, local)
