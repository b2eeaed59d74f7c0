"""Writes broker/config/keys.txt, group_keys.txt and documentation.txt from the config definitions inside Apache Kafka's jars.

Run ``python -m tools.import_configs`` when ottla follows a new version of Kafka. The classes run in a JVM that py4j controls.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tools import kafka

FOLDER = Path(__file__).parent.parent / "ottla" / "broker" / "config"
KEYS_HEAD = (
    f"# From Apache Kafka {kafka.KAFKA_VERSION}'s config definitions by tools/import_configs.py. Of each line:\n"
    "# scope name type default rule [synonyms]\n"
    "# Scope: B broker; D broker, may be set while it runs; P the same, for one broker only; T topic. I beside it: internal.\n"
    "# Rule: low..high; {a|b} one of; ci{a|b} one of, in any case; [a|b] a list of these, [] of anything, with ! not empty;\n"
    "# ! a text that is not empty; others by name.\n"
)
DOCUMENTATION_HEAD = (
    f"# What Apache Kafka {kafka.KAFKA_VERSION} says of its configs, by tools/import_configs.py. The texts are the Apache Kafka\n"
    "# authors' (Copyright The Apache Software Foundation, Apache License 2.0). A line: B or T, name, text.\n"
)
GROUP_KEYS_HEAD = (
    f"# The configs of groups in Apache Kafka {kafka.KAFKA_VERSION}, by tools/import_configs.py. The texts are\n"
    "# the Apache Kafka authors' (Copyright The Apache Software Foundation, Apache License 2.0). A line: name, type,\n"
    "# default, rule as in keys.txt, I for internal, the broker's key that stands in for it, text.\n"
)


def _rule(jvm: Any, name: str, validator: Any) -> str:
    if validator is None:
        return "-"
    kind = validator.getClass().getName().rpartition(".")[2].rpartition("$")[2]
    text = validator.toString()
    inside = text.partition("[")[2].rstrip("]").replace(", ", "|")
    if kind == "Range":
        # A Range validator is printed as [1,...] or [1,...,9].
        low, _, high = inside.partition(",...")
        return f"{low}..{high.lstrip(',')}"
    if kind == "ValidList":
        try:
            validator.ensureValid(name, jvm.java.util.Collections.emptyList())
        except Py4JJavaError:
            return f"[{inside}]!"
        return f"[{inside}]"
    if kind == "ValidString":
        return f"{{{inside}}}"
    if kind == "CaseInsensitiveValidString":
        return f"ci{{{inside}}}"
    if kind == "NonEmptyString":
        return "!"
    if kind == "ThrottledReplicaListValidator":
        return "replicas"
    if text == "[1,...,9] or -1":
        return "gzip"
    # Other validators only refuse a missing value.
    return "-"


def _default(jvm: Any, key: Any) -> str:
    if not key.hasDefault():
        return "<required>"
    text = jvm.org.apache.kafka.common.config.ConfigDef.convertToString(key.defaultValue, key.type)
    if text is None:
        return "<null>"
    return str(text).replace(" ", "") or "<empty>"


def _lines(jvm: Any, definition: Any, scope: Callable[[str], str], synonyms: Callable[[str], list[str]]) -> list[str]:
    lines = []
    for name in sorted(definition.configKeys()):
        key = definition.configKeys()[name]
        internal = "I" if key.internalConfig else ""
        words = [scope(name) + internal, name, key.type.toString(), _default(jvm, key), _rule(jvm, name, key.validator)]
        lines.append(" ".join([*words, *filter(None, [",".join(synonyms(name))])]))
    return lines


def _documentation(scope: str, definition: Any) -> list[str]:
    keys = definition.configKeys()
    texts = {name: keys[name].documentation for name in sorted(keys)}
    return [f"{scope}\t{name}\t{text}".replace("\n", "\\n") for name, text in texts.items() if text]


def _jvm(class_path: str) -> Any:
    port = launch_gateway(classpath=class_path, java_path=kafka.java(), die_on_exit=True)
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True, auto_field=True)).jvm


def write_group_keys(jvm: Any) -> None:
    config = jvm.org.apache.kafka.coordinator.group.GroupConfig
    keys, lines = config.CONFIG_DEF.configKeys(), []
    for name in sorted(keys):
        key = keys[name]
        rule = "reset" if name == "share.auto.offset.reset" else _rule(jvm, name, key.validator)
        words = [name, key.type.toString(), _default(jvm, key), rule, "I" if key.internalConfig else "-"]
        documentation = str(key.documentation).replace("\n", "\\n")
        lines.append("\t".join([*words, config.brokerSynonym(name).orElse("-"), documentation]))
    (FOLDER / "group_keys.txt").write_text(GROUP_KEYS_HEAD + "\n".join(lines) + "\n")


def main() -> None:
    jvm = _jvm(kafka.jars("all", kafka.KAFKA_VERSION))
    write_group_keys(jvm)
    config = jvm.org.apache.kafka.server.config
    broker = config.AbstractKafkaConfig.CONFIG_DEF
    topic = jvm.org.apache.kafka.storage.internals.log.LogConfig.configDefCopy()
    modes = dict(config.DynamicBrokerConfig.dynamicConfigUpdateModes())
    topic_synonyms = config.ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS

    def broker_scope(name: str) -> str:
        return {"cluster-wide": "D", "per-broker": "P"}.get(modes.get(name, ""), "B")

    def broker_synonyms(name: str) -> list[str]:
        names = [str(n) for n in config.DynamicBrokerConfig.brokerConfigSynonyms(name, True)]
        return names if names != [name] else []

    def synonyms_of_topic(name: str) -> list[str]:
        return [str(s.name()) for s in topic_synonyms[name]] if name in topic_synonyms else []

    lines = _lines(jvm, broker, broker_scope, broker_synonyms) + _lines(jvm, topic, lambda _: "T", synonyms_of_topic)
    (FOLDER / "keys.txt").write_text(KEYS_HEAD + "\n".join(lines) + "\n")
    texts = _documentation("B", broker) + _documentation("T", topic)
    (FOLDER / "documentation.txt").write_text(DOCUMENTATION_HEAD + "\n".join(texts) + "\n")


if __name__ == "__main__":
    main()
