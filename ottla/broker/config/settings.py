"""The settings of a broker, from Kafka's defaults, ottla's defaults, server.properties, ``KAFKA_*`` variables and ``--set``."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv6Address
from typing import Any, cast

import msgspec

from ottla.addresses import is_ipv6
from ottla.broker.config.definitions import (
    LISTENER_LIMITS,
    RELOADABLE,
    ConfigError,
    Value,
    broker_definition,
    broker_definitions,
    unknown,
)
from ottla.coordinator.group.assignors.named import ASSIGNORS
from ottla.protocol.config_effects import LISTENER_PREFIX
from ottla.security.acl.principals import parse_super_users

CONTROLLER_LISTENER = "CONTROLLER"
"""The default name of the controller listener. A single broker is its own controller and does not open this listener."""

OWN_DEFAULTS: dict[str, str] = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "queued.max.request.bytes": str(256 << 20),
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "controller.listener.names": CONTROLLER_LISTENER,
    "log.dirs": ".ottla/data",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.assignment.interval.ms": "100",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.assignment.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.assignment.interval.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
"""Defaults that differ from Kafka's, because a laptop needs other values than a data centre."""

KERBEROS_PREFIX = "sasl.kerberos."
"""Prefix of the Kerberos settings, which ottla refuses."""
AUTHORIZERS = ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "StandardAuthorizer")
"""The values of ``authorizer.class.name``: the class of Kafka, and its short name."""

PROCESS, POWER = "process", "power"
"""The values of ``ottla.durability``."""


class Settings(msgspec.Struct, frozen=True):
    """The settings that have an effect in ottla. A field's name is Kafka's key with ``_`` instead of ``.``."""

    node_id: int
    process_roles: tuple[str, ...]
    listeners: tuple[str, ...]
    advertised_listeners: tuple[str, ...] | None
    listener_security_protocol_map: str
    controller_listener_names: tuple[str, ...] | None
    controller_quorum_bootstrap_servers: tuple[str, ...]
    controller_quorum_voters: tuple[str, ...]
    inter_broker_listener_name: str | None
    security_inter_broker_protocol: str
    initial_broker_registration_timeout_ms: int
    broker_heartbeat_interval_ms: int
    broker_rack: str | None
    broker_session_timeout_ms: int
    allow_everyone_if_no_acl_found: bool
    authorizer_class_name: str
    super_users: str
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    unclean_leader_election_interval_ms: int
    delegation_token_expiry_check_interval_ms: int
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_secret_key: str | None
    default_replication_factor: int
    log_dirs: str
    socket_request_max_bytes: int
    queued_max_request_bytes: int
    quota_window_num: int
    quota_window_size_seconds: int
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    connection_failed_authentication_delay_ms: int
    connections_max_idle_ms: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_connections_per_ip_overrides: str
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    auto_create_topics_enable: bool
    errors_deadletterqueue_auto_create_topics_enable: bool
    errors_deadletterqueue_topic_name_prefix: str
    num_partitions: int
    delete_topic_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_initial_task_delay_ms: int
    log_retention_check_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_partition_verification_enable: bool
    transaction_two_phase_commit_enable: bool
    unstable_api_versions_enable: bool
    transaction_state_log_num_partitions: int
    transaction_state_log_segment_bytes: int
    group_initial_rebalance_delay_ms: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_coordinator_rebalance_protocols: tuple[str, ...]
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_session_timeout_ms: int
    group_streams_acceptable_recovery_lag: int
    group_streams_assignment_interval_ms: int
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_num_standby_replicas: int
    group_streams_rack_aware_assignment_tags: tuple[str, ...]
    group_streams_session_timeout_ms: int
    group_streams_task_offset_interval_ms: int
    group_share_assignment_interval_ms: int
    group_share_delivery_count_limit: int
    group_share_heartbeat_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_delivery_count_limit: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_share_sessions: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_delivery_count_limit: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_min_session_timeout_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int
    group_share_session_timeout_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_segment_bytes: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    ottla_console: bool
    ottla_console_read_only: bool
    ottla_control_host: str
    ottla_control_port: int | None
    ottla_control_token: str | None
    ottla_durability: str
    ottla_fetch_session_max_partitions: int
    ottla_inflating_memory_bytes: int
    ottla_max_open_files: int
    ottla_metrics_host: str
    ottla_metrics_port: int | None
    ottla_queued_max_response_bytes: int
    ottla_request_stall_ms: int
    ottla_response_stall_ms: int
    ottla_request_inflated_max_bytes: int
    ottla_schema_registry_host: str
    ottla_schema_registry_port: int | None
    ottla_schema_registry_token: str | None

    @property
    def is_member(self) -> bool:
        """Whether the controller of the broker's cluster is another process."""
        return self.process_roles == ("broker",)

    @property
    def has_control_server(self) -> bool:
        """Whether to run the HTTP server of the control API. It also serves the console, on a free port if none is configured."""
        return self.ottla_control_port is not None or self.ottla_console


