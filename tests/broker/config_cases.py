"""Config changes and Apache Kafka's responses: test_configs.py compares ottla with them, and tests/wire compares Apache Kafka."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.errors import Code
from ottla.protocol.messages import alter_configs, incremental_alter_configs
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult
from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

SET, DELETE, APPEND, SUBTRACT = range(4)
T, B = TOPIC_RESOURCE, BROKER_RESOURCE
POLICY, BROKER_POLICY = "cleanup.policy", "log.cleanup.policy"

STARTED_WITH = {
    "advertised.listeners",
    "controller.quorum.bootstrap.servers",
    "inter.broker.listener.name",
    "listeners",
    "log.dirs",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.replication.factor",
}
"""Settings of the tests' Apache Kafka broker only. The expected descriptions of configs omit them."""

Operation = tuple[str, int, str | None]
Asked = tuple[Operation, ...]


@dataclass(slots=True, kw_only=True)
class Case:
    """Config changes of a resource that has no configs yet: all but the last succeed, and ``values`` are described afterwards.

    ``kind`` T is a new topic. ``kind`` B is the broker with the id ``name``, or the default of all brokers if ``name`` is empty.
    """

    what: str
    kind: int
    name: str = ""
    asked: tuple[Asked, ...]
    code: Code = Code.NONE
    says: str | None = None
    values: dict[str, str | None]
    validate_only: bool = False
    legacy: bool = False


def one(name: str, operation: int, value: str | None) -> Asked:
    return ((name, operation, value),)


def _policies(kind: int, name: str, key: str, refusal: Code) -> list[Case]:
    def case(what: str, *asked: Asked, code: Code = Code.NONE, says: str | None = None, value: str) -> Case:
        return Case(what=what, kind=kind, name=name, asked=asked, code=code, says=says, values={key: value})

    return [
        case("append knows the default", one(key, APPEND, "compact"), value="delete,compact"),
        case("append what is there", one(key, SET, "compact"), one(key, APPEND, "compact"), value="compact"),
        case("append, then subtract", one(key, APPEND, "compact"), one(key, SUBTRACT, "compact"), value="delete"),
        case("subtract knows the default", one(key, SUBTRACT, "delete"), value=""),
        case("subtract what is not there", one(key, SUBTRACT, "compact"), value="delete"),
        case("a list that may be empty", one(key, SET, ""), value=""),
        case(
            "an element twice",
            one(key, SET, "delete,delete"),
            # Apache Kafka 4.3.1 accepted a list with a duplicate element for brokers too.
            code=Code.NONE if kind == T else Code.INVALID_REQUEST,
            says=None if kind == T else f"Configuration '{key}' values must not be duplicated.",
            value="delete",
        ),
        case("spaces", one(key, SET, " compact , delete "), value="compact,delete"),
        case(
            "append nothing",
            one(key, APPEND, ""),
            code=refusal,
            says=f"Configuration '{key}' values must not be empty.",
            value="delete",
        ),
        case(
            "append what is not allowed",
            one(key, APPEND, "forget"),
            code=refusal,
            says=f"Invalid value forget for configuration {key}: String must be one of: compact, delete",
            value="delete",
        ),
        case("append null", one(key, APPEND, None), code=Code.INVALID_REQUEST, value="delete"),
        case("delete", one(key, SET, "compact"), one(key, DELETE, None), value="delete"),
    ]


def _topic(
    what: str,
    *asked: Asked,
    code: Code = Code.NONE,
    says: str | None = None,
    validate_only: bool = False,
    legacy: bool = False,
    **values: str | None,
) -> Case:
    return Case(
        what=what,
        kind=T,
        asked=asked,
        code=code,
        says=says,
        values={key.replace("_", "."): value for key, value in values.items()},
        validate_only=validate_only,
        legacy=legacy,
    )


def _broker(name: str, what: str, *asked: Asked, code: Code = Code.NONE, says: str | None = None, **values: str | None) -> Case:
    shown = {key.replace("_", "."): value for key, value in values.items()}
    return Case(what=what, kind=B, name=name, asked=asked, code=code, says=says, values=shown)


TWICE = (("retention.ms", SET, "4"), ("retention.ms", DELETE, None))
RETENTION = "604800000"
INVALID, REFUSED = Code.INVALID_CONFIG, Code.INVALID_REQUEST

