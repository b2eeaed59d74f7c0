"""All config names that Apache Kafka knows, with type, default and rule, and the parsing of values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pkgutil import get_data

import msgspec

from ottla.broker.config.rules import broken, shown
from ottla.protocol.config_effects import LISTENER_PREFIX

TOPIC, DYNAMIC, PER_BROKER, INTERNAL = "T", "D", "P", "I"
"""Letters in keys.txt: T for topic keys, D for dynamic broker keys, P for dynamic keys of single brokers, B for other broker keys.
A second letter I marks keys that DescribeConfigs shows only if they are set."""

MECHANISM_PREFIXES = frozenset({"gssapi", "plain", "scram-sha-256", "scram-sha-512", "oauthbearer"})
"""SASL mechanisms that a config key may name after its listener prefix. The key then applies only to that mechanism."""

RELOADABLE = frozenset(
    {
        *(f"ssl.keystore.{part}" for part in ("type", "location", "password", "key", "certificate.chain")),
        *(f"ssl.truststore.{part}" for part in ("type", "location", "password", "certificates")),
        "ssl.key.password",
    }
)
"""Keys that may change while the broker runs, but only with a listener's prefix (SslConfigs.RECONFIGURABLE_CONFIGS)."""


CREATION_RATE = "max.connection.creation.rate"
MAX_CONNECTIONS = "max.connections"
LISTENER_LIMITS = (MAX_CONNECTIONS, CREATION_RATE)
"""Keys whose values may change while the broker runs, also with the prefix of a listener. A client cannot set them to 0
(SocketServer.validateReconfiguration)."""
CLUSTER_LISTENER_KEYS = frozenset({*LISTENER_LIMITS, "num.network.threads"})
"""Keys that may have a listener's prefix in the configs of all brokers (DynamicBrokerConfig.ClusterLevelListenerConfigs)."""


def reloadable_of(listener: str) -> frozenset[str]:
    """The keys of `RELOADABLE` with the prefix of one listener."""
    return frozenset(f"{LISTENER_PREFIX}{listener.lower()}.{name}" for name in RELOADABLE)


Value = bool | int | float | str | tuple[str, ...] | None


class ConfigError(Exception):
    """A setting that cannot be used. The message is one line for a person."""


class Definition(msgspec.Struct, frozen=True):
    """One config key (ConfigDef.ConfigKey).

    ``synonyms``: the broker keys that are the default of a topic key, or the older names and coarser units of a broker key; the
    first that is set wins. ``rule``: the allowed values, see `broker.config.rules`. ``is_dynamic``: a broker key that may change
    while the broker runs (DynamicBrokerConfig.ALL_DYNAMIC_CONFIGS). ``is_per_broker``: a dynamic key that may be set only for one
    broker by its id. ``is_internal``: DescribeConfigs shows the key only if it is set. ``documentation``: only for keys that are
    not in documentation.txt.
    """

    name: str
    type: str
    default: str | None
    rule: str = "-"
    synonyms: tuple[str, ...] = ()
    is_dynamic: bool = False
    is_per_broker: bool = False
    is_internal: bool = False
    documentation: str | None = None

    def parse(self, text: str) -> Value:
        """Parse a text into a value of the key's type, without repeated and empty elements of a list. Raises `ConfigError`."""
        text = text.strip()
        value = _READERS[self.type](text)
        if value is None:
            raise ConfigError(f"Invalid value {text} for configuration {self.name}: {_WANTED[self.type]}")
        return value

    def check(self, text: str) -> Value:
        """Parse a text into a value of the key's type, and check the key's rule. Raises `ConfigError` with the message of ConfigDef
        and its validators."""
        value = self.parse(text)
        if self.type == "LIST" and self.rule != "-" and text.strip() and not all(part.strip() for part in text.split(",")):
            raise ConfigError(f"Configuration '{self.name}' values must not be empty.")
        if value == () and self.rule.endswith("!"):
            raise ConfigError(f"Configuration '{self.name}' must not be empty.")
        reason = broken(self.rule, self.name, value)
        if reason is not None:
            raise ConfigError(f"Invalid value {shown(self.rule, text.strip(), value)} for configuration {self.name}: {reason}")
        return value

    def repeats(self, text: str) -> bool:
        """Whether the value is a list with a repeated element."""
        if self.type != "LIST" or self.rule == "-":
            return False
        parts = [part.strip() for part in text.split(",") if part.strip()]
        return len(set(parts)) < len(parts)

    def canonical(self, text: str) -> str:
        """Parse a value and return the text by which Kafka shows it (ConfigDef.convertToString). Raises `ConfigError`."""
        value = self.parse(text)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, float):
            return _java_double(value)
        return ",".join(value) if isinstance(value, tuple) else str(value)


