"""Writes markers and verifies partitions of transactions on this broker, without a network."""

from __future__ import annotations

from collections.abc import Callable

from ottla.broker.apis.services import Services
from ottla.broker.coordinators.markers import MARKERS_AT_ONCE, MarkerTransport
from ottla.broker.coordinators.verification import LocalVerification, Verification
from ottla.broker.handlers import write_txn_markers
from ottla.broker.loop.lifecycle import Lifecycle
from ottla.broker.loop.stepping import Stepping
from ottla.protocol.errors import Code
from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from ottla.protocol.steps import Steps


class LocalTransport:
    """Calls this broker's own WriteTxnMarkers handler. Many markers are written in steps, so that other work can run."""

    def __init__(
        self,
        *,
        stepping: Stepping,
        lifecycle: Lifecycle,
        write: Callable[[WriteTxnMarkersRequest], Steps[WriteTxnMarkersResponse]],
        failed: Callable[[WriteTxnMarkersRequest, int, Code], WriteTxnMarkersResponse],
    ) -> None:
        """``write`` handles a request in steps; ``failed`` makes the response that has one error for all partitions."""
        self._stepping = stepping
        self._lifecycle = lifecycle
        self._write = write
        self._failed = failed

    def write_txn_markers(self, request: WriteTxnMarkersRequest, on_response: Callable[[WriteTxnMarkersResponse], None]) -> None:
        def gave_up(error: Exception) -> None:
            # After a bug the markers are sent again: they must not be missing for good.
            on_response(self._failed(request, 0, Code.REQUEST_TIMED_OUT))
            raise error

        count = sum(len(topic.partition_indexes) for marker in request.markers for topic in marker.topics)
        is_small = count <= MARKERS_AT_ONCE or not self._lifecycle.is_serving
        (self._stepping.start if is_small else self._stepping.run)(self._write(request), on_response, gave_up)


class LocalCoordinators:
    """Used by a broker that is its own controller. `coordinators.OtherCoordinators` replaces it in a cluster with other brokers."""

    def transport(self, services: Services) -> MarkerTransport:
        return LocalTransport(
            stepping=services.stepping,
            lifecycle=services.lifecycle,
            write=lambda request: write_txn_markers.write_markers(services, request),
            failed=write_txn_markers.failed,
        )

    def verification(self, services: Services) -> Verification:
        return LocalVerification(
            clock=services.clock,
            config=services.live_config,
            counters=services.counters,
            transactions=services.transactions,
            cluster_state=services.cluster.state,
            barrier=services.barrier,
        )
