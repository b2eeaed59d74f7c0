"""Writes docs/settings.md, the page of all settings with an effect, from their definitions: ``python -m tools.settings_page``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from ottla.broker.config.definitions import OWN, Definition, broker_definitions, documentation, topic_definitions
from ottla.broker.config.settings import HONOURED, OWN_DEFAULTS
from ottla.storage.config import LogConfig

TARGET = Path(__file__).parent.parent / "docs" / "settings.md"
EFFECT_CHARACTERS = 200
"""How much of Apache Kafka's own description of a setting the page repeats: whole sentences up to about this length."""
HEAD = """# Settings

<!-- Written by `python -m tools.settings_page`; tests/tools/test_pages.py compares. -->

Settings are Kafka's own keys: in a `server.properties` file, as `KAFKA_*` variables (`KAFKA_NUM_PARTITIONS` is `num.partitions`;
`__` stands for `_`, `___` for `-`), or by `--set key=value`. An unknown key is refused with a suggestion. A key of Kafka's that is
not on this page has no effect here, and the start says so in a warning.

The descriptions are Apache Kafka's, shortened. *While it runs* says whether `ottla config set broker`, or any administrator's tool,
changes it without a restart.

"""
ROW_HEAD = "| setting | default | while it runs | what it does |\n|---|---|---|---|\n"


def page() -> str:
    own = {definition.name for definition in OWN}
    honoured = [d for name, d in sorted(broker_definitions().items()) if name in HONOURED and name not in own]
    topic = [topic_definitions()[field.replace("_", ".")] for field in sorted(LogConfig.__struct_fields__)]
    parts = [
        HEAD,
        "## Of ottla alone\n\n",
        _table(OWN, "B"),
        "\n## Of a broker\n\n",
        "Where Kafka's default is another one, it stands behind ottla's.\n\n",
        _table(honoured, "B"),
        "\n## Of a topic\n\n",
        "Given with a topic (`ottla topic create orders --config retention.ms=60000`), or for all topics by the broker's key.\n\n",
        _topic_table(topic),
    ]
    return "".join(parts)


def _table(definitions: Iterable[Definition], scope: str) -> str:
    return ROW_HEAD + "".join(_row(definition, scope) for definition in definitions)


def _row(definition: Definition, scope: str) -> str:
    changes = "yes" if definition.is_dynamic else "no"
    return f"| `{definition.name}` | {_defaults(definition)} | {changes} | {_effect(definition, scope)} |\n"


def _topic_table(definitions: Iterable[Definition]) -> str:
    rows = "| setting | default | the broker's key | what it does |\n|---|---|---|---|\n"
    for definition in definitions:
        keys = ", ".join(f"`{name}`" for name in definition.synonyms) or "none"
        rows += f"| `{definition.name}` | {_shown(definition.default)} | {keys} | {_effect(definition, 'T')} |\n"
    return rows


def _defaults(definition: Definition) -> str:
    own = OWN_DEFAULTS.get(definition.name)
    if own is None or own == definition.default:
        return _shown(definition.default)
    return f"{_shown(own)} (Kafka: {_shown(definition.default)})"


def _shown(default: str | None) -> str:
    if default is None:
        return "none"
    # No-break characters between the parts of long lists would be copied along, so a list is spread over code spans.
    return " ".join(f"`{part}`" for part in default.split(",")) if default else "empty"


def _effect(definition: Definition, scope: str) -> str:
    """The first sentences of the description, as one line of Markdown."""
    text = documentation().get((scope, definition.name), "")
    text = re.sub(r"</?(?:code|p|ul|li|br|b|a|i|em|h\d|tt|pre)\b[^>]*>", " ", text)
    text = re.sub(r"\s+", " ", text).replace("|", "\\|").replace("<", "&lt;").strip()
    sentences = re.split(r"(?<=\.) (?=[A-Z])", text)
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