OWN = (
    Definition(
        name="ottla.console",
        type="BOOLEAN",
        default="false",
        documentation="Whether to serve the web console on the control port.",
    ),
    Definition(
        name="ottla.console.read.only",
        type="BOOLEAN",
        default="false",
        documentation="Whether the web console refuses to change anything. Its token then does not open the control API.",
    ),
    Definition(
        name="ottla.control.host",
        type="STRING",
        default="127.0.0.1",
        documentation="Address of the HTTP control API, by which tests control the broker.",
    ),
    Definition(
        name="ottla.control.port",
        type="INT",
        default=None,
        rule="0..65535",
        documentation="Port of the HTTP control API; 0 chooses a free port. Without a value the API is disabled.",
    ),
    Definition(
        name="ottla.control.token",
        type="PASSWORD",
        default=None,
        documentation="Token that clients of the control API send. Without a value the broker generates and prints a token.",
    ),
    Definition(
        name="ottla.durability",
        type="STRING",
        default="process",
        rule="{process|power}",
        documentation="Failures that acknowledged records survive: with process a killed broker, with power also a power cut.",
    ),
    Definition(
        name="ottla.fetch.session.max.partitions",
        type="INT",
        default="200000",
        rule="0..",
        documentation="Maximum number of partitions in the fetch sessions of all clients together.",
    ),
    Definition(
        name="ottla.inflating.memory.bytes",
        type="LONG",
        default=str(256 << 20),
        rule="0..",
        documentation="Maximum memory, in bytes, for the decompression of produced batches, of all requests together.",
    ),
    Definition(
        name="ottla.max.open.files",
        type="INT",
        default="20000",
        rule="8..",
        documentation="Maximum number of log files that are kept open; lower if the operating system allows fewer descriptors.",
    ),
    Definition(
        name="ottla.metrics.host",
        type="STRING",
        default="127.0.0.1",
        documentation="The address on which Prometheus metrics are served.",
    ),
    Definition(
        name="ottla.metrics.port",
        type="INT",
        default=None,
        rule="0..65535",
        documentation="Port on which Prometheus metrics are served; 0 chooses a free port. Without a value metrics are disabled.",
    ),
    Definition(
        name="ottla.queued.max.response.bytes",
        type="LONG",
        default=str(256 << 20),
        rule="0..",
        documentation="Maximum bytes of responses that clients have not read yet, of all connections together.",
    ),
    Definition(
        name="ottla.request.inflated.max.bytes",
        type="LONG",
        default=str(1 << 30),
        rule="0..",
        documentation="Maximum decompressed size, in bytes, of all compressed batches of one Produce request; above it, a batch "
        "is refused with MESSAGE_TOO_LARGE.",
    ),
    Definition(
        name="ottla.request.stall.ms",
        type="INT",
        default="5000",
        rule="0..",
        documentation="Time that a connection may have an incomplete request without receiving a byte of it, if memory is short.",
    ),
    Definition(
        name="ottla.response.stall.ms",
        type="INT",
        default="2000",
        rule="0..",
        documentation="Time that a client may read no byte of its waiting responses, if memory is short.",
    ),
    Definition(
        name="ottla.schema.registry.host",
        type="STRING",
        default="127.0.0.1",
        documentation="Address of the schema registry.",
    ),
    Definition(
        name="ottla.schema.registry.port",
        type="INT",
        default=None,
        rule="0..65535",
        documentation="Port of the schema registry; 0 chooses a free port. Without a value the registry is disabled.",
    ),
    Definition(
        name="ottla.schema.registry.token",
        type="PASSWORD",
        default=None,
        documentation=(
            "Token that clients of the schema registry send as their password. Without a value a broker whose clients need"
            " credentials generates and prints a token; other brokers have a registry without a token."
        ),
    ),
)
"""Configs that only ottla has."""

OF_AUTHORIZER = (
    Definition(
        name="allow.everyone.if.no.acl.found",
        type="BOOLEAN",
        default="false",
        is_internal=True,
        documentation="Whether everyone may access resources that no ACL applies to. By default only super users may.",
    ),
    Definition(
        name="super.users",
        type="STRING",
        default="",
        is_internal=True,
        documentation="Principals that may do everything, separated by semicolons, like <code>User:admin;User:CN=ops</code>.",
    ),
)
"""Configs of Kafka's StandardAuthorizer (StandardAuthorizer.configure). They are not in KafkaConfig."""

SMALLEST_SEGMENT_BYTES = 14
"""Minimum ``log.segment.bytes`` in bytes. Kafka's minimum is 1 MiB; tests of retention and compaction need less."""
_OWN_RULES = {"log.segment.bytes": f"{SMALLEST_SEGMENT_BYTES}.."}

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DOUBLE = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _bool(text: str) -> bool | None:
    return {"true": True, "false": False}.get(text.lower())


