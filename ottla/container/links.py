"""Creates links to ottla's tool script, at the paths of Kafka's command line tools in the images of Kafka, Confluent and
Bitnami."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ottla.container.kafka_tools import INSTEAD

TARGET: Final = "/usr/local/bin/kafka-tool"
"""The script to which all links point; it calls ``python -m ottla.container NAME``."""
TOOLS: Final = (*INSTEAD, "kafka-storage", "zookeeper-server-start")
SCRIPTS: Final = tuple(name for name in TOOLS if "-" in name)
"""The tools that are scripts of Kafka. In Kafka's archive their names end in ``.sh``, in Confluent's packages they do not."""
NAMES: Final = {
    "/usr/local/bin": (*TOOLS, *(f"{name}.sh" for name in SCRIPTS)),
    "/usr/bin": SCRIPTS,
    "/opt/kafka/bin": tuple(f"{name}.sh" for name in SCRIPTS),
    "/opt/bitnami/kafka/bin": tuple(f"{name}.sh" for name in SCRIPTS),
}
"""Names of links by directory: on the PATH, and in the directories of confluentinc/cp-kafka, apache/kafka and bitnami/kafka."""


def create_links(root: Path = Path("/")) -> None:
    """Create all links below ``root``."""
    for directory, names in NAMES.items():
        place = root / directory.lstrip("/")
        place.mkdir(parents=True, exist_ok=True)
        for name in names:
            (place / name).symlink_to(TARGET)
