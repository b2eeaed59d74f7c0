"""The requests that one task sends: few, whatever the number of partitions."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ottla import Broker
from ottla.client.security.client_config import Connecting
from ottla.client.wire.connection import BrokerConnection
from ottla.protocol.messages.produce import ProduceRequest
from ottla.spark.cluster.batch_limits import small_batches
from ottla.spark.cluster.client import cluster_client
from ottla.spark.errors import PipelineError
from ottla.spark.rows.encoding import Encoded
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.batch_sender import REQUEST_BYTES, _requests
from ottla.spark.sink.driver import DriverTransaction
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.sequences import SequenceServer, ServerAddress, SharedSequences
from ottla.spark.sink.task_writer import TaskWriter, Written, added_up
from ottla.spark.sink.transaction import SharedTransaction

PARTITIONS = 100
ROWS = 2_000


def columns(topics: Sequence[str | None], partitions: Sequence[int | None]) -> pa.RecordBatch:
    values = pa.array([b"v%d" % n for n in range(len(topics))], pa.binary())
    arrays = [pa.array(topics, pa.string()), pa.array(partitions, pa.int32()), values, values]
    arrays.append(pa.nulls(len(topics), COLUMNS["headers"]))
    return pa.RecordBatch.from_arrays(arrays, ["topic", "partition", "key", "value", "headers"])


def batch(sequence: int, size_bytes: int = 10) -> Encoded:
    return Encoded(sequence, 1, b"x" * size_bytes)


def test_sink_task_sends_one_batch_per_partition_in_a_request_within_the_size_limit() -> None:
    a, b = ("t", 0), ("t", 1)
    many = [(a, batch(0)), (b, batch(0)), (a, batch(1)), (a, batch(2)), (b, batch(1))]
    assert [[(where, x.sequence) for where, x in request.items()] for request in _requests(many)] == [
        [(a, 0), (b, 0)],
        [(a, 1)],
        [(a, 2), (b, 1)],
    ]
    large = [(("t", n), batch(0, REQUEST_BYTES // 2)) for n in range(3)] + [(("t", 3), batch(0, 5 * REQUEST_BYTES))]
    assert [len(request) for request in _requests(large)] == [2, 1, 1]
    assert list(_requests([])) == []


@pytest.mark.wire
def test_sink_task_writes_many_partitions_over_one_connection_in_shared_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[BrokerConnection, Any]] = []
    send = BrokerConnection.send

    def noted(self: BrokerConnection, request: Any, at_most: int | None = None) -> tuple[int, int]:
        sent.append((self, request))
        return send(self, request)

    with Broker() as broker:
        for topic in ("out", "log"):
            broker.create_topic(topic, partitions=PARTITIONS)
        transaction = SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "many")
        transaction.begin()
        monkeypatch.setattr(BrokerConnection, "send", noted)
        writer = TaskWriter(Connecting(broker.bootstrap), transaction.producer)
        rng = np.random.default_rng(1)
        for _ in range(2):
            places = [int(p) for p in rng.integers(0, PARTITIONS, ROWS)]
            writer.write(columns(["out", "log"] * (ROWS // 2), places), 1)
        written = writer.finish()
        transaction.end(commit=True)
        produced = [request for _, request in sent if isinstance(request, ProduceRequest)]
        assert len(produced) == 2
        assert len({id(connection) for connection, request in sent if isinstance(request, ProduceRequest)}) == 1
        assert sum(part.records for part in written) == 2 * ROWS
        assert len(broker.records("out")) + len(broker.records("log")) == 2 * ROWS


@pytest.mark.wire
def test_sink_tasks_write_each_row_once_although_acknowledgements_are_lost() -> None:
    with Broker() as broker:
        broker.create_topic("out", partitions=3)
        transaction = SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "turns")
        transaction.begin()
        lost = broker.faults.add(api="Produce", cut="after", nth=3, times=3)

        def write(address: ServerAddress) -> list[Written]:
            sequences = SharedSequences(address)
            writer = TaskWriter(Connecting(broker.bootstrap), transaction.producer, sequences=sequences)
            with contextlib.closing(writer):
                for _ in range(5):
                    writer.write(columns(["out"] * 60, [0, 1, 2] * 20), 1)
                return writer.finish()

        with SequenceServer("127.0.0.1") as address, ThreadPoolExecutor(4) as tasks:
            written = added_up(part for parts in tasks.map(write, [address] * 4) for part in parts)
        transaction.end(commit=True)
        assert lost.hits == 3
        assert sorted((part.partition, part.records) for part in written) == [(0, 400), (1, 400), (2, 400)]
        counts = Counter((record.partition, record.value) for record in broker.records("out"))
        assert set(counts.values()) == {20}
        assert len(counts) == 60


@pytest.mark.wire
def test_sink_task_refuses_rows_without_a_valid_partition() -> None:
    with Broker() as broker:
        broker.create_topic("out", partitions=2)
        transaction = SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "refused")
        transaction.begin()
        for topics, places, says in (
            (["out", None], [0, None], "a row has no topic"),
            (["out", "x"], [0, None], "a row goes to topic 'x', which does not exist or is not in the option 'topics'"),
            (["out", "out"], [0, 2], "topic 'out' has no partition 2: it has 2"),
            (["out", "out"], [1, -1], "topic 'out' has no partition -1: it has 2"),
        ):
            writer = TaskWriter(Connecting(broker.bootstrap), transaction.producer)
            with pytest.raises(PipelineError, match=says):
                writer.write(columns(topics, places), 1)
            writer.close()
        transaction.end(commit=False)
        assert broker.records("out") == []


@pytest.mark.wire
def test_sink_writes_a_record_of_5_mb_if_the_broker_accepts_it() -> None:
    with Broker() as broker:
        broker.create_topic("large", partitions=1, configs={"max.message.bytes": "6000000"})
        transaction = SharedTransaction(cluster_client(Connecting(broker.bootstrap)), "large")
        transaction.begin()
        writer = TaskWriter(Connecting(broker.bootstrap), transaction.producer, "none")
        values = [b"small", b"x" * 5_000_000, b"small"]
        columns = [pa.array(["large"] * 3), pa.array([0] * 3, pa.int32()), pa.nulls(3, pa.binary()), pa.array(values, pa.binary())]
        names = ["topic", "partition", "key", "value", "headers"]
        writer.write(pa.RecordBatch.from_arrays([*columns, pa.nulls(3, COLUMNS["headers"])], names), 1)
        writer.finish()
        transaction.end(commit=True)
        assert [len(record.value or b"") for record in broker.records("large")] == [5, 5_000_000, 5]


@pytest.mark.wire
@pytest.mark.parametrize("writer", ["tasks", "driver"])
def test_sink_batches_respect_max_message_bytes_of_the_topic(writer: str) -> None:
    """Records that fit individually are split into batches below max.message.bytes."""
    values = [np.random.default_rng(n).bytes(370) for n in range(500)]
    with Broker() as broker:
        broker.create_topic("small", partitions=1, configs={"max.message.bytes": "4000"})
        broker.create_topic("large", partitions=1)
        cluster = cluster_client(Connecting(broker.bootstrap))
        limits = small_batches(cluster, ["small", "large"])
        assert limits.keys() == {"small"}
        assert 3_500 < limits["small"] < 4_000
        if writer == "tasks":
            transaction = SharedTransaction(cluster, "x")
            transaction.begin()
            tasks = TaskWriter(Connecting(broker.bootstrap), transaction.producer, "lz4", limits)
            rows = columns(["small"] * 500, [0] * 500).set_column(3, "value", pa.array(values, pa.binary()))
            tasks.write(rows, 1)
            tasks.finish()
            transaction.end(commit=True)
        else:
            options = SinkOptions(connecting=Connecting(broker.bootstrap), transactional_id="x", topics=("small",))
            by_driver = DriverTransaction(options)
            by_driver.begin()
            by_driver.write([("small", None, value, [], None) for value in values], {"small": 1})
            by_driver.end(commit=True)
            by_driver.close()
        assert [record.value for record in broker.records("small")] == values
