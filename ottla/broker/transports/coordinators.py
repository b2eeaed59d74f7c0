"""Connects the coordinators of a broker with the coordinators and leaders on other brokers."""

from __future__ import annotations

from ottla.broker.apis.services import Services
from ottla.broker.coordinators.markers import MarkerTransport
from ottla.broker.coordinators.verification import Verification
from ottla.broker.partitions.kernel import Kernel
from ottla.broker.transports.leaders import Peers
from ottla.broker.transports.local_coordinators import LocalCoordinators
from ottla.broker.transports.marker_transport import LeaderTransport
from ottla.broker.transports.remote_verification import CoordinatorVerification
from ottla.coordinator.metadata.cluster import ClusterState


class OtherCoordinators:
    """Replaces `LocalCoordinators` in a cluster with other brokers, and uses it for this broker's own partitions."""

    def __init__(self, state: ClusterState, peers: Peers) -> None:
        self._state = state
        self._peers = peers
        self._local = LocalCoordinators()

    def transport(self, services: Services) -> MarkerTransport:
        local = self._local.transport(services)
        return LeaderTransport(services.clock, broker_id=self._state.node_id, state=self._state, peers=self._peers, local=local)

    def verification(self, kernel: Kernel, services: Services) -> Verification:
        local = self._local.verification(kernel, services)
        return CoordinatorVerification(kernel, services.partitions, services.transactions, self._state, self._peers, local)
