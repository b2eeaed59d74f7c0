"""Checks and applies changes of configs for AlterConfigs and IncrementalAlterConfigs.

Before any change, all configs that the resource would then have are checked, as in kafka.server.ConfigAdminManager and
org.apache.kafka.controller.ConfigurationControlManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from ottla.broker.config.client_metrics import validate_client_metrics
from ottla.broker.config.definitions import CLUSTER_LISTENER_KEYS, RELOADABLE, ConfigError, broker_definitions
from ottla.broker.config.groups import validate_group
from ottla.broker.config.live_config import LiveConfig
from ottla.broker.config.topics import validate_all
from ottla.broker.handlers.support.each import made
from ottla.broker.metadata.cluster import ClusterCommands
from ottla.coordinator.controller.policies import has_eligible_leader_replicas
from ottla.coordinator.metadata.cluster import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClusterState,
)
from ottla.coordinator.metadata.config_totals import MAX_KEPT, MAX_KEPT_CHARACTERS, ConfigTotals, characters_of
from ottla.coordinator.metadata.server_config import MIN_INSYNC_REPLICAS
from ottla.coordinator.metadata.topic_names import check_topic_name
from ottla.protocol.config_effects import LISTENER_PREFIX
from ottla.protocol.errors import Code, KafkaError
from ottla.protocol.steps import WORK_A_STEP

MAX_CONFIGS = 1_000
"""Maximum number of configs that a request may change on one resource, or that a broker may have. A limit is needed because Kafka
accepts unknown names. Kafka's own limit, with the same error code, is 10,000 records in one operation.
"""
PATTERNS_WORK = 2 * WORK_A_STEP
"""Estimated time to change a client metrics subscription, whose patterns must be compiled, in units of 2 us."""
CHANGE_WORK = 100
ENTRY_WORK = 10
_FIXED = {"listeners", "listener.security.protocol.map"}
"""Configs that are dynamic in Kafka but not in ottla, which opens listeners only when it starts."""


class Ports(Protocol):
    cluster: ClusterCommands
    live_config: LiveConfig


class _Config(Protocol):
    name: str
    value: str | None


class _Resource(Protocol):
    resource_type: int
    resource_name: str

    @property
    def configs(self) -> Sequence[Any]: ...


async def repeated(resources: Sequence[_Resource]) -> set[tuple[int, str]]:
    """The resources that a request contains more than once. As in Kafka, each of their entries is refused."""

    def find() -> set[tuple[int, str]]:
        counts = Counter((r.resource_type, r.resource_name) for r in resources)
        return {resource for resource, count in counts.items() if count > 1}

    return await made(find, len(resources))


def check_named_once(resource: _Resource, twice: set[tuple[int, str]]) -> None:
    """Raise INVALID_REQUEST for a resource that the request contains more than once."""
    if (resource.resource_type, resource.resource_name) in twice:
        raise KafkaError(Code.INVALID_REQUEST, "Each resource must appear at most once.")


def check_resource(ports: Ports, resource_type: int, name: str) -> None:
    """Check that a resource of this type may have this name. Raises INVALID_TOPIC_EXCEPTION or INVALID_REQUEST."""
    if resource_type == TOPIC_RESOURCE:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, "Default topic resources are not allowed.")
        check_topic_name(name)
    elif resource_type == BROKER_RESOURCE:
        if name and not (name.isascii() and name.isdigit()):
            raise KafkaError(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
        _check_node(ports, name)
    elif resource_type == GROUP_RESOURCE:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, "Default group resources are not allowed.")
    elif resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(Code.INVALID_REQUEST, "Subscription name can't be empty")
    else:
        raise KafkaError(Code.INVALID_REQUEST, f"Unknown resource type {resource_type}")


def _check_node(ports: Ports, name: str) -> None:
    """Raise INVALID_REQUEST or BROKER_ID_NOT_REGISTERED if the name is no node of the cluster. "" means all nodes."""
    node_id, registrations = str(ports.live_config.settings.node_id), ports.cluster.state.registrations
    if name in ("", node_id):
        return
    if not registrations.brokers:
        raise KafkaError(Code.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}")
    if name not in {str(registered) for registered in (*registrations.brokers, *registrations.controllers)}:
        raise KafkaError(Code.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")


def check_count(count: int) -> None:
    """Raise POLICY_VIOLATION if ``count`` exceeds `MAX_CONFIGS` (QuorumController.MAX_RECORDS_PER_USER_OP)."""
    if count > MAX_CONFIGS:
        reason = f"{count} configs of one resource; at most {MAX_CONFIGS} are allowed"
        raise KafkaError(Code.POLICY_VIOLATION, f"Unable to perform excessively large batch operation: {reason}.")


def change_work(resource: _Resource) -> int:
    """Estimated time to change a resource's configs, in units of 2 us."""
    if resource.resource_type == CLIENT_METRICS_RESOURCE and resource.configs:
        return PATTERNS_WORK
    return CHANGE_WORK + len(resource.configs) * ENTRY_WORK


