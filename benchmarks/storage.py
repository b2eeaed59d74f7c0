"""Measures a large data directory: ``python -m benchmarks.storage [--partitions 10000] [--producers 1000000]``.

It measures starts with that many partitions, after a clean shutdown and after SIGKILL, and the memory for that many producer ids.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.brokers import memory_mib
from ottla import Broker
from ottla.protocol.errors import Code
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records import build_batch
from tests.support.raw_client import RawClient

PARTITIONS_A_TOPIC = 100
RECORDS = 20
IDS_A_REQUEST = 500
NOW_MS = 1_700_000_000_000
SETTINGS = {"log.retention.ms": "-1"}
"""No retention, because the records have old timestamps and would be deleted."""


def connected(broker: Broker) -> RawClient:
    return RawClient(broker.bootstrap)


def fill(broker: Broker, partitions: int, progress: Progress) -> None:
    """Write some records to each partition."""
    client = connected(broker)
    batch = bytes(build_batch([(None, b"v" * 100)] * RECORDS, NOW_MS))
    for number in progress.track(range(partitions // PARTITIONS_A_TOPIC), description="filling partitions"):
        topic = f"t{number}"
        client.call(
            CreateTopicsRequest(
                topics=[CreatableTopic(name=topic, num_partitions=PARTITIONS_A_TOPIC, replication_factor=1)], timeout_ms=30_000
            )
        )
        parts = [PartitionProduceData(index=index, records=batch) for index in range(PARTITIONS_A_TOPIC)]
        answer = client.call(
            ProduceRequest(
                transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=[TopicProduceData(topic, partition_data=parts)]
            ),
            9,
        )
        assert all(p.error_code == Code.NONE for p in answer.responses[0].partition_responses)
    client.close()


def started(broker: Broker) -> tuple[float, float, int]:
    """Return the seconds from launch to the first response, memory in MiB, and the number of open files."""
    os.sync()
    before = time.monotonic()
    broker.start()
    took = time.monotonic() - before
    assert broker.pid is not None
    return took, memory_mib(broker.pid), sum(1 for _ in Path(f"/proc/{broker.pid}/fd").iterdir())


def start_up(root: Path, partitions: int, progress: Progress) -> list[tuple[str, str, str, str]]:
    rows = []
    broker = Broker(data_dir=root / "partitions", settings=SETTINGS)
    broker.start()
    fill(broker, partitions, progress)
    for how, stop in (("a clean stop", broker.stop), ("SIGKILL", broker.kill)):
        stop()
        took, memory, files = started(broker)
        rows.append((f"start with {partitions:,} partitions after {how}", f"{took:.2f} s", f"{memory:.0f} MiB", f"{files:,}"))
    broker.stop()
    return rows


def producers(root: Path, count: int, progress: Progress) -> list[tuple[str, str, str, str]]:
    """Send one idempotent batch with each of ``count`` producer ids to the same partition, and measure the broker's memory."""
    with Broker(data_dir=root / "producers", settings=SETTINGS) as broker:
        client = connected(broker)
        client.call(
            CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=30_000)
        )
        assert broker.pid is not None
        before = memory_mib(broker.pid)
        for start in progress.track(range(0, count, IDS_A_REQUEST), description="producer ids"):
            sent = []
            for producer_id in range(start, start + IDS_A_REQUEST):
                batch = build_batch([(None, b"v")], NOW_MS, producer_id=producer_id, producer_epoch=0, base_sequence=0)
                data = [TopicProduceData("t", partition_data=[PartitionProduceData(index=0, records=bytes(batch))])]
                sent.append(client.send(ProduceRequest(transactional_id=None, acks=-1, timeout_ms=30_000, topic_data=data), 9))
            for request in sent:
                assert client.receive(request).responses[0].partition_responses[0].error_code == Code.NONE
        after = memory_mib(broker.pid)
        client.close()
        return [(f"{count:,} producer ids in a partition", "", f"{after:.0f} MiB ({after - before:+.0f})", "")]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--producers", type=int, default=1_000_000)
    options = parser.parse_args()
    console = Console(width=120)
    table = Table(title="A large data directory", title_justify="left")
    for column in ("what", "time", "memory", "open files"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as root, Progress(console=console) as progress:
        rows = start_up(Path(root), options.partitions, progress)
        rows += producers(Path(root), options.producers, progress)
    for row in rows:
        table.add_row(*row)
    console.print(table)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
