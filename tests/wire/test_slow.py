"""Slow tests: the demo, a broker killed repeatedly under load, and a small benchmark."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from ottla import Broker
from tests.wire.clients.confluent import Confluent
from tests.wire.conftest import read
from tools import kafka

pytestmark = [pytest.mark.wire, pytest.mark.full]

ROOT = Path(__file__).parent.parent.parent
ROUNDS = int(os.environ.get("ROUNDS", "30"))


def test_demo_command_proves_exactly_once_for_all_purchases() -> None:
    command = [sys.executable, "-m", "ottla", "demo", "--port", str(kafka.free_port()), "--purchases", "4000", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Exactly once: proven" in done.stderr
    document = json.loads(done.stdout)
    assert document["proven"]
    assert document["purchases"] == document["invoices"] == document["shipments"] == 4_000


class Load:
    """A producer that writes numbered records and lists the acknowledged records."""

    def __init__(self, bootstrap: str, topic: str, transactional_id: str | None) -> None:
        from confluent_kafka import Producer

        settings: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 60_000,
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        if transactional_id is not None:
            settings |= {"transactional.id": transactional_id, "transaction.timeout.ms": 60_000}
        self._producer = Producer(settings)
        self._transactional = transactional_id is not None
        self._topic = topic
        self._stop = threading.Event()
        self.acknowledged: list[bytes] = []
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(120)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            if self._transactional:
                self._producer.init_transactions(60)
            number = 0
            while not self._stop.is_set():
                values = [b"%d" % n for n in range(number, number + 20)]
                number += 20
                if self._transactional:
                    self._producer.begin_transaction()
                delivered: list[bytes] = []

                def report(error: object, message: object, delivered: list[bytes] = delivered) -> None:
                    if error is None:
                        delivered.append(message.value())  # type: ignore[attr-defined]

                for value in values:
                    self._producer.produce(self._topic, value, partition=0, on_delivery=report)
                assert self._producer.flush(60) == 0
                if self._transactional:
                    if number % 100 == 0:
                        self._producer.abort_transaction(60)
                        continue
                    self._producer.commit_transaction(60)
                self.acknowledged += delivered
        except Exception as error:
            self.failures.append(repr(error))


@pytest.mark.entry("STO-01")
def test_acknowledged_records_survive_repeated_kills(tmp_path: Path) -> None:
    """The broker is killed while an idempotent and a transactional producer write. Each record is read once and in order."""
    rng = random.Random(17)
    settings = {"log.segment.bytes": 50_000, "log.flush.offset.checkpoint.interval.ms": 300}
    with Broker(data_dir=tmp_path / "data", settings=settings) as broker:
        loads = [Load(broker.bootstrap, "plain", None), Load(broker.bootstrap, "transactional", "killed")]
        for load in loads:
            load.start()
        for _ in range(ROUNDS):
            time.sleep(rng.uniform(0.1, 0.7))
            broker.restart(kill=True)
        for load in loads:
            load.stop()
            assert not load.failures
        for topic, load in zip(("plain", "transactional"), loads, strict=True):
            consumer = Confluent().consumer(broker.bootstrap, [topic], group=f"check-{topic}")
            values = [m.value for m in read(consumer, len(load.acknowledged), timeout_s=60)]
            consumer.close()
            assert len(load.acknowledged) > 100
            assert values == load.acknowledged


@pytest.mark.nightly
@pytest.mark.java
@pytest.mark.alone
def test_broker_benchmark_runs_without_errors() -> None:
    try:
        kafka.jars("all")
    except kafka.Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")
    command = [sys.executable, "-m", "benchmarks.compare", "--pairs", "1", "--scale", "0.01"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "commit p99" in done.stdout


@pytest.mark.nightly
def test_broker_soak_test_runs_without_findings() -> None:
    """Half a minute is too short to judge memory growth: the workloads only have to run without errors across restarts."""
    command = [sys.executable, "-m", "benchmarks.soak", "--warm-up", "0", "--minutes", "0.5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "transactions" in done.stdout