def check_keys(configs: Sequence[_Config], may_be_null: Callable[[Any], bool] = lambda _: False) -> None:
    """Raise INVALID_REQUEST for a repeated key or a key without a value, POLICY_VIOLATION for too many keys."""
    check_count(len(configs))
    if len({c.name for c in configs}) < len(configs):
        raise KafkaError(Code.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [c.name for c in configs if c.value is None and not may_be_null(c)]
    if nulls:
        raise KafkaError(Code.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")


def apply(ports: Ports, resource_type: int, name: str, changes: Mapping[str, str | None], *, validate_only: bool) -> None:
    """Set configs of one resource; the value None removes a config.

    Raises for a topic INVALID_CONFIG or UNKNOWN_TOPIC_OR_PARTITION; for other resources INVALID_REQUEST, INVALID_CONFIG or
    POLICY_VIOLATION.
    """
    own = ports.cluster.state.config_of(resource_type, name)
    wanted = {key: value for key, value in {**own, **changes}.items() if value is not None}
    if resource_type == TOPIC_RESOURCE:
        try:
            validate_all(wanted, ports.live_config.current)
        except ConfigError as error:
            raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
        if name not in ports.cluster.state.topics:
            raise KafkaError(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    elif resource_type == BROKER_RESOURCE:
        _check_broker(ports, name, wanted, changes)
        _check_min_insync_replicas(ports.cluster.state, name, changes)
    else:
        _check_kept(ports, resource_type, name, wanted)
    if not validate_only:
        # As in Kafka, setting a listener's key store configs to equal values makes the broker load the key stores again
        # (KAFKA-14136).
        changed = {k: v for k, v in changes.items() if own.get(k) != v or k.startswith(LISTENER_PREFIX)}
        ports.cluster.set_configs(resource_type, name, changed)
        ports.live_config.report_without_effect(resource_type, [k for k, v in changed.items() if v is not None])


def _check_min_insync_replicas(state: ClusterState, node: str, changes: Mapping[str, str | None]) -> None:
    """Raise INVALID_CONFIG if eligible leader replicas forbid a change of ``min.insync.replicas``.

    They forbid setting the config for a single broker, or removing it from the cluster
    (ConfigurationControlManager.validateAlterConfig).
    """
    has_one = has_eligible_leader_replicas(state) and MIN_INSYNC_REPLICAS in state.config_of(BROKER_RESOURCE, "")
    if not has_one or MIN_INSYNC_REPLICAS not in changes:
        return
    if node:
        raise KafkaError(Code.INVALID_CONFIG, f"Broker-level {MIN_INSYNC_REPLICAS} cannot be altered while ELR is enabled.")
    if changes[MIN_INSYNC_REPLICAS] is None:
        raise KafkaError(Code.INVALID_CONFIG, f"Cluster-level {MIN_INSYNC_REPLICAS} cannot be removed while ELR is enabled.")


def _check_kept(ports: Ports, resource_type: int, name: str, wanted: Mapping[str, str]) -> None:
    """Check all configs that a group or a client metrics subscription would have after the change. Raises `KafkaError`.

    The resource need not exist.
    """
    if resource_type == GROUP_RESOURCE:
        try:
            validate_group(wanted, ports.live_config.current)
        except ConfigError as error:
            raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
    else:
        validate_client_metrics(wanted)
    state = ports.cluster.state
    if not wanted:
        return
    kept = state.config_totals.get(resource_type, ConfigTotals())
    if (resource_type, name) not in state.configs and kept.resources >= MAX_KEPT:
        reason = f"{MAX_KEPT} resources of this type have configs; delete some first"
        raise KafkaError(Code.POLICY_VIOLATION, reason)
    added = characters_of(name, wanted) - characters_of(name, state.config_of(resource_type, name))
    if added > 0 and kept.characters + added > MAX_KEPT_CHARACTERS:
        reason = f"configs of this type have {MAX_KEPT_CHARACTERS} characters with their names; delete some first"
        raise KafkaError(Code.POLICY_VIOLATION, reason)


def _check_broker(ports: Ports, name: str, wanted: Mapping[str, str], names: Collection[str]) -> None:
    """Raise INVALID_REQUEST for invalid configs of a broker (DynamicBrokerConfig.validate), POLICY_VIOLATION for too many configs.
    Unknown names are accepted, because plugins of Kafka may use them.

    ``names``: the configs that the request sets or deletes.
    """
    check_count(len(wanted))
    known = {key: broker_definitions()[key] for key in wanted if key in broker_definitions()}
    static = [key for key, definition in known.items() if not definition.is_dynamic or key in _FIXED]
    if static:
        raise KafkaError(Code.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(static)}]")
    unprefixed = [key for key in wanted if key in RELOADABLE]
    if unprefixed:
        reason = "These security configs can be dynamically updated only per-listener using the listener prefix"
        raise KafkaError(Code.INVALID_REQUEST, f"{reason}: [{', '.join(unprefixed)}]")
    single = [key for key in wanted if _is_per_listener(key) or (key in known and known[key].is_per_broker)]
    if single and not name:
        reason = "Cannot update these configs at default cluster level, broker id must be specified"
        raise KafkaError(Code.INVALID_REQUEST, f"{reason}: [{', '.join(single)}]")
    twice = [key for key, definition in known.items() if definition.repeats(wanted[key])]
    if twice:
        raise KafkaError(Code.INVALID_REQUEST, f"Configuration '{twice[0]}' values must not be duplicated.")
    state = ports.cluster.state
    try:
        if name == str(state.node_id):
            ports.live_config.check({**state.config_of(BROKER_RESOURCE, ""), **wanted}, names)
        elif name:
            ports.live_config.current.with_dynamic({**state.config_of(BROKER_RESOURCE, ""), **wanted})
        else:
            ports.live_config.current.with_dynamic(wanted)
            ports.live_config.check({**wanted, **state.config_of(BROKER_RESOURCE, str(state.node_id))}, names)
    except ConfigError as error:
        raise KafkaError(Code.INVALID_REQUEST, str(error)) from None


def _is_per_listener(key: str) -> bool:
    """Whether a key has a listener's prefix and may be set only for a single broker."""
    return key.startswith(LISTENER_PREFIX) and key.removeprefix(LISTENER_PREFIX).partition(".")[2] not in CLUSTER_LISTENER_KEYS
