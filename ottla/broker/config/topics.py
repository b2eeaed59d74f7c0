"""The effective configs of a topic: its own values, else the values of the corresponding broker configs, else Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config.definitions import SMALLEST_SEGMENT_BYTES, ConfigError, Value, suggestion, topic_definitions
from ottla.broker.config.settings import BrokerConfig
from ottla.storage.config import LogConfig

_MS_PER = {"hours": 3_600_000, "minutes": 60_000}

INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
"""Kafka's own tests use this config for segments below 1 MiB. It overrides ``segment.bytes`` (LogConfig.segmentSize)."""


def validate(name: str, text: str) -> Value:
    """The typed value of a topic config. Raises `ConfigError` as LogConfig.validate does."""
    known = topic_definitions()
    if name not in known:
        raise ConfigError(f"Unknown topic config name: {name}{suggestion(name, known)}")
    return known[name].check(text)


def validate_all(overrides: Mapping[str, str], config: BrokerConfig) -> None:
    """Check the complete new configs of a topic, each and in combination (LogConfig.validate). Raises `ConfigError`."""
    values = {name: validate(name, text) for name, text in overrides.items()}
    if values.get("remote.storage.enable"):
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage."
        )
    known = topic_definitions()
    low, high = (
        known[name].parse(effective(name, overrides, config) or "0") for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    assert isinstance(low, int)
    assert isinstance(high, int)
    if low > high:
        raise ConfigError(f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})")


def broker_fallback(name: str, config: BrokerConfig) -> tuple[str, str] | None:
    """Return the broker config that is the default of an unset topic config, and its value in the topic config's unit."""
    for synonym in topic_definitions()[name].synonyms:
        text = config.text(synonym)
        if text is None:
            continue
        factor = _MS_PER.get(synonym.rpartition(".")[2]) if name.endswith(".ms") else None
        return synonym, str(int(text) * factor) if factor else text
    return None


def effective(name: str, overrides: Mapping[str, str], config: BrokerConfig) -> str | None:
    """The current value of a topic config, as text."""
    if name in overrides:
        return overrides[name]
    fallback = broker_fallback(name, config)
    return fallback[1] if fallback is not None else topic_definitions()[name].default


def log_config(overrides: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    known = topic_definitions()
    values: dict[str, Value] = {}
    for field in LogConfig.__struct_fields__:
        name = field.replace("_", ".")
        values[field] = known[name].parse(effective(name, overrides, config) or "")
    if INTERNAL_SEGMENT_BYTES in overrides:
        segment_bytes = known[INTERNAL_SEGMENT_BYTES].parse(overrides[INTERNAL_SEGMENT_BYTES])
        values["segment_bytes"] = max(SMALLEST_SEGMENT_BYTES, int(str(segment_bytes)))
    return LogConfig(**values)  # type: ignore[arg-type]