TOPIC_CASES = [
    *_policies(T, "", POLICY, INVALID),
    _topic("a key twice", TWICE, code=REFUSED, says="Error due to duplicate config keys", retention_ms=RETENTION),
    _topic("not a number", one("retention.ms", SET, "x"), code=INVALID, says="Not a number of type LONG", retention_ms=RETENTION),
    _topic("digits with a line", one("retention.ms", SET, "5_0"), code=INVALID, retention_ms=RETENTION),
    _topic("too low", one("retention.ms", SET, "-2"), code=INVALID, says="Value must be at least -1", retention_ms=RETENTION),
    _topic("as Java reads it", one("retention.ms", SET, " +5000 "), retention_ms="5000"),
    _topic("a truth", one("preallocate", SET, "TRUE"), preallocate="true"),
    _topic("no truth", one("preallocate", SET, "yes"), code=INVALID, says="either true or false", preallocate="false"),
    _topic("a fraction", one("min.cleanable.dirty.ratio", SET, ".30"), min_cleanable_dirty_ratio="0.3"),
    _topic("more than all", one("min.cleanable.dirty.ratio", SET, "1.5"), code=INVALID, min_cleanable_dirty_ratio="0.5"),
    _topic("a small segment", one("segment.bytes", SET, "100"), code=INVALID, says="at least 1048576", segment_bytes="1073741824"),
    _topic("a small segment for tests", one("internal.segment.bytes", SET, "100"), internal_segment_bytes="100"),
    _topic("nothing internal", one("retention.ms", SET, "5"), internal_segment_bytes=None),
    _topic("a level", one("compression.gzip.level", SET, "0"), code=INVALID, says="between 1 and 9", compression_gzip_level="-1"),
    _topic("tiers", one("remote.storage.enable", SET, "true"), code=INVALID, remote_storage_enable="false"),
    _topic(
        "lags across",
        (("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "50")),
        code=INVALID,
        says="conflict topic config setting min.compaction.lag.ms (100) > max.compaction.lag.ms (50)",
        min_compaction_lag_ms="0",
    ),
    _topic(
        "lags across in two requests",
        one("max.compaction.lag.ms", SET, "50"),
        one("min.compaction.lag.ms", SET, "100"),
        code=INVALID,
        max_compaction_lag_ms="50",
        min_compaction_lag_ms="0",
    ),
    _topic(
        "one of two is wrong",
        (("max.message.bytes", SET, "4"), ("retention.ms", SET, "-9")),
        code=INVALID,
        max_message_bytes="1048588",
    ),
    _topic("throttled", one("leader.replication.throttled.replicas", SET, "x"), code=INVALID, says="the literal '*'"),
    _topic("throttled by one", one("leader.replication.throttled.replicas", APPEND, "0:1")),
    _topic("no list", one("retention.ms", APPEND, "1"), code=INVALID, says="Can't APPEND to key retention.ms"),
    _topic("unknown", one("no.such", SET, "1"), code=INVALID, says="Unknown topic config name: no.such"),
    _topic("unknown, taken back", one("no.such", DELETE, None)),
    _topic("no value", one("retention.ms", SET, None), code=REFUSED, says="Null value not supported for : retention.ms"),
    _topic("only asked", one("retention.ms", SET, "5"), validate_only=True, retention_ms=RETENTION),
    _topic("only asked, and wrong", one("retention.ms", SET, "x"), code=INVALID, validate_only=True, retention_ms=RETENTION),
    _topic("all anew", one("retention.ms", SET, "5"), one(POLICY, SET, "compact"), legacy=True, retention_ms=RETENTION),
    _topic("all anew, a key twice", TWICE, code=REFUSED, legacy=True, retention_ms=RETENTION),
    _topic("all anew, wrong", one("retention.ms", SET, "-5"), code=INVALID, legacy=True, retention_ms=RETENTION),
    _topic("all anew, an empty list", one(POLICY, SET, ""), legacy=True, cleanup_policy=""),
    _topic("all anew, no value", one("retention.ms", SET, None), code=REFUSED, legacy=True, retention_ms=RETENTION),
    _topic("all anew, only asked", one("retention.ms", SET, "5"), legacy=True, validate_only=True, retention_ms=RETENTION),
]

MOST = "2147483647"
RATE, PER_IP = "max.connection.creation.rate", "max.connections.per.ip"
OF_LISTENER = "listener.name.plaintext.max.connections"


def broker_cases(name: str) -> list[Case]:
    """Return the cases for one broker, or for the default of all brokers if ``name`` (a broker id) is empty."""
    single = "Cannot update these configs at default cluster level, broker id must be specified"
    keystore = "listener.name.plaintext.ssl.keystore.location"
    return [
        *_policies(B, name, BROKER_POLICY, REFUSED),
        _broker(name, "a limit", one("max.connections", SET, "1000"), max_connections="1000"),
        _broker(name, "no connections", one("max.connections", SET, "0"), code=REFUSED, says="Invalid max.connections 0"),
        _broker(name, "a negative limit", one("max.connections", SET, "-1"), code=REFUSED, says="Value must be at least 0"),
        _broker(name, "no connections a second", one(RATE, SET, "0"), code=REFUSED, says=f"Invalid {RATE} 0"),
        _broker(name, "no connections by address", one(PER_IP, SET, "0"), code=REFUSED, says="can be set to zero only if"),
        _broker(
            name,
            "only some addresses",
            ((f"{PER_IP}.overrides", SET, "1.2.3.4:9"), (PER_IP, SET, "0")),
            max_connections_per_ip="0",
        ),
        _broker(name, "no connections of a listener", one(OF_LISTENER, SET, "0"), code=REFUSED, says="Invalid max.connections 0"),
        _broker(name, "connections of a listener", one(OF_LISTENER, SET, "1000")),
        _broker(name, "too low", one("message.max.bytes", SET, "-5"), code=REFUSED, says="Value must be at least 0"),
        _broker(name, "not a number", one("message.max.bytes", SET, "x"), code=REFUSED, message_max_bytes="1048588"),
        _broker(name, "no retention", one("log.retention.ms", SET, "0"), code=REFUSED, says="must be unlimited (-1)"),
        _broker(
            name,
            "read at the start",
            one("num.partitions", SET, "3"),
            code=REFUSED,
            says="Cannot update these configs dynamically: [num.partitions]",
            num_partitions="1",
        ),
        _broker(name, "the directory", one("log.dirs", SET, "/x"), code=REFUSED),
        _broker(name, "where it listens", one("advertised.listeners", SET, "PLAINTEXT://x:1"), code=REFUSED),
        _broker(name, "listeners", one("listeners", APPEND, "X://:1"), code=REFUSED),
        _broker(name, "a limit by address", one("max.connections.per.ip.overrides", SET, "nonsense"), code=REFUSED),
        _broker(name, "no such operation", one("max.connections", 9, "5"), code=REFUSED, says="Unknown operations type 9"),
        _broker(name, "no threads", one("num.io.threads", SET, "0"), code=REFUSED, says="Value must be at least 1"),
        _broker(name, "unknown", one("no.such", SET, "3"), no_such=None),
        _broker(name, "unknown, taken back", one("no.such", DELETE, None)),
        _broker(name, "unknown list", one("no.such", APPEND, "3"), code=INVALID),
        _broker(name, "no list", one("log.retention.ms", APPEND, "3"), code=INVALID),
        _broker(name, "no value", one("message.max.bytes", SET, None), code=REFUSED, says="Null value not supported for : "),
        _broker(
            name, "of a listener", one(keystore, SET, "/x"), code=Code.NONE if name else REFUSED, says=None if name else single
        ),
    ]


CASES = [*TOPIC_CASES, *broker_cases(""), *broker_cases("1")]


def case_id(case: Case) -> str:
    whose = "topic" if case.kind == T else f"broker {case.name}".strip()
    return f"{whose}: {'legacy ' if case.legacy else ''}{case.what}"


def request(case: Case, name: str, asked: Asked, validate_only: bool) -> AlterConfigsRequest | IncrementalAlterConfigsRequest:
    if case.legacy:
        configs = [alter_configs.AlterableConfig(name=key, value=value) for key, _, value in asked]
        return AlterConfigsRequest(
            resources=[alter_configs.AlterConfigsResource(resource_type=case.kind, resource_name=name, configs=configs)],
            validate_only=validate_only,
        )
    operations = [
        incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in asked
    ]
    return IncrementalAlterConfigsRequest(
        resources=[incremental_alter_configs.AlterConfigsResource(resource_type=case.kind, resource_name=name, configs=operations)],
        validate_only=validate_only,
    )


def describe(kind: int, name: str, keys: list[str] | None = None, *, documented: bool = False) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)],
        include_synonyms=True,
        include_documentation=documented,
    )


def shown(entry: DescribeConfigsResourceResult) -> str:
    """Return a config as one line, without the fields that differ between installations of Apache Kafka."""
    flags = ("read-only " if entry.read_only else "") + ("sensitive " if entry.is_sensitive else "")
    synonyms = " ".join(f"{s.source}:{s.name}={s.value}" for s in entry.synonyms)
    return f"{entry.name} = {entry.value} | source {entry.config_source} type {entry.config_type} {flags}| {synonyms}".rstrip()
