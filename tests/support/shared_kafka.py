"""Apache Kafka brokers that all tests and xdist workers of a run share, one for each set of settings.

The first test that needs a broker starts it, and later tests find it in the directory of the run (`tools.keeping`). The broker ends
when the run ends. Because it is shared, each test uses its own topic and group names, and changes nothing that affects the whole
broker. A test that stops, kills or reconfigures Apache Kafka, or that lists all topics or groups, starts its own broker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from tests.scenarios.brokers import SET_UPS
from tools import keeping
from tools.kafka import ORACLE_VERSION, ApacheKafka, Unavailable

ORACLE_SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Like ottla, let members of consumer groups learn of changes within half a second.
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    # Tests write records with old timestamps, which the first check of retention, 30 s after the start, would delete.
    "log.initial.task.delay.ms": "86400000",
    **SET_UPS["model"].settings,
}
"""Settings for tests without particular needs: short heartbeat intervals, and prompt aborts of timed-out transactions."""
_started: list[ApacheKafka] = []
"""Brokers started by this process. Without references, Python would warn of their running processes."""


class SharedKafka(msgspec.Struct, frozen=True):
    """A broker that runs until the end of the run.

    ``missing`` is the reason why this machine cannot start the broker, or an empty string.
    """

    bootstrap: str
    cluster_id: str
    missing: str = ""


def shared_kafka(settings: Mapping[str, str] = ORACLE_SETTINGS) -> SharedKafka:
    """Return the shared broker with these settings, and start it first if necessary.

    Skips the test if Apache Kafka is not available. Raises `tools.kafka.StartFailed` if it does not start.
    """
    run = keeping.current()
    assert run is not None, "no test run has begun; tests/conftest.py begins it"
    kind = json.dumps([ORACLE_VERSION, sorted(settings.items())])
    directory = run / f"kafka-{hashlib.sha256(kind.encode()).hexdigest()[:12]}"
    state = directory.with_suffix(".json")
    with keeping.locked(directory.with_suffix(".lock")):
        if state.exists():
            kafka = msgspec.json.decode(state.read_bytes(), type=SharedKafka)
        else:
            kafka = _start(directory, settings)
            state.write_bytes(msgspec.json.encode(kafka))
    if kafka.missing:
        pytest.skip(f"Apache Kafka: {kafka.missing}")
    return kafka


def _start(directory: Path, settings: Mapping[str, str]) -> SharedKafka:
    kafka = ApacheKafka(directory, settings=settings)
    try:
        kafka.start()
    except Unavailable as missing:
        return SharedKafka("", "", str(missing))
    _started.append(kafka)
    return SharedKafka(kafka.bootstrap, kafka.cluster_id)
