"""Registers brokers and controllers, and unregisters brokers (ClusterControlManager of Kafka)."""

from __future__ import annotations

import msgspec

from ottla.coordinator.controller import elections, policies
from ottla.coordinator.controller.heartbeats import ForgetBroker, Heartbeats
from ottla.coordinator.metadata.broker_registration import BrokerRegistration, ControllerRegistration, Listeners, SupportedFeatures
from ottla.coordinator.metadata.cluster import PRODUCER_ID_BLOCK, ClusterState
from ottla.coordinator.metadata.metadata_records import CORDONED_DIRECTORIES, DIRECTORY_ASSIGNMENT, metadata_record
from ottla.coordinator.metadata.partition_registration import RESERVED_DIRECTORIES
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.messages import producer_ids_record, unregister_broker_record

METADATA_VERSION = "metadata.version"
OLDEST_METADATA_VERSION = 7
"""Level 3.3-IV3 of ``metadata.version``: the only level that a broker supports if it reports none."""
CONTROLLER_REGISTRATION = 15
"""Level 3.7-IV0 of ``metadata.version``. From this level on, controllers register (KIP-919)."""
NEVER_REGISTERED = -2
"""The previous broker epoch of a broker that never registered. No broker sends this value, so a first registration counts as
unclean."""
MAX_INT63 = (1 << 63) - 1


