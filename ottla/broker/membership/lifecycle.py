"""State machine of a broker's registration and heartbeats, without clock and connection (BrokerLifecycleManager of Kafka).

`next_request` returns the request to send now; `due_ms` is the time of the next request. The caller passes responses to
`registered` or `heard`, and reports failures to `failed`. One request is in flight at a time.
"""

from __future__ import annotations

import msgspec

from ottla.broker.membership.states import BrokerState, check_transition
from ottla.broker.peers.backoff import Backoff
from ottla.protocol.errors import Code
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

NO_EPOCH = -1
FIRST_BACKOFF_MS = 100
STARTING_MS = 10
"""How soon a starting broker sends its next heartbeat to learn whether it has caught up with the metadata, in ms."""
RESTART_PATIENCE_MS = 3_000
"""How long a broker that wants to stop waits for a controller that does not respond and may be restarting, in ms."""
LEAVING_RETRY_MS = 500


class BrokerIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a broker's registration.

    ``incarnation_id`` is new at each start, so that the controller can tell a restarted broker from a repeated request.
    ``previous_epoch`` is the broker epoch before the last clean stop; -1 after a crash, which may have lost committed records.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: tuple[tuple[str, str, int, int], ...]
    """Name, advertised host, advertised port and number of the security protocol of each listener."""
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest supported level of each feature."""
    rack: str | None
    log_directories: tuple[bytes, ...]
    previous_epoch: int = NO_EPOCH


class Intervals(msgspec.Struct, frozen=True, kw_only=True):
    """``heartbeat_ms`` is broker.heartbeat.interval.ms, ``session_ms`` broker.session.timeout.ms."""

    heartbeat_ms: float = 2_000
    session_ms: float = 9_000


class BrokerLifecycle:
    """The registration of one broker and its state as agreed with the controller."""

    def __init__(self, identity: BrokerIdentity, intervals: Intervals) -> None:
        self.identity = identity
        self.intervals = intervals
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_EPOCH
        self.is_fenced = True
        self.is_ready = False
        """Whether the broker wants to be unfenced. Set by `become_ready`."""
        self.due_ms: float | None = None
        """Time of the next request; None while a request is in flight, and after the last request."""
        self._heard_ms = 0.0
        self._is_asking = False
        self._is_wanted_at_once = False
        self._backoff = Backoff(first_ms=FIRST_BACKOFF_MS, longest_ms=intervals.session_ms)

    @property
    def is_registered(self) -> bool:
        return self.broker_epoch != NO_EPOCH

    @property
    def may_stop(self) -> bool:
        """Whether the controller has allowed the shutdown, or the broker does not wait for the controller."""
        return self.state in (BrokerState.NOT_RUNNING, BrokerState.SHUTTING_DOWN)

    def is_left_alone(self, now_ms: float) -> bool:
        """Whether the controller has been silent for so long that a broker may stop without waiting for it."""
        return now_ms - self._heard_ms >= RESTART_PATIENCE_MS

    def _become(self, state: BrokerState) -> None:
        check_transition(self.state, state)
        self.state = state

    # Commands of the broker

    def start(self, now_ms: float) -> None:
        self._become(BrokerState.STARTING)
        self.due_ms = now_ms

    def become_ready(self, now_ms: float) -> None:
        """Ask to be unfenced, because the broker has loaded its state."""
        self.is_ready = True
        self._hurry(now_ms)

    def begin_controlled_shutdown(self, now_ms: float) -> None:
        """Ask for a controlled shutdown. A broker that is not in service has no leadership to give up, and may stop immediately."""
        if self.state is BrokerState.RUNNING:
            self._become(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
            self._heard_ms = now_ms
            self._hurry(now_ms)
        else:
            self.begin_shutdown()

    def begin_shutdown(self) -> None:
        """Stop sending heartbeats, without a controlled shutdown."""
        if self.state is BrokerState.NOT_RUNNING:
            return
        if self.state is not BrokerState.SHUTTING_DOWN:
            self._become(BrokerState.SHUTTING_DOWN)
        self.due_ms = None

    def register_again(self, now_ms: float) -> None:
        """Register again, because the cluster's metadata no longer has this broker (BrokerRegistrationTracker)."""
        self.broker_epoch, self.is_fenced = NO_EPOCH, True
        self._hurry(now_ms)

    def _hurry(self, now_ms: float) -> None:
        """Send a request now, or as soon as the request in flight has its response."""
        if self._is_asking:
            self._is_wanted_at_once = True
        elif self.due_ms is not None:
            self.due_ms = now_ms

    # Requests to the controller

    def next_request(self, now_ms: float, metadata_offset: int) -> BrokerRegistrationRequest | BrokerHeartbeatRequest | None:
        """The request to send now; None if no request is due. ``metadata_offset`` is the last metadata offset that was applied."""
        if self.due_ms is None or now_ms < self.due_ms:
            return None
        self.due_ms, self._is_asking = None, True
        if not self.is_registered:
            return self._registration()
        return BrokerHeartbeatRequest(
            broker_id=self.identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=metadata_offset,
            want_fence=not self.is_ready,
            want_shut_down=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
        )

    def _registration(self) -> BrokerRegistrationRequest:
        own = self.identity
        return BrokerRegistrationRequest(
            broker_id=own.broker_id,
            cluster_id=own.cluster_id,
            incarnation_id=own.incarnation_id,
            listeners=[
                Listener(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in own.listeners
            ],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high) for name, low, high in own.features
            ],
            rack=own.rack,
            log_dirs=list(own.log_directories),
            previous_broker_epoch=own.previous_epoch,
        )

    # Responses of the controller

    def registered(self, response: BrokerRegistrationResponse, now_ms: float, chance: float) -> bool:
        """Process the response to a registration; returns whether the broker is registered."""
        if response.error_code != Code.NONE:
            self.failed(now_ms, chance)
            return False
        self.broker_epoch = response.broker_epoch
        self._answered(now_ms, now_ms)
        return True

    def heard(self, response: BrokerHeartbeatResponse, now_ms: float, chance: float) -> None:
        """Process the response to a heartbeat."""
        if response.error_code != Code.NONE:
            self.failed(now_ms, chance)
            return
        self.is_fenced = response.is_fenced
        if self.state is BrokerState.STARTING and response.is_caught_up:
            self._become(BrokerState.RECOVERY)
        if self.state is BrokerState.RECOVERY and not response.is_fenced:
            self._become(BrokerState.RUNNING)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN and response.should_shut_down:
            self._become(BrokerState.SHUTTING_DOWN)
        self._answered(now_ms, now_ms + (STARTING_MS if self.state is BrokerState.STARTING else self.intervals.heartbeat_ms))

    def failed(self, now_ms: float, chance: float) -> None:
        """Schedule a retry after a request was refused or timed out. ``chance`` is random, at least 0 and below 1."""
        delay_ms = self._backoff.next_ms(chance)
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            delay_ms = min(delay_ms, LEAVING_RETRY_MS)
        self._end_request(now_ms + delay_ms)

    def _answered(self, now_ms: float, next_ms: float) -> None:
        self._heard_ms = now_ms
        self._backoff.reset()
        self._end_request(now_ms if self._is_wanted_at_once else next_ms)

    def _end_request(self, next_ms: float) -> None:
        self._is_asking = self._is_wanted_at_once = False
        self.due_ms = None if self.state is BrokerState.SHUTTING_DOWN else next_ms
