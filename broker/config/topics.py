"""What a topic is set to: its own configs, else the broker's synonyms, else the default."""

from __future__ import annotations

from collections.abc import Mapping

from broker.config.definitions import ConfigError, Value, topic_definitions, unknown
from broker.config.settings import BrokerConfig
from storage.config import LogConfig

_MS_PER = {"hours": 3_600_000, "minutes": 60_000}

_CHOICES = {
    "cleanup.policy": {"delete", "compact"},
    "compression.type": {"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"},
    "message.timestamp.type": {"CreateTime", "LogAppendTime"},
}
_AT_LEAST = {
    "segment.bytes": 14,
    "segment.ms": 1,
    "segment.index.bytes": 4,
    "retention.ms": -1,
    "retention.bytes": -(1 << 63),
    "max.message.bytes": 0,
    "index.interval.bytes": 0,
    "file.delete.delay.ms": 0,
    "min.insync.replicas": 1,
    "delete.retention.ms": 0,
    "min.compaction.lag.ms": 0,
    "max.compaction.lag.ms": 1,
    "flush.messages": 1,
    "flush.ms": 0,
    "message.timestamp.before.max.ms": 0,
    "message.timestamp.after.max.ms": 0,
}


def validate(name: str, text: str) -> Value:
    """The typed value of a topic config. Raises `ConfigError` as LogConfig.validate does."""
    known = topic_definitions()
    if name not in known:
        raise unknown(name, known)
    value = known[name].parse(text)
    choices = _CHOICES.get(name)
    if choices is not None:
        parts = value if isinstance(value, tuple) else (value,)
        bad = [p for p in parts if p not in choices]
        if bad:
            raise ConfigError(f"{name}: {bad[0]!r} is not one of {', '.join(sorted(choices))}")
    if name == "min.cleanable.dirty.ratio" and not (isinstance(value, float) and 0 <= value <= 1):
        raise ConfigError(f"{name}: {text} is not between 0 and 1")
    if name in _AT_LEAST and isinstance(value, int) and value < _AT_LEAST[name]:
        raise ConfigError(f"{name}: {value} is less than {_AT_LEAST[name]}")
    return value


def broker_fallback(name: str, config: BrokerConfig) -> tuple[str, str] | None:
    """Broker key and value (in the topic's unit) that stand in for an unset topic key."""
    for synonym in topic_definitions()[name].synonyms:
        text = config.text(synonym)
        if text is None:
            continue
        factor = _MS_PER.get(synonym.rpartition(".")[2]) if name.endswith(".ms") else None
        return synonym, str(int(text) * factor) if factor else text
    return None


def effective(name: str, overrides: Mapping[str, str], config: BrokerConfig) -> str:
    """The text of a topic config in force."""
    if name in overrides:
        return overrides[name]
    fallback = broker_fallback(name, config)
    return fallback[1] if fallback is not None else topic_definitions()[name].default or ""


def log_config(overrides: Mapping[str, str], config: BrokerConfig) -> LogConfig:
    known = topic_definitions()
    values: dict[str, Value] = {}
    for field in LogConfig.__struct_fields__:
        name = field.replace("_", ".")
        values[field] = known[name].parse(effective(name, overrides, config))
    return LogConfig(**values)  # type: ignore[arg-type]
