"""Broker sessions and the result of a heartbeat: fencing, unfencing, controlled shutdown (BrokerHeartbeatManager of Kafka).

The times of heartbeats and the metadata offsets of brokers are not logged. So after a controller's start, every unfenced broker
gets a new session (`Heartbeats.start`).
"""

from __future__ import annotations

from enum import Enum

import msgspec

from ottla.coordinator.controller import elections
from ottla.coordinator.controller.policies import check_broker_epoch
from ottla.coordinator.metadata.broker_registration import UNKNOWN_OFFSET, BrokerRegistration
from ottla.coordinator.metadata.cluster import ClusterState
from ottla.coordinator.metadata.metadata_records import CORDONED_DIRECTORIES, DIRECTORY_ASSIGNMENT, metadata_record
from ottla.coordinator.result import Effect, LogRecord, Result
from ottla.protocol.messages import broker_registration_change_record as change_record
from ottla.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord

SESSION_TIMEOUT_MS = 9_000
"""The default of ``broker.session.timeout.ms``."""


class Control(Enum):
    """The state that a controller wants a broker to have (BrokerControlState of Kafka)."""

    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shutdown now"


NEXT = {
    Control.FENCED: {Control.FENCED, Control.UNFENCED, Control.SHUTDOWN_NOW},
    Control.UNFENCED: {Control.UNFENCED, Control.FENCED, Control.CONTROLLED_SHUTDOWN, Control.SHUTDOWN_NOW},
    Control.CONTROLLED_SHUTDOWN: {Control.CONTROLLED_SHUTDOWN, Control.SHUTDOWN_NOW},
}
"""Wanted state of a broker -> the states that may follow."""


class BrokerHeartbeat(msgspec.Struct, frozen=True, kw_only=True):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline_directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] | None = None


class HeartbeatReply(msgspec.Struct, frozen=True, kw_only=True):
    is_caught_up: bool
    is_fenced: bool
    is_in_controlled_shutdown: bool
    should_shut_down: bool


