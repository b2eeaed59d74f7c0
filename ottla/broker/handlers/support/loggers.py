"""Log levels as configs of the resource BROKER_LOGGER (KIP-412). Changes last until the next start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.config.live_config import LiveConfig
from ottla.broker.handlers.support.configs import DYNAMIC_LOGGER, UNKNOWN_TYPE, ConfigEntry
from ottla.broker.loop.logs import LEVELS, LOGGERS, ROOT, LogLevels
from ottla.protocol.errors import Code, KafkaError

SET, DELETE, APPEND, SUBTRACT = range(4)
VERBS = {APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class Ports(Protocol):
    live_config: LiveConfig
    log_levels: LogLevels


class LevelChange(Protocol):
    name: str
    config_operation: int
    value: str | None


def check_node(ports: Ports, name: str) -> None:
    """Raise INVALID_REQUEST for a resource name that is not this broker's id."""
    node_id = ports.live_config.settings.node_id
    if not (name.isascii() and name.isdigit()):
        raise KafkaError(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if name != str(node_id):
        raise KafkaError(Code.INVALID_REQUEST, f"Unexpected node id. Expected {node_id}, but received {name}")


def logger_entries(ports: Ports, name: str) -> list[ConfigEntry]:
    """The levels of all loggers. Raises INVALID_REQUEST."""
    check_node(ports, name)
    return [
        ConfigEntry(
            name=logger,
            value=ports.log_levels.of(logger),
            type=UNKNOWN_TYPE,
            read_only=False,
            is_sensitive=False,
            scope="",
            documentation="",
            source_alone=DYNAMIC_LOGGER,
        )
        for logger in (*LOGGERS, ROOT)
    ]


def alter_loggers(ports: Ports, name: str, changes: Sequence[LevelChange], *, validate_only: bool) -> None:
    """Change the levels of loggers. If one change is invalid, none is made. Raises `KafkaError`.

    Kafka has the same checks in ConfigAdminManager.validateLogLevelConfigs.
    """
    check_node(ports, name)
    for change in changes:
        _check(change.name, change.config_operation, change.value)
    if not validate_only:
        for change in changes:
            ports.log_levels.set(change.name, None if change.config_operation == DELETE else change.value)


def _check(logger: str, operation: int, level: str | None) -> None:
    if operation not in (SET, DELETE):
        if operation not in VERBS:
            raise KafkaError(Code.INVALID_REQUEST, f"Unknown operations type {operation}")
        raise KafkaError(Code.INVALID_REQUEST, f"{VERBS[operation]} operation is not allowed for the BROKER_LOGGER resource")
    if logger != ROOT and logger not in LOGGERS:
        raise KafkaError(Code.INVALID_CONFIG, f"Logger {logger} does not exist!")
    if operation == DELETE:
        if logger == ROOT:
            raise KafkaError(Code.INVALID_REQUEST, "Removing the log level of the root logger is not allowed")
    elif level not in LEVELS:
        reason = f"it is not a supported log level. Valid log levels are {', '.join(sorted(LEVELS))}"
        raise KafkaError(Code.INVALID_CONFIG, f"Cannot set the log level of {logger} to {level} as {reason}")
