"""Compiled programs of this folder. A test is skipped if a compiler is missing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tools import go, java_programs, kafka
from tools.kafka import Unavailable

PROGRAMS: Final = Path(__file__).parent


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