class HeardFromBroker(Effect, frozen=True):
    """Restart the session of a broker that sent a heartbeat."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    now_ms: int
    next: Control


class ForgetBroker(Effect, frozen=True):
    """End the session of a broker that registered again or was unregistered."""

    broker_id: int


class SessionEnded(Effect, frozen=True):
    """End the session of a broker with this epoch, because it sent no heartbeat in time."""

    broker_id: int
    broker_epoch: int


class Heartbeats:
    """Broker sessions, which are not logged."""

    def __init__(self, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.contacts_ms: dict[tuple[int, int], int] = {}
        """The time of each broker's last heartbeat, by broker id and epoch."""
        self.metadata_offsets: dict[int, int] = {}
        self.shutdown_offsets: dict[int, int] = {}
        """Broker id -> metadata log offset of the last record that moved the broker's leaderships in a controlled shutdown."""

    def start(self, state: ClusterState, now_ms: int) -> None:
        """Start a session for every unfenced broker."""
        for broker in state.registrations.brokers.values():
            if not broker.is_fenced:
                self.contacts_ms[broker.broker_id, broker.broker_epoch] = now_ms

    def has_session(self, broker: BrokerRegistration, now_ms: int) -> bool:
        heard_ms = self.contacts_ms.get((broker.broker_id, broker.broker_epoch))
        return heard_ms is not None and now_ms - heard_ms <= self.session_timeout_ms

    def silence_ms(self, state: ClusterState, now_ms: int) -> dict[int, int]:
        """Return the time since the last heartbeat of each registered broker, at most the session timeout, as
        QuorumControllerMetrics does. For a broker without a session, return the session timeout."""
        longest = self.session_timeout_ms
        return {
            b.broker_id: min(longest, now_ms - self.contacts_ms.get((b.broker_id, b.broker_epoch), now_ms - longest))
            for b in state.registrations.brokers.values()
        }

    def next_check_ms(self) -> int | None:
        """Return the time when the next session expires if no heartbeat arrives."""
        return min(self.contacts_ms.values()) + self.session_timeout_ms + 1 if self.contacts_ms else None

    def apply(self, effect: Effect, end_offset: int) -> None:
        """Carry out an effect of a decision. ``end_offset``: the metadata log end offset after the decision's records."""
        match effect:
            case HeardFromBroker():
                self.contacts_ms[effect.broker_id, effect.broker_epoch] = effect.now_ms
                self.metadata_offsets[effect.broker_id] = effect.metadata_offset
                if effect.next is Control.CONTROLLED_SHUTDOWN:
                    # Store the last record's offset, because brokers report the last record that they applied, not the log end
                    # offset.
                    self.shutdown_offsets.setdefault(effect.broker_id, end_offset - 1)
                elif effect.next is not Control.UNFENCED:
                    self.shutdown_offsets.pop(effect.broker_id, None)
            case ForgetBroker():
                self._forget(effect.broker_id)
            case SessionEnded():
                self.contacts_ms.pop((effect.broker_id, effect.broker_epoch), None)
                self.shutdown_offsets.pop(effect.broker_id, None)

    def _forget(self, broker_id: int) -> None:
        self.metadata_offsets.pop(broker_id, None)
        self.shutdown_offsets.pop(broker_id, None)
        for key in [key for key in self.contacts_ms if key[0] == broker_id]:
            del self.contacts_ms[key]

    def expired(self, now_ms: int) -> list[tuple[int, int]]:
        """Return the brokers, by id and epoch, whose sessions have expired."""
        return [key for key, heard_ms in self.contacts_ms.items() if now_ms - heard_ms > self.session_timeout_ms]

    def _lowest_active_offset(self, state: ClusterState) -> float:
        active = (b for b in state.registrations.brokers if not state.registrations.brokers[b].is_fenced)
        offsets = [self.metadata_offsets.get(b, UNKNOWN_OFFSET) for b in active if b not in self.shutdown_offsets]
        return min(offsets, default=float("inf"))

    def control_of(self, broker: BrokerRegistration) -> Control:
        if broker.is_fenced:
            return Control.FENCED
        return Control.CONTROLLED_SHUTDOWN if broker.broker_id in self.shutdown_offsets else Control.UNFENCED

    def next_control(self, state: ClusterState, heartbeat: BrokerHeartbeat, *, is_caught_up: bool) -> Control:
        """Return the state that the controller wants the broker to have after this heartbeat."""
        broker_id = heartbeat.broker_id
        current = self.control_of(state.registrations.brokers[broker_id])
        if current is Control.FENCED:
            if heartbeat.want_shut_down:
                return Control.SHUTDOWN_NOW
            return Control.UNFENCED if is_caught_up and not heartbeat.want_fence else Control.FENCED
        if current is Control.UNFENCED:
            if heartbeat.want_fence:
                return Control.SHUTDOWN_NOW if heartbeat.want_shut_down else Control.FENCED
            if heartbeat.want_shut_down:
                return Control.CONTROLLED_SHUTDOWN if elections.leads_any(state, broker_id) else Control.SHUTDOWN_NOW
            return Control.UNFENCED
        # The other brokers must have applied their new leaderships before this broker stops serving clients.
        is_known = self.shutdown_offsets[broker_id] <= self._lowest_active_offset(state)
        return Control.SHUTDOWN_NOW if is_known and not elections.leads_any(state, broker_id) else current


