"""Apache Kafka brokers that all tests of a run share, also those of several xdist workers: one broker for each kind.

The first test that needs a kind starts its broker, and later ones find it in the directory of the run (`tools.keeping`), whose end
also ends the broker. So each test uses names of its own, and changes nothing that belongs to the whole broker. A test that stops,
kills or reconfigures its Apache Kafka, or that asks about everything in it, starts one of its own.
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
    # As ottla has it: members of consumer groups learn of each other within half a second.
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "500",
    **SET_UPS["model"].settings,
}
"""The settings of the broker for tests without particular needs: groups change at once, and transactions are aborted in time."""
_started: list[ApacheKafka] = []
"""The brokers that this process has started. Their objects are kept, because the processes outlive this one."""


class SharedKafka(msgspec.Struct, frozen=True):
    """A broker that runs for the whole run. ``missing`` says why it cannot be started on this machine, and is else empty."""

    bootstrap: str
    cluster_id: str
    missing: str = ""


def shared_kafka(settings: Mapping[str, str] = ORACLE_SETTINGS) -> SharedKafka:
    """The broker with these settings. Skips the test where Apache Kafka cannot be had. Raises `tools.kafka.StartFailed`."""
    run = keeping.current()
    assert run is not None, "tests/conftest.py begins the run"
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
