"""The data directory of a stopped broker with a stray directory and a damaged segment, written by stock clients."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from tests.storage.harm import harmed

DAMAGED, LOST = "damaged", "orders"
"""The topic with the damaged segment, and the topic of the stray directory."""
RECORDS = 900
DAMAGED_BATCH = 40
"""Number of the damaged batch within the second segment."""
WAIT_S = 60.0


class UnsoundDirectory(NamedTuple):
    """The damaged directory. ``problem`` is the broker's error after a client has read the damaged batch."""

    path: Path
    problem: str

    def stray(self) -> Path:
        """Return the stray directory, which exists after the next start of a broker."""
        (found,) = self.path.glob(f"{LOST}-0.*-stray")
        return found


def make(directory: Path) -> UnsoundDirectory:
    with Broker(data_dir=directory) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        damaged, lost = (NewTopic(name, 1, 1, config={"internal.segment.bytes": "65536"}) for name in (DAMAGED, LOST))
        for future in admin.create_topics([damaged, lost]).values():
            future.result(WAIT_S)
        # Send one record per batch, like a producer that waits for each acknowledgement.
        producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0, "batch.num.messages": 1})
        for number in range(RECORDS):
            producer.produce(DAMAGED, b"v" * 100, b"%d" % number)
            producer.poll(0)
        producer.produce(LOST, b"lost")
        assert producer.flush(WAIT_S) == 0
        shutil.copytree(directory / f"{LOST}-0", directory / "copy")
        admin.delete_topics([LOST])[LOST].result(WAIT_S)
    # A directory whose topic id belongs to no topic, as after a loss of the metadata log.
    (directory / "copy").rename(directory / f"{LOST}-0")
    path = sorted((directory / f"{DAMAGED}-0").glob("*.log"))[1]
    raw, position, header = harmed(path.read_bytes(), "wrong CRC", DAMAGED_BATCH)
    path.write_bytes(raw)
    return UnsoundDirectory(directory, f"{DAMAGED}-0: {path} is damaged at byte {position}, offset {header.base_offset}")


def read_damage(bootstrap: str) -> None:
    """Read the damaged topic up to the error, because a broker notices the damage of a closed segment when a client reads it."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(DAMAGED, 0, 0)])
    try:
        for _ in range(RECORDS):
            (message,) = consumer.consume(1, WAIT_S)
            if message.error() is not None:
                return
    finally:
        consumer.close()
    raise AssertionError("the consumer read the damaged topic without an error")