HONOURED = {name.replace("_", ".") for name in Settings.__struct_fields__}


class BrokerConfig:
    """All settings: as text by key, for DescribeConfigs, and as typed `Settings`. Raises `ConfigError`.

    ``dynamic`` are the configs that clients set while the broker runs (KIP-226). They override ``given``, the configs given
    at the start.
    """

    def __init__(self, given: Mapping[str, str], dynamic: Mapping[str, str] | None = None) -> None:
        known = broker_definitions()
        self.given = dict(given)
        self.dynamic = dict(dynamic or {})
        if "node.id" not in self.given and "broker.id" in self.given:
            self.given["node.id"] = self.given["broker.id"]
        if "log.dirs" not in self.given and "log.dir" in self.given:
            self.given["log.dirs"] = self.given["log.dir"]
        for name, text in self.given.items():
            definition = broker_definition(name)
            if definition is None:
                raise unknown(name, known)
            definition.check(text)
            _check_supported(name)
        values: dict[str, Any] = {name.replace(".", "_"): self.value(name) for name in HONOURED}
        if isinstance(values["log_dirs"], tuple):
            if len(values["log_dirs"]) != 1:
                raise ConfigError("log.dirs: exactly one directory is supported")
            values["log_dirs"] = values["log_dirs"][0]
        self._check_retention()
        self._check_groups()
        if "inter.broker.listener.name" in self.given and "security.inter.broker.protocol" in self.given:
            raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")
        self._check_authorizer()
        self.settings = Settings(**values)
        self.static = {**OWN_DEFAULTS, "broker.id": str(self.settings.node_id), **self.given}
        """The configs with which the broker was started, including ottla's defaults (DynamicBrokerConfig.staticBrokerConfigs)."""
        overrides = connection_limits(self.settings.max_connections_per_ip_overrides)
        if not self.settings.max_connections_per_ip and not overrides:
            key = "max.connections.per.ip"
            raise ConfigError(f"{key} can be set to zero only if {key}.overrides property is set.")

    def _check_retention(self) -> None:
        for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
            value = self.value(name)
            if isinstance(value, int) and (value == 0 or value < -1):
                raise ConfigError(f"{name} must be unlimited (-1) or, greater than or equal to 1")

    def _check_authorizer(self) -> None:
        name = self.value("authorizer.class.name")
        if name not in ("", *AUTHORIZERS):
            raise ConfigError(f"authorizer.class.name: unknown authorizer {name}; the authorizer is {AUTHORIZERS[0]}")
        try:
            parse_super_users(str(self.value("super.users") or ""))
        except ValueError as error:
            raise ConfigError(f"super.users: {error}") from None

    def _check_groups(self) -> None:
        names: tuple[str, ...] = self.value("group.consumer.assignors")  # type: ignore[assignment]
        for name in names:
            if name not in ASSIGNORS:
                raise ConfigError(f"group.consumer.assignors: unknown assignor {name}; the assignors are {' and '.join(ASSIGNORS)}")
        shared = ("record.lock.duration.ms", "delivery.count.limit", "partition.max.record.locks")
        for kind in ("consumer", "streams", "share"):
            for name in ("heartbeat.interval.ms", "session.timeout.ms", *(shared if kind == "share" else ())):
                low, value, high = (self.value(f"group.{kind}.{bound}{name}") for bound in ("min.", "", "max."))
                if not low <= value <= high:  # type: ignore[operator]
                    raise ConfigError(
                        f"group.{kind}.{name} ({value}) must lie between group.{kind}.min.{name} ({low})"
                        f" and group.{kind}.max.{name} ({high})"
                    )

    def with_dynamic(self, dynamic: Mapping[str, str]) -> BrokerConfig:
        """The same configuration with other dynamic configs. Raises `ConfigError`. Unknown names have no effect."""
        known = broker_definitions()
        for name, text in dynamic.items():
            if name in known:
                _check_limit(name, known[name].check(text))
                _check_supported(name)
        return BrokerConfig(self.given, dynamic)

    def with_usable(self, dynamic: Mapping[str, str]) -> tuple[BrokerConfig, list[str]]:
        """Return the same configuration with the valid configs of ``dynamic``, and for each invalid config the reason.

        A stored config that is invalid must not prevent a start.
        """
        try:
            return self.with_dynamic(dynamic), []
        except ConfigError:
            reasons: list[str] = []
        config = self.with_dynamic({})
        for name, text in dynamic.items():
            try:
                config = self.with_dynamic({**config.dynamic, name: text})
            except ConfigError as error:
                reasons.append(str(error))
        return config, reasons

    def text(self, name: str) -> str | None:
        """The current value of a broker key, as text."""
        if name in self.dynamic:
            return self.dynamic[name]
        return self.static_text(name)

    def static_text(self, name: str) -> str | None:
        """The value with which the broker was started, as text."""
        if name in self.given:
            return self.given[name]
        return OWN_DEFAULTS.get(name, broker_definitions()[name].default)

    def of_listener(self, listener: str, name: str, mechanism: str | None = None) -> Value:
        """The value of a key for one listener, and for one of its SASL mechanisms.

        The key with the most specific prefix wins, as in ``listener.name.sasl_ssl.plain.sasl.jaas.config``. Of the dynamic configs
        with a prefix, only `RELOADABLE` have an effect.
        """
        prefix = f"{LISTENER_PREFIX}{listener.lower()}."
        keys = [f"{prefix}{name}", name]
        if mechanism is not None:
            keys.insert(0, f"{prefix}{mechanism.lower()}.{name}")
        text = next((self.given[key] for key in keys if key in self.given), self.text(name))
        if name in RELOADABLE:
            text = self.dynamic.get(f"{prefix}{name}", text)
        return None if text is None else broker_definitions()[name].parse(text)

    def limit_of(self, listener: str, name: str) -> int:
        """The value of one of `LISTENER_LIMITS` for a listener, which may change while the broker runs. Raises `ConfigError`."""
        key = f"{LISTENER_PREFIX}{listener.lower()}.{name}"
        text = self.dynamic.get(key, self.given.get(key, self.text(name)))
        limit = cast(int, broker_definitions()[name].check(str(text)))
        if key in self.dynamic:
            _check_limit(name, limit)
        return limit

    def value(self, name: str) -> Value:
        text = self.text(name)
        return None if text is None else broker_definitions()[name].parse(text)


def _check_limit(name: str, value: Value) -> None:
    """Raise `ConfigError` for a limit of 0 that a client sets while the broker runs: then no client could connect again."""
    if name in LISTENER_LIMITS and value == 0:
        raise ConfigError(f"Invalid {name} {value}")


def _check_supported(name: str) -> None:
    """Raise `ConfigError` for a Kerberos setting: accepting it would promise an authentication that does not happen."""
    if KERBEROS_PREFIX in name:
        raise ConfigError(f"{name}: Kerberos (GSSAPI) is not supported; leave it out, and give another mechanism of SASL")


def connection_limits(text: str) -> dict[str, int]:
    """Parse ``max.connections.per.ip.overrides``, which is ``ADDRESS:COUNT,ADDRESS:COUNT``. Raises `ConfigError`."""
    limits: dict[str, int] = {}
    for part in filter(None, (p.strip() for p in text.split(","))):
        address, _, count = part.rpartition(":")
        if not address or not (count.isascii() and count.isdigit()):
            raise ConfigError(f"max.connections.per.ip.overrides: {part!r} is not ADDRESS:COUNT")
        host = address.removeprefix("[").removesuffix("]")
        limits[str(IPv6Address(host)) if is_ipv6(host) else host] = int(count)
    return limits
