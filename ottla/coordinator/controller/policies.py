"""Reads the configs, features and registrations that decisions about a partition depend on."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.coordinator.metadata.cluster import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ClusterState,
)
from ottla.coordinator.metadata.eligible_replicas import ELIGIBLE_LEADER_REPLICAS_VERSION
from ottla.coordinator.metadata.metadata_records import ELIGIBLE_LEADER_REPLICAS
from ottla.coordinator.metadata.partition_registration import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionRegistration,
)
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS
from ottla.coordinator.metadata.topics import Topic
from ottla.coordinator.result import LogRecord, Result
from ottla.protocol.errors import Code, KafkaError


def check_broker_epoch(state: ClusterState, broker_id: int, broker_epoch: int) -> None:
    """Raise STALE_BROKER_EPOCH if the broker is not registered with this epoch."""
    registration = state.registrations.brokers.get(broker_id)
    if registration is None:
        raise KafkaError(Code.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if registration.broker_epoch != broker_epoch:
        reason = f"Expected broker epoch {registration.broker_epoch}, but got broker epoch {broker_epoch}"
        raise KafkaError(Code.STALE_BROKER_EPOCH, reason)


def is_active(state: ClusterState, broker_id: int) -> bool:
    registration = state.registrations.brokers.get(broker_id)
    return registration is not None and registration.is_active


def has_online_directory(
    state: ClusterState, partition: PartitionRegistration, broker_id: int, directory: bytes | None = None
) -> bool:
    """Whether the directory of a partition's replica is online or unknown (DirectoryId.isOnline of Kafka).

    ``directory`` defaults to the replica's registered directory.
    """
    registration = state.registrations.brokers.get(broker_id)
    if registration is None:
        return False
    directory = partition.directory_of(broker_id) if directory is None else directory
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return True
    return directory != LOST_DIRECTORY and (not registration.directories or directory in registration.directories)


def default_directory(state: ClusterState, broker_id: int) -> bytes:
    """Return the directory for a broker's new replica. With several usable directories it is unassigned, and the broker chooses."""
    registration = state.registrations.brokers.get(broker_id)
    if registration is None:
        return UNASSIGNED_DIRECTORY
    if not registration.directories:
        return MIGRATING_DIRECTORY
    usable = [d for d in registration.directories if d not in registration.cordoned_directories]
    return usable[0] if len(usable) == 1 else UNASSIGNED_DIRECTORY


def allows_unclean_elections(state: ClusterState, topic: str) -> bool:
    return topic_config(state, topic, "unclean.leader.election.enable").strip().lower() == "true"


def effective_min_insync_replicas(state: ClusterState, topic: Topic) -> int:
    """Return ``min.insync.replicas``, at most the topic's replication factor."""
    factor = len(topic.partitions[0].replicas) if topic.partitions else 1
    return min(int(topic_config(state, topic.name, MIN_INSYNC_REPLICAS)), factor)


def has_eligible_leader_replicas(state: ClusterState) -> bool:
    """Whether eligible leader replicas (KIP-966) are enabled."""
    enabled = state.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) >= 1
    return enabled and state.metadata_version >= ELIGIBLE_LEADER_REPLICAS


def set_features(state: ClusterState, levels: Mapping[str, int], static_min_insync_replicas: str) -> Result[None]:
    """Set feature levels. Eligible leader replicas need the same ``min.insync.replicas`` on the controller and all brokers.

    The controller's value decides which replicas are eligible, a leader's value which records are committed. So an unset
    cluster-wide config is set to the controller's static value, and configs of single brokers are removed
    (maybeGenerateElrSafetyRecords of Kafka). With unchanged levels, this function adds such config records to a log without them.
    """
    records: list[LogRecord] = []
    level = levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, state.features.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0))
    if level >= 1:
        if MIN_INSYNC_REPLICAS not in state.config_of(BROKER_RESOURCE, ""):
            records += state.set_configs(BROKER_RESOURCE, "", {MIN_INSYNC_REPLICAS: static_min_insync_replicas}).records
        for kind, name in [*state.configs]:
            if kind == BROKER_RESOURCE and name and MIN_INSYNC_REPLICAS in state.config_of(kind, name):
                records += state.set_configs(kind, name, {MIN_INSYNC_REPLICAS: None}).records
    return Result(None, [*state.set_features(levels).records, *records])


def topic_config(state: ClusterState, topic: str, name: str) -> str:
    """Return a topic's own value of a config, or the server's value if the topic has none."""
    own = state.config_of(TOPIC_RESOURCE, topic).get(name)
    return state.server_config(name) if own is None else own
