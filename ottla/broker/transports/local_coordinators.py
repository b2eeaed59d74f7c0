"""Writes markers and verifies partitions of transactions on this broker, without a network."""

from __future__ import annotations

from ottla.broker.apis.services import Services
from ottla.broker.coordinators.markers import LocalTransport, MarkerTransport
from ottla.broker.coordinators.verification import LocalVerification, Verification
from ottla.broker.handlers import write_txn_markers
from ottla.broker.partitions.kernel import Kernel


class LocalCoordinators:
    """Used by a broker that is its own controller. `coordinators.OtherCoordinators` replaces it in a cluster with other brokers."""

    def transport(self, services: Services) -> MarkerTransport:
        return LocalTransport(
            stepping=services.stepping,
            lifecycle=services.lifecycle,
            write=lambda request: write_txn_markers.write_markers(services, request),
            failed=write_txn_markers.failed,
        )

    def verification(self, kernel: Kernel, services: Services) -> Verification:
        return LocalVerification(kernel, services.transactions, services.cluster.state)