def heartbeat(state: ClusterState, heartbeats: Heartbeats, asked: BrokerHeartbeat, now_ms: int) -> Result[HeartbeatReply]:
    """Handle a heartbeat. `Heartbeats.apply` carries out the effects. Raises STALE_BROKER_EPOCH."""
    check_broker_epoch(state, asked.broker_id, asked.broker_epoch)
    broker = state.registrations.brokers[asked.broker_id]
    is_caught_up = asked.current_metadata_offset >= state.registrations.record_offsets.get(asked.broker_id, UNKNOWN_OFFSET)
    current = heartbeats.control_of(broker)
    following = heartbeats.next_control(state, asked, is_caught_up=is_caught_up)
    offline = _newly_offline(state, broker, asked)
    if offline and following is Control.UNFENCED and current is Control.FENCED:
        # Elections would still use directories that this heartbeat reports as offline, so only the next heartbeat unfences the
        # broker.
        following = Control.FENCED
    assert following in NEXT[current], (current, following)
    records: list[LogRecord] = []
    if following is not current:
        if following is Control.UNFENCED:
            records = unfenced(state, broker)
        elif following is Control.CONTROLLED_SHUTDOWN:
            records = _shutting_down(state, broker)
        else:
            records = fenced(state, broker)
    is_decided_for_all = following is not current and following is not Control.UNFENCED
    records += _directories_changed(state, broker, asked, offline, decides_partitions=not is_decided_for_all)
    reply = HeartbeatReply(
        is_caught_up=is_caught_up,
        is_fenced=following in (Control.FENCED, Control.SHUTDOWN_NOW),
        is_in_controlled_shutdown=following is Control.CONTROLLED_SHUTDOWN,
        should_shut_down=following is Control.SHUTDOWN_NOW,
    )
    heard = HeardFromBroker(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        metadata_offset=asked.current_metadata_offset,
        now_ms=now_ms,
        next=following,
    )
    return Result(reply, records, [heard])


def fence_expired_broker(state: ClusterState, heartbeats: Heartbeats, now_ms: int) -> Result[bool]:
    """Fence one broker whose session has expired. The response is False if no session has expired; else the caller must call again.

    A call fences only one broker, because the decision for its partitions depends on which other brokers are fenced.
    """
    expired = heartbeats.expired(now_ms)
    if not expired:
        return Result(False)
    broker_id, broker_epoch = expired[0]
    broker = state.registrations.brokers.get(broker_id)
    is_at_work = broker is not None and broker.broker_epoch == broker_epoch and not broker.is_fenced
    records = fenced(state, broker) if is_at_work and broker is not None else []
    return Result(True, records, [SessionEnded(broker_id, broker_epoch)])


def fenced(state: ClusterState, broker: BrokerRegistration) -> list[LogRecord]:
    where = elections.in_sync_with(state, broker.broker_id)
    records = elections.leader_and_isr_changes(state, where, without=broker.broker_id)
    return [*records, _change(broker, 0, fenced=1)]


def unfenced(state: ClusterState, broker: BrokerRegistration) -> list[LogRecord]:
    records = elections.leader_and_isr_changes(state, elections.leaderless(state), also=broker.broker_id)
    return [_change(broker, 0, fenced=-1), *records]


def _shutting_down(state: ClusterState, broker: BrokerRegistration) -> list[LogRecord]:
    records = [] if broker.is_in_controlled_shutdown else [_change(broker, 1, in_controlled_shutdown=1)]
    where = elections.in_sync_with(state, broker.broker_id)
    return records + elections.leader_and_isr_changes(state, where, without=broker.broker_id)


def _newly_offline(state: ClusterState, broker: BrokerRegistration, asked: BrokerHeartbeat) -> set[bytes]:
    if state.metadata_version < DIRECTORY_ASSIGNMENT:
        return set()
    return set(broker.directories) & set(asked.offline_directories)


def _directories_changed(
    state: ClusterState, broker: BrokerRegistration, asked: BrokerHeartbeat, offline: set[bytes], *, decides_partitions: bool
) -> list[LogRecord]:
    records: list[LogRecord] = []
    cordoned = asked.cordoned_directories
    knows_cordons = state.metadata_version >= CORDONED_DIRECTORIES and cordoned is not None
    if offline:
        if decides_partitions:
            where = [
                (topic, index)
                for topic, index in elections.in_sync_with(state, broker.broker_id)
                if topic.partitions[index].directory_of(broker.broker_id) in offline
            ]
            records = elections.leader_and_isr_changes(state, where, without=broker.broker_id)
        remaining = [directory for directory in broker.directories if directory not in offline]
        records.append(_change(broker, 2, log_dirs=remaining))
    if knows_cordons and cordoned is not None and tuple(sorted(cordoned)) != broker.cordoned_directories:
        records.append(_change(broker, 3, cordoned_log_dirs=list(cordoned)))
    return records


def _change(broker: BrokerRegistration, version: int, **fields: object) -> LogRecord:
    message = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        **fields,  # type: ignore[arg-type]
    )
    return metadata_record(change_record, message, version)
