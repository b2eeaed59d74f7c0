"""The effective configs of a group: its own values, else the broker's values (GroupConfig, KIP-848, 932 and 1071)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ottla.broker.config.definitions import ConfigError, Definition, Value, broker_definitions, lines_of
from ottla.broker.config.settings import BrokerConfig
from ottla.coordinator.group.share.requests import ShareGroupConfig
from ottla.coordinator.group.streams.requests import StreamsGroupConfig
from ottla.coordinator.share_state.changes import SharePartitionConfig

DEAD_LETTERS = "errors.deadletterqueue.topic.name"
DEAD_LETTERS_SHARE_VERSION = 2
"""The lowest level of the feature ``share.version`` with which share groups have dead-letter topics (KIP-1191)."""
ASSIGNOR = "streams.assignor.name"
STREAMS_ASSIGNORS = ("sticky",)
"""Names of the task assignors that streams groups can use (``group.streams.assignors``)."""

_PREFIX = "group."


@cache
def group_definitions() -> dict[str, Definition]:
    """All group configs by name. ``synonyms`` has the broker config that is the default, if any."""
    definitions = {}
    for line in lines_of("group_keys.txt"):
        name, kind, default, rule, internal, synonym, text = line.split("\t")
        definitions[name] = Definition(
            name=name,
            type=kind,
            default={"<null>": None, "<empty>": ""}.get(default, default) if name != ASSIGNOR else STREAMS_ASSIGNORS[0],
            rule=rule,
            synonyms=() if synonym == "-" else (synonym,),
            is_internal=internal == "I",
            documentation=text.replace("\\n", "\n"),
        )
    return definitions


def effective_group(name: str, own: Mapping[str, str], config: BrokerConfig) -> str | None:
    """The current value of a group config, as text."""
    if name in own:
        return own[name]
    definition = group_definitions()[name]
    for synonym in definition.synonyms:
        if synonym in broker_definitions():
            return config.text(synonym)
    return definition.default


def group_value(name: str, own: Mapping[str, str], config: BrokerConfig) -> Value:
    """The current value of a group config, typed. A stored value that cannot be parsed counts as the default."""
    definition = group_definitions()[name]
    text = effective_group(name, own, config)
    try:
        return None if text is None else definition.parse(text)
    except ConfigError:
        return None if definition.default is None else definition.parse(definition.default)


def streams_group_config(own: Mapping[str, str], config: BrokerConfig) -> StreamsGroupConfig:
    def number(name: str) -> int:
        value = group_value(f"streams.{name}", own, config)
        assert isinstance(value, int)
        return value

    tags = group_value("streams.rack.aware.assignment.tags", own, config)
    return StreamsGroupConfig(
        session_timeout_ms=number("session.timeout.ms"),
        heartbeat_interval_ms=number("heartbeat.interval.ms"),
        assignment_interval_ms=number("assignment.interval.ms"),
        initial_rebalance_delay_ms=number("initial.rebalance.delay.ms"),
        task_offset_interval_ms=number("task.offset.interval.ms"),
        acceptable_recovery_lag=number("acceptable.recovery.lag"),
        standby_replica_count=number("num.standby.replicas"),
        rack_aware_assignment_tags=tags if isinstance(tags, tuple) else (),
        max_size=config.settings.group_streams_max_size,
    )


def share_group_config(own: Mapping[str, str], config: BrokerConfig) -> ShareGroupConfig:
    return ShareGroupConfig(
        session_timeout_ms=share_number("session.timeout.ms", own, config),
        heartbeat_interval_ms=share_number("heartbeat.interval.ms", own, config),
        assignment_interval_ms=share_number("assignment.interval.ms", own, config),
        initialize_retry_interval_ms=config.settings.group_share_initialize_retry_interval_ms,
        max_size=config.settings.group_share_max_size,
    )


def share_number(name: str, own: Mapping[str, str], config: BrokerConfig) -> int:
    """The current value of a numeric config of a share group. ``name`` has no prefix ``share.``."""
    value = group_value(f"share.{name}", own, config)
    assert isinstance(value, int)
    return value


def share_partition_config(own: Mapping[str, str], config: BrokerConfig, share_version: int) -> SharePartitionConfig:
    """The current configuration of a group's share partitions. ``share_version`` is the level of ``share.version``."""
    return SharePartitionConfig(
        lock_duration_ms=share_number("record.lock.duration.ms", own, config),
        max_delivery_count=share_number("delivery.count.limit", own, config),
        max_record_locks=share_number("partition.max.record.locks", own, config),
        is_renewal_enabled=bool(group_value("share.renew.acknowledge.enable", own, config)),
        has_dead_letters=share_version >= DEAD_LETTERS_SHARE_VERSION and bool(dead_letter_topic(own, config)),
    )