def _bounded(bits: int) -> Callable[[str], int | None]:
    def read(text: str) -> int | None:
        # Refuse a text of over 100 characters, because Python takes quadratic time to parse a long number.
        value = int(text) if len(text) <= 100 and _INTEGER.fullmatch(text) else None
        return value if value is not None and -(1 << bits - 1) <= value < 1 << bits - 1 else None

    return read


def _double(text: str) -> float | None:
    return float(text) if len(text) <= 100 and _DOUBLE.fullmatch(text) else None


def _java_double(value: float) -> str:
    """A number as Double.toString of Java writes it: 0.5, 1.0E8."""
    if value == 0 or 1e-3 <= abs(value) < 1e7 or value in (math.inf, -math.inf):
        return repr(value)
    digits, _, exponent = f"{Decimal(repr(value)).normalize():E}".partition("E")
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _list(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


_READERS: dict[str, Callable[[str], Value]] = {
    "BOOLEAN": _bool,
    "INT": _bounded(32),
    "SHORT": _bounded(16),
    "LONG": _bounded(64),
    "DOUBLE": _double,
    "LIST": _list,
    "STRING": str,
    "PASSWORD": str,
    "CLASS": str,
}
"""The parsers by type (ConfigDef.parseType). They return None for a text that is not of the type."""

_WANTED = {kind: f"Not a number of type {kind}" for kind in ("INT", "SHORT", "LONG", "DOUBLE")}
_WANTED["BOOLEAN"] = "Expected value to be either true or false"


def lines_of(file: str) -> list[str]:
    """The lines of a file such as keys.txt in this package, without comments."""
    data = get_data("ottla.broker.config", file)
    assert data is not None
    return [line for line in data.decode().splitlines() if not line.startswith("#")]


@cache
def _tables() -> tuple[dict[str, Definition], dict[str, Definition]]:
    broker: dict[str, Definition] = {}
    topic: dict[str, Definition] = {}
    for line in lines_of("keys.txt"):
        scope, name, kind, default, rule, *synonyms = line.split(" ")
        definition = Definition(
            name=name,
            type=kind,
            default={"<null>": None, "<required>": None, "<empty>": ""}.get(default, default),
            rule=rule if scope[0] == TOPIC else _OWN_RULES.get(name, rule),
            synonyms=tuple(synonyms[0].split(",")) if synonyms else (),
            is_dynamic=scope[0] in (DYNAMIC, PER_BROKER),
            is_per_broker=scope[0] == PER_BROKER,
            is_internal=scope.endswith(INTERNAL),
        )
        (topic if scope[0] == TOPIC else broker)[name] = definition
    broker |= {definition.name: definition for definition in (*OWN, *OF_AUTHORIZER)}
    return broker, topic


def broker_definitions() -> dict[str, Definition]:
    return _tables()[0]


@cache
def broker_defaults() -> dict[str, str]:
    """The default values, as text, of the broker keys that have one."""
    return {name: d.default for name, d in broker_definitions().items() if d.default is not None}


def broker_definition(name: str) -> Definition | None:
    """The definition of a broker key, also of a key for one listener (``listener.name.plaintext.ssl.keystore.location``), and for
    one mechanism of a listener (``listener.name.sasl_ssl.plain.sasl.jaas.config``)."""
    known = _tables()[0]
    if not name.startswith(LISTENER_PREFIX):
        return known.get(name)
    name = name.removeprefix(LISTENER_PREFIX).partition(".")[2]
    mechanism, _, of_mechanism = name.partition(".")
    return known.get(of_mechanism) if mechanism in MECHANISM_PREFIXES else known.get(name)


def topic_definitions() -> dict[str, Definition]:
    return _tables()[1]


@cache
def documentation() -> dict[tuple[str, str], str]:
    """The documentation of broker and topic keys, by scope (B or T) and name. Read at first use."""
    texts = {("B", d.name): d.documentation for d in (*OWN, *OF_AUTHORIZER) if d.documentation is not None}
    for line in lines_of("documentation.txt"):
        scope, name, text = line.split("\t", 2)
        texts[scope, name] = text.replace("\\n", "\n")
    return texts


def near(name: str, known: dict[str, Definition]) -> str | None:
    """The known name that is closest to a misspelt name, if any."""
    import difflib

    names = difflib.get_close_matches(name[:200], known, n=1, cutoff=0.6)
    return names[0] if names else None


def suggestion(name: str, known: dict[str, Definition]) -> str:
    """``; did you mean 'x'?``, or an empty string if no known name is similar."""
    meant = near(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def unknown(name: str, known: dict[str, Definition]) -> ConfigError:
    return ConfigError(f"unknown setting {name!r}{suggestion(name, known)}")
