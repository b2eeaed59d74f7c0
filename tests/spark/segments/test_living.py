"""The segment files of a running broker, compared with a read_committed consumer of librdkafka."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker
from ottla.spark.segments.reading import COLUMNS, ReadRequest, plan, read
from tools.kafka import ApacheKafka, Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.entry("PIP-14", "PIP-15")]

TOPIC = "t"
PARTITIONS = 2
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]], int]


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=[pytest.mark.full, pytest.mark.java])])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Path]]:
    if request.param == "ottla":
        with Broker(data_dir=tmp_path / "data") as broker:
            yield broker, tmp_path / "data"
        return
    try:
        with ApacheKafka(tmp_path / "kafka") as kafka:
            yield kafka, kafka.log_dir
    except Unavailable as missing:
        pytest.skip(f"Apache Kafka: {missing}")


class Writers:
    """One transactional producer for each codec. A transaction may stay open over several calls of `round`."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        self._rng = rng
        self._number = 0
        common = {"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 0}
        self._producers = [Producer({**common, "transactional.id": codec, "compression.type": codec}) for codec in CODECS]
        self._is_open = [False] * len(CODECS)
        for producer in self._producers:
            producer.init_transactions()

    def round(self) -> None:
        rng = self._rng
        for at, producer in enumerate(self._producers):
            if not self._is_open[at]:
                producer.begin_transaction()
                self._is_open[at] = True
            for _ in range(rng.randrange(1, 30)):
                self._number += 1
                key = None if rng.random() < 0.2 else b"k%d" % rng.randrange(100)
                headers = [("h", b"x"), ("n", None)] if rng.random() < 0.3 else []
                value = b"%d-" % self._number + b"v" * rng.randrange(400)
                producer.produce(TOPIC, value, key, partition=rng.randrange(PARTITIONS), headers=headers)
            assert producer.flush(60) == 0
            if rng.random() < 0.7:
                producer.commit_transaction() if rng.random() < 0.6 else producer.abort_transaction()
                self._is_open[at] = False


def consumed(bootstrap: str) -> list[Row]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "g",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, p, 0) for p in range(PARTITIONS)])
    rows: list[Row] = []
    ended = 0
    while ended < PARTITIONS:
        (message,) = consumer.consume(1, 20)
        if message.error():
            ended += 1
            continue
        kind, timestamp = message.timestamp()
        assert kind == TIMESTAMP_CREATE_TIME
        headers = [(name, value) for name, value in message.headers() or []]
        rows.append((message.partition(), message.offset(), message.key(), message.value(), headers, timestamp))
    consumer.close()
    return sorted(rows, key=lambda row: row[:2])


def lying(directory: Path, **settings: Any) -> list[Row]:
    rows = [
        row
        for split in plan(ReadRequest(str(directory), TOPIC, **settings))
        for b in read(split, list(COLUMNS))
        for row in b.to_pylist()
    ]
    return [
        (
            r["partition"],
            r["offset"],
            r["key"],
            r["value"],
            [(h["key"], h["value"]) for h in r["headers"]],
            _ms(r["timestamp"]),
        )
        for r in rows
    ]


def _ms(moment: Any) -> int:
    return round(moment.timestamp() * 1000)


def test_segment_source_of_a_live_broker_gives_the_rows_of_a_read_committed_consumer(broker: tuple[Any, Path]) -> None:
    running, directory = broker
    admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
    config = {"internal.segment.bytes": "20000", "index.interval.bytes": "200"}
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=config)]).values():
        future.result(60)
    writers = Writers(running.bootstrap, random.Random(5))
    for number in range(12):
        writers.round()
        expected = consumed(running.bootstrap)
        assert lying(directory) == expected
        assert lying(directory, split_bytes=3_000) == expected
        if number == 6:
            running.restart(kill=True)
    assert len(expected) > 300
    running.kill() if isinstance(running, ApacheKafka) else running.stop()
    assert lying(directory) == expected
