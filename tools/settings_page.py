"""Writes docs/settings.md, the page of all settings, from their definitions: ``python -m tools.settings_page``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import fill

from ottla.broker.config.definitions import OWN, Definition, documentation, topic_definitions
from ottla.broker.config.effects import ConfigEffect, definitions, effect_of, without_effect
from ottla.broker.config.settings import OWN_DEFAULTS
from ottla.coordinator.metadata.cluster import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.config_effects import RESOURCES

TARGET = Path(__file__).parent.parent / "docs" / "settings.md"
OTHER_NAMES = {"broker.id": "node.id", "log.dir": "log.dirs"}
FIXED = {"listeners", "listener.security.protocol.map"}
"""Settings that Apache Kafka can change on a running broker, and ottla cannot."""
UNDOCUMENTED = {
    "unstable.api.versions.enable": "Whether clients may use unstable API versions, such as InitProducerId 6 (KIP-939)."
}
"""Descriptions of the settings that Apache Kafka does not describe."""
EFFECT_CHARACTERS = 200
"""Approximate maximum length, in characters, of the quotation from Apache Kafka's description of a setting. Whole sentences are
quoted."""
_OF = {
    BROKER_RESOURCE: "Broker",
    TOPIC_RESOURCE: "Topic",
    GROUP_RESOURCE: "Group",
    CLIENT_METRICS_RESOURCE: "Client metrics (ottla asks no client for metrics)",
}
HEAD = """# Settings

<!-- Written by `python -m tools.settings_page`; tests/tools/test_pages.py compares. -->

Settings are Kafka's own keys: in a `server.properties` file, as `KAFKA_*` variables (`KAFKA_NUM_PARTITIONS` is `num.partitions`;
`__` means `_`, `___` means `-`), or by `--set key=value`. An unknown key is refused with a suggestion.
Keys of Kafka that have no effect in ottla are listed at the end of this page. If such a key is used, the log has a warning
(`setting_ignored`): at each start, and once when a client sets the key. `ottla topic create`, `ottla topic alter`, `ottla config
set` and the console warn too.

The descriptions are Apache Kafka's, shortened. *While it runs* says whether `ottla config set broker`, or any administrator's tool,
changes it without a restart.

"""
ROW_HEAD = "| setting | default | while it runs | what it does |\n|---|---|---|---|\n"


def page() -> str:
    own = {definition.name for definition in OWN}
    synonyms = {name for definition in topic_definitions().values() for name in definition.synonyms}
    broker = [d for d in _working(BROKER_RESOURCE) if d.name not in {*own, *synonyms, *OTHER_NAMES}]
    parts = [
        HEAD,
        "## Settings of ottla\n\n",
        _table(OWN, "B"),
        "\n## Broker settings\n\n",
        "Where the defaults differ, Kafka's is in parentheses. "
        + " and ".join(f"`{name}` is another name of `{key}`" for name, key in OTHER_NAMES.items())
        + ".\n\n",
        _table(broker, "B"),
        "\n## Topic settings\n\n",
        "Given with a topic (`ottla topic create orders --config retention.ms=60000`), or for all topics by the broker's key.\n\n",
        _topic_table(_working(TOPIC_RESOURCE)),
        "\n## Group settings\n\n",
        "Given with a group (`ottla config set group orders share.isolation.level=read_committed`), or for all groups by the\n"
        "broker's key.\n\n",
        _topic_table(_working(GROUP_RESOURCE), "G"),
        "\n## Refused\n\n",
        "`remote.storage.enable=true` of a topic, because there is no tiered storage, and `sasl.kerberos.*`, because there is no\n"
        "Kerberos. A running broker also refuses `listeners` and `listener.security.protocol.map`, which can be set only for its\n"
        "start.\n",
        "\n## Without effect\n\n",
        "Accepted, stored and shown, because files and tools for Apache Kafka set them.\n",
        *(_without_effect(resource_type) for resource_type in RESOURCES),
    ]
    return "".join(parts)


def _working(resource_type: int) -> list[Definition]:
    known = definitions(resource_type)
    return [known[name] for name in sorted(known) if effect_of(resource_type, name) is ConfigEffect.WORKS]


def _without_effect(resource_type: int) -> str:
    names = without_effect(resource_type, definitions(resource_type))
    text = ", ".join(f"`{name}`" for name in names)
    return "\n" + fill(f"{_OF[resource_type]}: {text}.", width=130, break_long_words=False, break_on_hyphens=False) + "\n"


def _table(definitions: Iterable[Definition], scope: str) -> str:
    return ROW_HEAD + "".join(_row(definition, scope) for definition in definitions)


def _row(definition: Definition, scope: str) -> str:
    changes = "yes" if definition.is_dynamic and definition.name not in FIXED else "no"
    return f"| `{definition.name}` | {_defaults(definition)} | {changes} | {_effect(definition, scope)} |\n"


def _topic_table(definitions: Iterable[Definition], scope: str = "T") -> str:
    rows = "| setting | default | the broker's key | what it does |\n|---|---|---|---|\n"
    for definition in definitions:
        keys = ", ".join(f"`{name}`" for name in definition.synonyms) or "none"
        default = next((OWN_DEFAULTS[name] for name in definition.synonyms if name in OWN_DEFAULTS), definition.default)
        rows += f"| `{definition.name}` | {_shown(default)} | {keys} | {_effect(definition, scope)} |\n"
    return rows


def _defaults(definition: Definition) -> str:
    own = OWN_DEFAULTS.get(definition.name)
    if own is None or own == definition.default:
        return _shown(definition.default)
    return f"{_shown(own)} (Kafka: {_shown(definition.default)})"


def _shown(default: str | None) -> str:
    if default is None:
        return "none"
    # A long list must be wrapped, so each item is a code span. Invisible break characters would be copied with the text.
    return " ".join(f"`{part}`" for part in default.split(",")) if default else "empty"


def _effect(definition: Definition, scope: str) -> str:
    """Return the first sentences of the description, as one line of Markdown."""
    text = definition.documentation or documentation().get((scope, definition.name)) or UNDOCUMENTED.get(definition.name, "")
    text = re.sub(r"</?(?:code|p|ul|li|br|b|a|i|em|h\d|tt|pre)\b[^>]*>", " ", text)
    text = re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()
    # A period after a digit numbers the items of a list.
    sentences = re.split(r"(?<=[^0-9]\.) (?=[A-Z])", text)
    effect = sentences[0]
    for sentence in sentences[1:]:
        if len(effect) + len(sentence) > EFFECT_CHARACTERS:
            break
        effect += " " + sentence
    return effect if not effect or effect.endswith(".") else effect + "."


def main() -> int:
    TARGET.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