def dead_letter_topic(own: Mapping[str, str], config: BrokerConfig) -> str:
    """The dead-letter topic of a share group; empty if the group has no such topic."""
    return str(group_value(DEAD_LETTERS, own, config) or "")


def copies_dead_letters(own: Mapping[str, str], config: BrokerConfig) -> bool:
    """Whether a dead letter has key and value of the original record."""
    return bool(group_value("errors.deadletterqueue.copy.record.enable", own, config))


def is_share_read_committed(own: Mapping[str, str], config: BrokerConfig) -> bool:
    return group_value("share.isolation.level", own, config) == "read_committed"


EARLIEST_RESET, LATEST_RESET, RESET_BY_DURATION = "earliest", "latest", "by_duration:"


def share_offset_reset(own: Mapping[str, str], config: BrokerConfig) -> str:
    """The offset reset strategy of a share group: `EARLIEST_RESET`, `LATEST_RESET`, or `RESET_BY_DURATION` and a duration."""
    return str(group_value("share.auto.offset.reset", own, config))


def validate_group(own: Mapping[str, str], config: BrokerConfig) -> None:
    """Check the complete new configs of a group. Raises `ConfigError` as GroupConfig.validate does."""
    known = group_definitions()
    for name in own:
        if name not in known:
            raise ConfigError(f"Unknown group config name: {name}")
    values = {name: known[name].check(text) for name, text in own.items()}
    for name, value in values.items():
        if known[name].type in ("INT", "LONG"):
            assert isinstance(value, int)
            _check_bounds(name, value, config)
    if values.get(ASSIGNOR, STREAMS_ASSIGNORS[0]) not in STREAMS_ASSIGNORS:
        raise ConfigError(f"{ASSIGNOR} must be one of the assignors of group.streams.assignors: {', '.join(STREAMS_ASSIGNORS)}")
    # As in Kafka, an invalid dead-letter topic name without ``__`` is accepted; the group then has no dead letters.
    if str(values.get(DEAD_LETTERS, "")).startswith("__"):
        raise ConfigError(f"{DEAD_LETTERS}: DLQ topic name must not start with '__'")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if session in own or heartbeat in own:
            session_ms, heartbeat_ms = (group_value(name, own, config) for name in (session, heartbeat))
            assert isinstance(session_ms, int)
            assert isinstance(heartbeat_ms, int)
            if session_ms <= heartbeat_ms:
                raise ConfigError(f"{session} must be greater than {heartbeat}")


def _check_bounds(name: str, value: int, config: BrokerConfig) -> None:
    """Raise `ConfigError` for a value outside the bounds that ``group.KIND.min.*`` and ``group.KIND.max.*`` set on the broker."""
    kind, _, rest = name.partition(".")
    # The bound of streams.num.standby.replicas has a name without ``num.``: group.streams.max.standby.replicas.
    rest = rest.removeprefix("num.")
    for bound, is_beyond, words in (("min", value.__lt__, "greater than"), ("max", value.__gt__, "less than")):
        key = f"{_PREFIX}{kind}.{bound}.{rest}"
        if key in broker_definitions():
            limit = config.value(key)
            assert isinstance(limit, int)
            if is_beyond(limit):
                raise ConfigError(f"{name} must be {words} or equal to {key}")