class Registering(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a BrokerRegistration request."""

    broker_id: int
    cluster_id: str
    incarnation_id: bytes
    listeners: Listeners
    features: SupportedFeatures
    rack: str | None = None
    is_migrating_zk_broker: bool = False
    directories: tuple[bytes, ...] = ()
    cordoned_directories: tuple[bytes, ...] = ()
    previous_broker_epoch: int = -1
    """The broker's epoch before a controlled shutdown. -1 if the shutdown was unclean: the broker may have lost unsynced writes."""


def register_broker(
    state: ClusterState, heartbeats: Heartbeats, asked: Registering, *, cluster_id: str, new_broker_epoch: int, now_ms: int
) -> Result[int]:
    """Register a broker. The response is its epoch. ``new_broker_epoch`` is the metadata log end offset.

    Raises INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, INVALID_REGISTRATION, UNSUPPORTED_VERSION, or
    BROKER_ID_NOT_REGISTERED for a broker of a cluster with ZooKeeper.
    """
    if asked.cluster_id != cluster_id:
        reason = f"Expected cluster ID {cluster_id}, but got cluster ID {asked.cluster_id}"
        raise KafkaError(Code.INCONSISTENT_CLUSTER_ID, reason)
    existing = state.registrations.brokers.get(asked.broker_id)
    is_same = existing is not None and existing.incarnation_id == asked.incarnation_id
    if existing is not None and not is_same and heartbeats.has_session(existing, now_ms):
        raise KafkaError(
            Code.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. After a restart, the old registration ends when its session"
            " expires.",
        )
    if asked.is_migrating_zk_broker:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")
    if state.metadata_version >= DIRECTORY_ASSIGNMENT:
        _check_directories(state, asked)
    features = _checked_features(state, asked.features)
    knows_directories = state.metadata_version >= DIRECTORY_ASSIGNMENT
    knows_cordons = state.metadata_version >= CORDONED_DIRECTORIES
    registration = BrokerRegistration(
        broker_id=asked.broker_id,
        broker_epoch=existing.broker_epoch if is_same and existing is not None else new_broker_epoch,
        incarnation_id=asked.incarnation_id,
        listeners=asked.listeners,
        features=features,
        rack=asked.rack,
        is_fenced=existing.is_fenced if is_same and existing is not None else True,
        is_in_controlled_shutdown=is_same and existing is not None and existing.is_in_controlled_shutdown,
        directories=tuple(sorted(asked.directories)) if knows_directories else (),
        cordoned_directories=tuple(sorted(asked.cordoned_directories)) if knows_cordons else (),
    )
    records: list[LogRecord] = []
    if not is_same:
        before = NEVER_REGISTERED if existing is None else existing.broker_epoch
        records = _of_new_incarnation(state, asked.broker_id, is_clean=asked.previous_broker_epoch == before)
    records.append(registration.to_record(state.metadata_version))
    return Result(registration.broker_epoch, records, [] if is_same else [ForgetBroker(asked.broker_id)])


def _of_new_incarnation(state: ClusterState, broker_id: int, *, is_clean: bool) -> list[LogRecord]:
    """Return the partition changes for the end of a broker's previous process: its replicas leave the in-sync sets and, if it
    stopped uncleanly, the eligible leader replicas."""
    in_sync = list(elections.in_sync_with(state, broker_id))
    if is_clean or not policies.has_eligible_leader_replicas(state):
        return elections.leader_and_isr_changes(state, in_sync, without=broker_id)
    eligible = elections.eligible_with(state, broker_id)
    return elections.leader_and_isr_changes(state, [*in_sync, *eligible], unclean=broker_id)


def _check_directories(state: ClusterState, asked: Registering) -> None:
    if not asked.directories:
        raise KafkaError(Code.INVALID_REGISTRATION, "No directories specified in request")
    if any(int.from_bytes(directory, "big") < RESERVED_DIRECTORIES for directory in asked.directories):
        raise KafkaError(Code.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(asked.directories)) != len(asked.directories):
        raise KafkaError(Code.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for broker in state.registrations.brokers.values():
        if broker.broker_id != asked.broker_id and set(broker.directories) & set(asked.directories):
            raise KafkaError(
                Code.INVALID_REGISTRATION, f"Broker {broker.broker_id} is already registered with a directory of the request"
            )


def _checked_features(state: ClusterState, asked: SupportedFeatures) -> SupportedFeatures:
    features = dict(asked)
    features.setdefault(METADATA_VERSION, (OLDEST_METADATA_VERSION, OLDEST_METADATA_VERSION))
    levels = {name: level for name, level in state.features.items() if level and name not in features}
    for name, (low, high) in [*features.items(), *((name, (0, 0)) for name in levels)]:
        level = state.metadata_version if name == METADATA_VERSION else state.features.get(name, 0)
        if not low <= level <= high:
            raise KafkaError(
                Code.UNSUPPORTED_VERSION,
                f"Unable to register because the broker does not support finalized version {level} of {name}. The broker wants a "
                f"version between {low} and {high}, inclusive.",
            )
    return features


def unregister_broker(state: ClusterState, broker_id: int) -> Result[None]:
    """Unregister a broker. Raises BROKER_ID_NOT_REGISTERED."""
    broker = state.registrations.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    where = [*elections.in_sync_with(state, broker_id), *elections.eligible_with(state, broker_id)]
    records = elections.leader_and_isr_changes(state, where, without=broker_id)
    message = unregister_broker_record.UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.broker_epoch)
    return Result(None, [*records, metadata_record(unregister_broker_record, message)], [ForgetBroker(broker_id)])


def register_controller(state: ClusterState, registration: ControllerRegistration) -> Result[None]:
    """Register a controller. Raises UNSUPPORTED_VERSION."""
    if state.metadata_version < CONTROLLER_REGISTRATION:
        reason = "The current MetadataVersion is too old to support controller registrations."
        raise KafkaError(Code.UNSUPPORTED_VERSION, reason)
    return Result(None, [registration.to_record()])


def allocate_producer_ids(state: ClusterState, broker_id: int, broker_epoch: int) -> Result[range]:
    """Allocate the next block of producer ids to a broker (ProducerIdControlManager of Kafka).

    Raises STALE_BROKER_EPOCH, or UNKNOWN_SERVER_ERROR if no ids are left.
    """
    policies.check_broker_epoch(state, broker_id, broker_epoch)
    first = state.next_producer_id
    end = first + PRODUCER_ID_BLOCK
    if end > MAX_INT63:
        raise KafkaError(Code.UNKNOWN_SERVER_ERROR, "All producer ids are used up.")
    message = producer_ids_record.ProducerIdsRecord(broker_id=broker_id, broker_epoch=broker_epoch, next_producer_id=end)
    return Result(range(first, end), [metadata_record(producer_ids_record, message)])
