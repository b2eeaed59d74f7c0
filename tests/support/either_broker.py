"""A broker of ottla, or of Apache Kafka, for tests that run against both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla import Broker
from tests.support.shared_kafka import ORACLE_SETTINGS
from tools.kafka import ApacheKafka, Unavailable

EITHER = ["ottla", pytest.param("kafka", marks=[pytest.mark.full, pytest.mark.java])]
"""Parameters of a fixture that passes them to `running` as ``kind``."""


@contextmanager
def running(kind: str, directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Start a broker, and yield its address. Skips the test without Apache Kafka. Fails if ottla has logged an error."""
    given = dict(settings or {})
    if kind == "ottla":
        with Broker(settings=given) as broker:
            yield broker.bootstrap
            assert not [line for line in broker.logs if '"level": "error"' in line]
        return
    try:
        oracle = ApacheKafka(directory, settings={**ORACLE_SETTINGS, **given}).start()
    except Unavailable as missing:
        pytest.skip(str(missing))
    try:
        yield oracle.bootstrap
    finally:
        oracle.stop()
