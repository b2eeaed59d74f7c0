"""The programs of this folder and of docs/security-in-tests.md. A test is skipped if a compiler is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from tests.pages.blocks import block
from tools import go, java_programs, kafka
from tools.kafka import Unavailable

PROGRAMS: Final = Path(__file__).parent
PYTHON_BLOCKS: Final = {
    "confluent-kafka": "from confluent_kafka import Consumer, Producer",
    "kafka-python": "from kafka import KafkaConsumer, KafkaProducer",
    "aiokafka": "import asyncio",
}
"""First lines of the programs of docs/security-in-tests.md, by client."""


class Configured(Protocol):
    """What a documented program uses of its ``broker``."""

    def client_config(self, client: str, user: str) -> dict[str, Any]: ...


def run_documented(client: str, broker: Configured) -> None:
    """Run the program of a Python client."""
    exec(block(("docs/security-in-tests.md", PYTHON_BLOCKS[client])).text, {"broker": broker, "__name__": "block"})


def java_program() -> list[str]:
    """Return the command of the Java client's program."""
    try:
        # The jars of the broker include Jackson, which Kafka's client library needs for OAUTHBEARER.
        class_path = os.pathsep.join(map(str, java_programs.expanded(kafka.jars("all"))))
        return java_programs.command(PROGRAMS / "Secured.java", class_path, "-XX:TieredStopAtLevel=1")
    except Unavailable as missing:
        pytest.skip(str(missing))


def go_program(client: str) -> list[str]:
    """Return the command of the program of franz-go or sarama."""
    try:
        return [str(go.built(PROGRAMS / client.removesuffix("-go")))]
    except Unavailable as missing:
        pytest.skip(str(missing))
