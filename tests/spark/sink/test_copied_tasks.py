"""Two attempts of one task at the same time, as with spark.speculation: the records of a slow attempt are written once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import MustAbort
from ottla.spark.sink import row_writing
from ottla.spark.sink.transaction import SharedTransaction

pytestmark = [pytest.mark.wire, pytest.mark.full]

COPIES = 3
WAIT_S = 60


def batch() -> pa.RecordBatch:
    values = pa.array([b"1", b"2", b"3"], pa.binary())
    columns = {"topic": pa.array(["out"] * 3), "partition": pa.array([0] * 3, pa.int32()), "key": values, "value": values}
    return pa.RecordBatch.from_pydict(columns)


def test_speculative_copies_of_a_slow_task_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = threading.local()
    monkeypatch.setattr(row_writing, "prepare", lambda: None)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: SimpleNamespace(attemptNumber=lambda: attempt.number, stageId=lambda: 7))
    with Broker() as broker:
        broker.create_topic("out", partitions=1)
        connecting = Connecting(broker.bootstrap)
        transaction = SharedTransaction(cluster_client(connecting), "copied")
        transaction.begin()
        write = row_writing._write(connecting, transaction.producer, "none", {}, None)

        def run(number: int) -> list[Any]:
            attempt.number = number
            return [row for rows in write([batch()]) for row in rows.to_pylist()]

        with ThreadPoolExecutor() as pool:
            with broker.faults.hold(api="Produce", topic="out") as slow:
                first = pool.submit(run, 0)
                slow.wait(hits=1)
                for number in range(1, COPIES + 1):
                    with pytest.raises(MustAbort, match="a task of this transaction has failed"):
                        pool.submit(run, number).result(WAIT_S)
            assert [(row["records"], row["error"]) for row in first.result(WAIT_S)] == [(3, None)]
        transaction.end(commit=True)
        transaction.close()
        assert [record.value for record in broker.records("out")] == [b"1", b"2", b"3"]
