"""A shop whose driver is killed: its topics and purchases, runs of the driver, and checks of the committed records."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from ottla.client.security.client_config import Connecting
from ottla.pipeline.generate import Workload, purchases
from ottla.pipeline.ledger import ledger
from ottla.pipeline.schemas import DEAD_LETTERS, INVOICES, PURCHASES, SHIPMENTS
from ottla.pipeline.topics import create, fill
from ottla.spark.cluster.client import cluster_client
from tests.pipeline.kills.driver import STARTED
from tests.support import quick_java

PARTITIONS = 3
LIFE_S = 120
SETTLED_S = 10
ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Shopping:
    """The shop. ``workload`` determines its purchases."""

    bootstrap: str
    checkpoint: Path
    workload: Workload
    sink: str = "exactly-once"
    environment: Mapping[str, str] = field(default_factory=dict)

    def open(self) -> None:
        create(self.bootstrap, (PURCHASES, INVOICES, SHIPMENTS, DEAD_LETTERS), PARTITIONS)
        fill(self.bootstrap, PURCHASES, purchases(self.workload))

    def start(self, point: str = "") -> subprocess.Popen[str]:
        """Start the driver. Returns its process when the stream is running."""
        environment = {**os.environ, **(self.environment or quick_java.environment())}
        arguments = [self.bootstrap, str(self.checkpoint), self.sink, point]
        command = [sys.executable, "-m", "tests.pipeline.kills.driver", *arguments]
        with (self.checkpoint.parent / "driver.log").open("a") as log:
            life = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert life.stdout is not None
        assert life.stdout.readline().strip() == STARTED, (self.checkpoint.parent / "driver.log").read_text()[-3_000:]
        return life

    def live(self, point: str = "", *, within_s: float = LIFE_S) -> int:
        """Run the driver until it exits, and return its exit code."""
        with self.start(point) as life:
            return life.wait(within_s)

    def live_until(self, seconds: float) -> int:
        with self.start() as life:
            try:
                return life.wait(seconds)
            except subprocess.TimeoutExpired:
                os.killpg(life.pid, signal.SIGKILL)
                return life.wait(60)

    def ids(self, topic: str) -> Counter[int]:
        """Return how often each purchase id is in a topic, as a read-committed consumer sees it."""
        return Counter(json.loads(value)["purchase"] for value in self.values(topic))

    def values(self, topic: str) -> list[bytes]:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "look", "isolation.level": "read_committed", "log_level": 0}
        consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
        committed_values, at_end = [], 0
        deadline = time.monotonic() + 60
        while at_end < PARTITIONS and time.monotonic() < deadline:
            for message in consumer.consume(5_000, 0.2):
                if message.error():
                    at_end += 1
                else:
                    committed_values.append(message.value() or b"")
        consumer.close()
        return committed_values

    def agreed_outputs(self) -> Counter[int]:
        """Return the purchases in the outputs, after checking that both outputs agree. Retries while markers are pending.

        While the job runs, the shipments must be between the invoices read before them and those read after them.
        """
        deadline = time.monotonic() + SETTLED_S
        while True:
            before, shipments, after = self.ids(INVOICES), self.ids(SHIPMENTS), self.ids(INVOICES)
            if before <= shipments <= after:
                return shipments
            alone = f"{len(before - shipments)} invoices alone, {len(shipments - after)} shipments"
            assert time.monotonic() < deadline, alone

    def check_exactly_once(self) -> None:
        made = list(purchases(self.workload))
        sound = Counter({json.loads(row.value)["id"]: 1 for row in made if row.is_sound})
        assert self.agreed_outputs() == sound
        assert sorted(self.values(DEAD_LETTERS)) == sorted(row.value for row in made if not row.is_sound)
        cluster = cluster_client(Connecting(self.bootstrap))
        for topic in (INVOICES, SHIPMENTS, DEAD_LETTERS):
            for partition in cluster.leader_nodes(topic):
                partition_ledger = ledger(self.bootstrap, topic, partition)
                assert [e for e in partition_ledger.entries if not e.outcome] == []
                assert partition_ledger.unexplained == 0
        cluster.close()

    def duplicates(self) -> int:
        return sum(count - 1 for count in self.ids(INVOICES).values())


def moments(count: int, longest_s: float, seed: int) -> list[float]:
    rng = random.Random(seed)
    return [rng.uniform(0, longest_s) for _ in range(count)]
