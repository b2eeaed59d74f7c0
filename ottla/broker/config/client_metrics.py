"""Client metrics subscriptions (KIP-714): stored and shown. ottla never requests metrics from clients."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.broker.config.definitions import ConfigError, Definition
from ottla.coordinator.expressions import InvalidExpression, check_expression
from ottla.protocol.errors import Code, KafkaError

INTERVAL, MATCH, METRICS = "interval.ms", "match", "metrics"
MIN_INTERVAL_MS, MAX_INTERVAL_MS = 100, 3_600_000
MAX_VALUE_CHARACTERS = 5_000
MAX_PATTERNS = 6
"""Maximum number of patterns in a client metrics subscription: one for each client property. Of two patterns for a property, Kafka
uses the last."""
MAX_PATTERN_CHARACTERS = 400
"""Maximum length of a pattern in characters. A limit is needed because checking a pattern blocks the event loop."""

CLIENT_METRICS_DEFINITIONS = {
    definition.name: definition
    for definition in (
        Definition(name=INTERVAL, type="INT", default="300000", documentation="Metrics push interval in milliseconds"),
        Definition(name=MATCH, type="LIST", default="", documentation="Client match criteria"),
        Definition(name=METRICS, type="LIST", default="", documentation="Telemetry metric name prefix list"),
    )
}
_CHOSEN_BY = {
    "client_id",
    "client_instance_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
}


def validate_client_metrics(own: Mapping[str, str]) -> None:
    """Check the configs of a client metrics subscription. Raises INVALID_REQUEST or INVALID_CONFIG as ClientMetricsConfigs.validate
    does."""
    for name, text in own.items():
        definition = CLIENT_METRICS_DEFINITIONS.get(name)
        if definition is None:
            raise KafkaError(Code.INVALID_REQUEST, f"Unknown client metrics configuration: {name}")
        if len(text) > MAX_VALUE_CHARACTERS:
            raise KafkaError(Code.INVALID_CONFIG, f"{name} has {len(text)} characters; at most {MAX_VALUE_CHARACTERS} are allowed")
        try:
            value = definition.check(text)
        except ConfigError as error:
            raise KafkaError(Code.INVALID_CONFIG, str(error)) from None
        if isinstance(value, int) and not MIN_INTERVAL_MS <= value <= MAX_INTERVAL_MS:
            reason = f"interval must be between {MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} (1 hour)"
            raise KafkaError(Code.INVALID_REQUEST, f"Invalid value {text} for {INTERVAL}, {reason}")
        if name == MATCH and isinstance(value, tuple):
            if len(value) > MAX_PATTERNS:
                raise KafkaError(
                    Code.INVALID_CONFIG,
                    f"a subscription has {len(value)} client matching patterns; at most {MAX_PATTERNS} are allowed",
                )
            for pattern in value:
                _check_pattern(pattern)


def _check_pattern(pattern: str) -> None:
    """Check a pattern, such as ``client_id=REGULAR EXPRESSION``. Raises INVALID_CONFIG.

    Kafka uses Java's regular expressions. ottla uses RE2, which is never slow, but lacks look-around, for example.
    """
    name, is_given, expression = pattern.partition("=")
    if is_given and name.strip() in _CHOSEN_BY and len(pattern) <= MAX_PATTERN_CHARACTERS:
        try:
            return check_expression(expression.strip())
        except InvalidExpression:
            pass
    raise KafkaError(Code.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")
