"""Reads settings from server.properties, ``KAFKA_*`` variables, ``--set`` and flags."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.broker.config.definitions import ConfigError, broker_definition, broker_definitions, near
from ottla.broker.config.settings import BrokerConfig

PREFIX = "KAFKA_"
LONG_PREFIX = "KAFKA_CFG_"
"""The prefix of settings in the image bitnami/kafka."""
IMAGE_ONLY = {
    "KAFKA_CREATE_TOPICS",
    "KAFKA_CREATE_TOPICS_SEPARATOR",
    "KAFKA_DEBUG",
    "KAFKA_ENABLE_KRAFT",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_KRAFT_CLUSTER_ID",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_SKIP_KRAFT_STORAGE_INIT",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
}
"""Variables of Kafka's container images that are not settings. ``ottla serve`` handles the variables that create topics."""

FOREIGN_PREFIXES = ("KAFKA_CONFLUENT_", "KAFKA_REST_", "KAFKA_SCHEMA_REGISTRY_", "KAFKA_ZOOKEEPER_")
"""Prefixes of variables for other programs of Kafka's container images, or for older Kafka versions. They are not reported as
misspelt settings."""

MAX_FILE_BYTES = 1 << 20
_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY_END = re.compile(r"(?<!\\)(?:\\\\)*([ \t\f=:])")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_BLANKS = " \t\f"


def read_properties(text: str) -> dict[str, str]:
    """Parse a Java properties file (java.util.Properties.load): ``key=value``, ``key: value`` or ``key value``.

    ``#`` and ``!`` begin a comment. A line that ends in an odd number of backslashes continues in the next line.
    """
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _KEY_END.search(line)
        key = line if end is None else line[: end.start(1)]
        rest = "" if end is None else line[end.start(1) :].lstrip(_BLANKS)
        value = rest[1:].lstrip(_BLANKS) if rest[:1] in ("=", ":") else rest
        values[_unescaped(key)] = _unescaped(value).strip()
    return values


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for raw in _LINE_END.split(text):
        line = raw.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def _unescaped(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        sign = match[1]
        return chr(int(sign[1:], 16)) if len(sign) == 5 else _ESCAPED.get(sign, sign)

    # A character above U+FFFF is written as two escapes, which are joined here.
    return _ESCAPE.sub(plain, text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _check_text(values: Mapping[str, str]) -> None:
    """Raise `ConfigError` for a value with half of a surrogate pair, which UTF-8 cannot encode: an escape of a properties file, or
    bytes of a variable or argument that are not UTF-8. The message omits the value, which may be a password."""
    for name, value in values.items():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{name}: the value is not UTF-8 text") from None


def read_file(path: Path) -> dict[str, str]:
    """Read a properties file. Raises `ConfigError`."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    if len(raw) > MAX_FILE_BYTES or b"\0" in raw:
        raise ConfigError(f"cannot read {path}: it is not a properties file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        # java.util.Properties reads Latin-1.
        text = raw.decode("latin-1")
    values = read_properties(text)
    try:
        _check_text(values)
    except ConfigError as error:
        raise ConfigError(f"cannot read {path}: {error}") from None
    return values


def from_environment(environment: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings in ``KAFKA_*`` variables by the rules of Kafka's image, and the variables that are not settings.

    ``KAFKA_CFG_`` takes precedence over ``KAFKA_``, as in bitnami/kafka.
    """
    values: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in sorted(environment.items(), key=lambda variable: variable[0].startswith(LONG_PREFIX)):
        if not name.startswith(PREFIX) or name in IMAGE_ONLY:
            continue
        key = name.removeprefix(_prefix(name)).lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")
        if broker_definition(key) is not None:
            values[key] = value
        else:
            ignored.append(name)
    return values, ignored


def _prefix(name: str) -> str:
    return LONG_PREFIX if name.startswith(LONG_PREFIX) else PREFIX


def variable_near(name: str) -> str | None:
    """The ``KAFKA_*`` variable of a known setting that is closest to a misspelt variable, if any."""
    if name.startswith(FOREIGN_PREFIXES):
        return None
    prefix = _prefix(name)
    key = near(name.removeprefix(prefix).lower().replace("_", "."), broker_definitions())
    return None if key is None else prefix + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def load(
    properties: Path | None, environment: Mapping[str, str], assignments: list[str], extra: Mapping[str, str]
) -> tuple[BrokerConfig, list[str]]:
    """Read the properties file, then variables, then ``--set``, then flags; a later source overrides an earlier one.

    Also returns the ``KAFKA_*`` variables that are not settings. Raises `ConfigError`.
    """
    given: dict[str, str] = {} if properties is None else read_file(properties)
    from_env, ignored = from_environment(environment)
    given.update(from_env)
    for assignment in assignments:
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {assignment!r} is not KEY=VALUE")
        given[key.strip()] = value.strip()
    # `extra` may have a path, which need not be UTF-8.
    _check_text(given)
    given.update(extra)
    return BrokerConfig(given), ignored
