"""A stream over segment files that is started again and again while a transactional producer writes to the active segment."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla.spark
from ottla import Broker
from tests.spark.sink.test_datasource import LATE_WORKER, caught_up

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

PARTITIONS = 3
STREAM_STARTS = 4
TRANSACTION_RECORDS = 40
ABORTED_EVERY = 5


class TransactionalWriter:
    """Writes transactions of consecutive numbers until it is stopped. Every fifth transaction is aborted, and begins with ``a``."""

    def __init__(self, broker: Broker) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "transactional.id": "writer", "linger.ms": 0, "log_level": 0}
        )
        self._producer.init_transactions(60)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._failure: BaseException | None = None
        self.committed = 0
        self._thread.start()

    def _run(self) -> None:
        try:
            transaction = 0
            while not self._stop.is_set():
                transaction += 1
                is_aborted = transaction % ABORTED_EVERY == 0
                self._producer.begin_transaction()
                for n in range(self.committed, self.committed + TRANSACTION_RECORDS):
                    value = b"a%d" % n if is_aborted else b"%d" % n
                    self._producer.produce("in", value, b"%d" % n)
                    if n % 10 == 0:
                        # The active segment also ends with batches of an open transaction.
                        self._producer.flush(60)
                if is_aborted:
                    # librdkafka purges unsent batches whose sequence numbers it has used, and then the next transaction fails.
                    self._producer.flush(60)
                    self._producer.abort_transaction(60)
                else:
                    self._producer.commit_transaction(60)
                    self.committed += TRANSACTION_RECORDS
        except BaseException as failure:
            self._failure = failure

    def stop(self) -> int:
        """End the last transaction. Returns the number of committed records."""
        self._stop.set()
        self._thread.join(60)
        assert self._failure is None, self._failure
        assert not self._thread.is_alive()
        return self.committed


@pytest.fixture(
    params=[
        pytest.param({}, id="one segment", marks=pytest.mark.nightly),
        pytest.param({"internal.segment.bytes": "20000"}, id="small segments"),
    ]
)
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("in", partitions=PARTITIONS, configs=request.param)
        yield broker


def test_segment_stream_restarts_succeed_while_a_producer_writes(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Each start reads further records, and all starts together read each committed record once."""
    ottla.spark.register(spark)
    frame = spark.readStream.format("ottla").option("path", str(tmp_path / "data")).option("subscribe", "in")
    frame = frame.option("startingOffsets", "earliest").load().selectExpr("value")
    batches: dict[int, list[int]] = {}
    seen = threading.Semaphore(0)

    def keep(rows: Any, batch: int) -> None:
        # Spark repeats the last batch of a stream that was stopped before it committed the batch.
        batches[batch] = [int(bytes(row.value)) for row in rows.collect()]
        seen.release()

    def start() -> Any:
        return frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "cp")).start()

    def start_and_read() -> bool:
        """Start the stream, and stop it when it has read two batches. Returns False if Spark's Python worker was late."""
        while seen.acquire(blocking=False):
            pass
        query = start()
        try:
            for _ in range(2):
                assert seen.acquire(timeout=60) or query.exception() is not None, "no batch within 60 s"
                failure = query.exception()
                if failure is not None and LATE_WORKER in str(failure):
                    return False
                if failure is not None:
                    raise failure
        finally:
            query.stop()
        return True

    writer = TransactionalWriter(broker)
    try:
        results = [start_and_read() for _ in range(STREAM_STARTS)]
    finally:
        committed = writer.stop()
    caught_up(start).stop()
    assert sorted(n for values in batches.values() for n in values) == list(range(committed))
    assert len(batches) > sum(results) > 1
