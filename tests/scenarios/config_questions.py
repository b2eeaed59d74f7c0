"""Questions about configs of topics and of the broker, for two brokers to be asked the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ottla.protocol.messages import alter_configs as replacing
from ottla.protocol.messages import incremental_alter_configs as changing
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.list_config_resources import ListConfigResourcesRequest
from tests.scenarios.setting import Questions, Setting

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
KINDS = (0, 1, 3, TOPIC, BROKER, METRICS, 99)


def _resources(setting: Setting) -> list[tuple[str, int, str]]:
    """Resources that exist or not, by label."""
    return [
        ("no such topic", TOPIC, setting.name("none")),
        ("a bad topic", TOPIC, "a b"),
        ("no topic's name", TOPIC, ""),
        ("a topic of dots", TOPIC, ".."),
        ("another broker", BROKER, "77"),
        ("a broker's name", BROKER, "me"),
        ("a broker below 0", BROKER, "-1"),
    ]


SESSION, RESET = "consumer.session.timeout.ms", "share.auto.offset.reset"
KEPT: list[tuple[int, str, str | None]] = [
    *[(GROUP, SESSION, value) for value in ("50000", "1", "x", "60001", "", None)],
    *[(GROUP, "consumer.heartbeat.interval.ms", value) for value in ("6000", "0", "60000")],
    *[(GROUP, RESET, value) for value in ("earliest", "by_duration:PT1H", "by_duration:P1DT0.5S", "by_duration:", "x")],
    *[(GROUP, "share.isolation.level", value) for value in ("read_committed", "x")],
    *[(GROUP, "share.delivery.count.limit", value) for value in ("2", "1", "99")],
    *[(GROUP, "share.record.lock.duration.ms", value) for value in ("15000", "1000")],
    *[(GROUP, "streams.num.standby.replicas", value) for value in ("1", "5", "-1")],
    *[(GROUP, name, "1") for name in ("no.such", "", "interval.ms", "retention.ms")],
    *[(METRICS, "interval.ms", value) for value in ("1000", "99", "3600001", "x", "", None)],
    *[(METRICS, "metrics", value) for value in ("org.apache", "", "*", "a,b")],
    *[
        (METRICS, "match", value)
        for value in ("client_id=x.*", "client_software_name=a,client_source_port=9", "x", "y=z", "client_id=[")
    ],
    *[(METRICS, name, "1") for name in ("no.such", "")],
]
"""Configs of groups and of client metrics, which need not be there: type, key, value."""


def incrementally(setting: Setting, version: int) -> Questions:
    Change = tuple[str, int, str | None]

    def resource(kind: int, name: str, *changes: Change) -> changing.AlterConfigsResource:
        return changing.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[
                changing.AlterableConfig(name=key, config_operation=operation, value=value) for key, operation, value in changes
            ],
        )

    def ask(kind: int, name: str, *changes: Change, validate_only: bool = False) -> changing.IncrementalAlterConfigsRequest:
        return changing.IncrementalAlterConfigsRequest(resources=[resource(kind, name, *changes)], validate_only=validate_only)

    two = setting.name("two")
    good: Change = ("retention.ms", SET, "100000")
    for label, kind, name in _resources(setting):
        yield label, ask(kind, name, good)
        yield f"{label}, nothing to change", ask(kind, name)
        yield f"{label}, appended to a number", ask(kind, name, ("retention.ms", APPEND, "1"))
        yield f"{label}, a bad value", ask(kind, name, ("retention.ms", SET, "x"))
        yield f"{label}, a key twice", ask(kind, name, good, good)
        yield f"{label}, null", ask(kind, name, ("retention.ms", SET, None))
    for kind in (0, 1, 3, METRICS, 99):
        yield f"resource type {kind}", ask(kind, "x", good)
    yield "only validated", ask(TOPIC, two, good, validate_only=True)
    yield "set", ask(TOPIC, two, good)
    yield "again", ask(TOPIC, two, good)
    yield "nothing to change", ask(TOPIC, two)
    yield "no resources", changing.IncrementalAlterConfigsRequest([])
    yield "a topic twice", changing.IncrementalAlterConfigsRequest([resource(TOPIC, two, good), resource(TOPIC, two, good)])
    mixed = [resource(TOPIC, two, good), resource(TOPIC, setting.name("one"), good), resource(TOPIC, two, ("x", SET, "1"))]
    yield "a topic twice, and another", changing.IncrementalAlterConfigsRequest(mixed)
    yield "a key twice", ask(TOPIC, two, good, ("retention.ms", SET, "5"))
    yield "a key twice in two ways", ask(TOPIC, two, good, ("retention.ms", DELETE, None))
    for operation in (SET, DELETE, APPEND, SUBTRACT):
        for key, value in (("retention.ms", None), ("retention.ms", "1"), ("cleanup.policy", "compact"), ("cleanup.policy", None)):
            yield f"operation {operation} of {key}={value}", ask(TOPIC, two, (key, operation, value), validate_only=True)
        yield f"operation {operation} of no such key", ask(TOPIC, two, ("no.such.key", operation, "1"))
        yield f"operation {operation} of no name", ask(TOPIC, two, ("", operation, "1"))
    for key, value in (("retention.ms", "x"), ("retention.ms", ""), ("segment.bytes", "1"), ("cleanup.policy", "none")):
        yield f"{key}={value}", ask(TOPIC, two, (key, SET, value))
    yield "take back", ask(TOPIC, two, ("retention.ms", DELETE, None))
    this = str(setting.node_id)
    for name in ("", this):
        label = "this broker" if name else "all brokers"
        yield f"{label}, set", ask(BROKER, name, ("log.retention.ms", SET, "1000000"), validate_only=True)
        yield f"{label}, a bad value", ask(BROKER, name, ("log.retention.ms", SET, "x"))
        yield f"{label}, read-only", ask(BROKER, name, ("log.dirs", SET, "x"))
        yield f"{label}, null", ask(BROKER, name, ("log.retention.ms", SET, None))
        yield f"{label}, a key twice", ask(BROKER, name, *[("log.retention.ms", SET, "1")] * 2)
        yield f"{label}, appended to a number", ask(BROKER, name, ("log.retention.ms", APPEND, "1"))
        yield f"{label}, take back what was not set", ask(BROKER, name, ("log.retention.ms", DELETE, None))
    for kind, key, value in KEPT:
        name = setting.name(f"kept-{version}")
        for operation in (SET, DELETE, APPEND):
            yield f"type {kind}, operation {operation} of {key}={value}", ask(kind, name, (key, operation, value))
        yield f"type {kind} without a name, {key}={value}", ask(kind, "", (key, SET, value))
        yield f"type {kind}, nothing to change", ask(kind, name)
    for name in ("", this, "77", "x", "-1"):
        for key, operation, value in (
            *[("root", SET, level) for level in ("INFO", "info", "OFF", "FATAL", "TRACE", None)],
            *[("root", operation, "INFO") for operation in (DELETE, APPEND, SUBTRACT)],
            *[("no.such.logger", operation, "INFO") for operation in (SET, DELETE)],
            ("", SET, "INFO"),
        ):
            yield f"loggers of {name!r}, operation {operation} of {key}={value}", ask(LOGGER, name, (key, operation, value))
    yield "loggers, nothing to change", ask(LOGGER, this)
    yield "loggers, one twice", ask(LOGGER, this, *[("root", SET, "INFO")] * 2)
    yield "all brokers, one broker's own", ask(BROKER, "", ("advertised.listeners", SET, "PLAINTEXT://x:1"))


def replaced(setting: Setting, version: int) -> Questions:
    Change = tuple[str, str | None]

    def resource(kind: int, name: str, *configs: Change) -> replacing.AlterConfigsResource:
        return replacing.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[replacing.AlterableConfig(name=key, value=value) for key, value in configs],
        )

    def ask(kind: int, name: str, *configs: Change, validate_only: bool = False) -> replacing.AlterConfigsRequest:
        return replacing.AlterConfigsRequest(resources=[resource(kind, name, *configs)], validate_only=validate_only)

    two = setting.name("two")
    good: Change = ("retention.ms", "100000")
    for label, kind, name in _resources(setting):
        yield label, ask(kind, name, good)
        yield f"{label}, nothing to set", ask(kind, name)
        yield f"{label}, a bad value", ask(kind, name, ("retention.ms", "x"))
        yield f"{label}, a key twice", ask(kind, name, good, good)
        yield f"{label}, null", ask(kind, name, ("retention.ms", None))
    for kind in (0, 1, 3, METRICS, 99):
        yield f"resource type {kind}", ask(kind, "x", good)
    yield "only validated", ask(TOPIC, two, good, validate_only=True)
    yield "set", ask(TOPIC, two, good)
    yield "no resources", replacing.AlterConfigsRequest([])
    yield "a key twice", ask(TOPIC, two, good, ("retention.ms", "5"))
    yield "a key twice, and null", ask(TOPIC, two, good, ("retention.ms", None))
    for key, value in (
        ("retention.ms", None),
        ("retention.ms", "x"),
        ("no.such.key", "1"),
        ("no.such.key", None),
        ("", "1"),
        ("", None),
    ):
        yield f"{key}={value}", ask(TOPIC, two, (key, value))
    yield "two nulls", ask(TOPIC, two, ("retention.ms", None), ("segment.ms", None))
    yield "nothing to set", ask(TOPIC, two)
    this = str(setting.node_id)
    for name in ("", this):
        label = "this broker" if name else "all brokers"
        yield f"{label}, set", ask(BROKER, name, ("log.retention.ms", "1000000"), validate_only=True)
        yield f"{label}, a bad value", ask(BROKER, name, ("log.retention.ms", "x"))
        yield f"{label}, read-only", ask(BROKER, name, ("log.dirs", "x"))
        yield f"{label}, null", ask(BROKER, name, ("log.retention.ms", None))
        yield f"{label}, a key twice", ask(BROKER, name, *[("log.retention.ms", "1")] * 2)

    for kind, key, value in KEPT:
        yield f"type {kind}, {key}={value}", ask(kind, setting.name(f"kept-{version}"), (key, value))
        yield f"type {kind} without a name, {key}={value}", ask(kind, "", (key, value))


def described(setting: Setting, version: int) -> Questions:
    def ask(kind: int, name: str, keys: list[str] | None = None, **options: bool) -> DescribeConfigsRequest:
        return DescribeConfigsRequest(
            [DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)], **options
        )

    two, key = setting.name("two"), ["retention.ms"]
    for label, kind, name in _resources(setting):
        yield label, ask(kind, name, key)
    for kind in (0, 1, 3, 99):
        yield f"resource type {kind}", ask(kind, "x", key)
    for kind in (GROUP, METRICS):
        for name in ("", setting.name("none"), "a b/"):
            yield f"resource type {kind}, {name!r}", ask(kind, name, [SESSION, "interval.ms"])
    for name in ("", str(setting.node_id), "77", "x"):
        yield f"loggers of {name!r}", ask(LOGGER, name)
    for label, keys in (("every key", None), ("no keys", []), ("a key", key), ("a key twice", key * 2), ("no such key", ["x"])):
        yield label, ask(TOPIC, two, keys)
    yield "synonyms", ask(TOPIC, two, ["segment.ms", "cleanup.policy"], include_synonyms=True)
    yield "documentation", ask(TOPIC, two, key, include_documentation=True)
    yield (
        "a topic twice",
        DescribeConfigsRequest([DescribeConfigsResource(resource_type=TOPIC, resource_name=two, configuration_keys=key)] * 2),
    )
    yield "no resources", DescribeConfigsRequest([])
    this = str(setting.node_id)
    for name in ("", this):
        for keys in (["log.retention.ms"], ["message.max.bytes", "x"], ["retention.ms"]):
            yield f"broker {name and 'this'}, {keys}", ask(BROKER, name, keys, include_synonyms=True)


def _shows(config: changing.AlterableConfig, answer: Any) -> bool:
    return any(shown.name == config.name and shown.value == config.value for shown in answer.results[0].configs)


def listed(setting: Setting, version: int) -> Questions:
    kept = changing.AlterableConfig(name=SESSION, config_operation=SET, value="46000")
    asked = changing.AlterableConfig(name="interval.ms", config_operation=SET, value="1000")
    for kind, config in ((GROUP, kept), (METRICS, asked)):
        resource = changing.AlterConfigsResource(resource_type=kind, resource_name=setting.name("listed"), configs=[config])
        question = DescribeConfigsRequest([DescribeConfigsResource(resource_type=kind, resource_name=setting.name("listed"))])
        setting.change(changing.IncrementalAlterConfigsRequest([resource]), 1, question, partial(_shows, config))
    types = ([LOGGER], [BROKER], [GROUP], [METRICS], [GROUP, METRICS], [0], [1], [99], [BROKER, BROKER]) if version else ([],)
    for wanted in types:
        yield f"types {wanted}", ListConfigResourcesRequest(wanted)


CONFIG_QUESTIONS: dict[str, Callable[[Setting, int], Questions]] = {
    "IncrementalAlterConfigs": incrementally,
    "AlterConfigs": replaced,
    "DescribeConfigs": described,
    "ListConfigResources": listed,
}
