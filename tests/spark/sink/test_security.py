"""Every authentication method of a secured broker, of ottla and of Apache Kafka, with transactions of tasks and of the driver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer

from ottla.client.security.client_config import Connecting
from ottla.spark.checkpoint.checkpoint import InputEnds
from ottla.spark.cluster.client import cluster_client
from ottla.spark.cluster.topics import partition_counts
from ottla.spark.errors import PipelineError
from ottla.spark.segments.reading import COLUMNS
from ottla.spark.sink.driver import DriverTransaction
from ottla.spark.sink.exactly_once import ExactlyOnce
from ottla.spark.sink.options import SinkOptions
from ottla.spark.sink.task_writer import TaskWriter, Written
from ottla.spark.sink.transaction import SharedProducer, SharedTransaction
from tests.spark.secured import WAYS, Secured
from tests.spark.stock_settings import settings_of
from tests.support.raw_client import RawClient, create
from tests.wire.secured import LOGIN
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full]

ROWS = 500


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.java)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    try:
        made = Secured(tmp_path_factory.mktemp("secured"), request.param)
    except Unavailable as missing:
        pytest.skip(str(missing))
    with made, RawClient(made.bootstrap) as client:
        create(client, "out", 2)
        yield made


def committed(connecting: Connecting, prefix: bytes) -> list[bytes]:
    """Return the values with this prefix that a read_committed consumer of librdkafka gets over the same connection settings."""
    settings = {"group.id": "reads", "isolation.level": "read_committed", "auto.offset.reset": "earliest", "log_level": 0}
    consumer = Consumer({**settings_of(connecting), **settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.subscribe(["out"])
    values: list[bytes] = []
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < 2:
        assert time.monotonic() < deadline
        message = consumer.poll(1.0)
        if message is not None and message.error() is not None:
            ended.add(message.partition())
        elif message is not None:
            values.append(message.value() or b"")
    consumer.close()
    return sorted(value for value in values if value.startswith(prefix))


@pytest.mark.parametrize("way", WAYS)
def test_sink_tasks_write_to_a_secured_cluster_in_a_shared_transaction(secured: Secured, way: str) -> None:
    connecting = Connecting.parse(secured.options(way))
    name = f"tasks-{way}"

    def tasks(producer: SharedProducer) -> list[Written]:
        writer = TaskWriter(connecting, producer)
        values = [f"{name}-{n:05d}".encode() for n in range(ROWS)]
        arrays = [["out"] * ROWS, [n % 2 for n in range(ROWS)], values, values, [None] * ROWS]
        types = [pa.string(), pa.int32(), pa.binary(), pa.binary(), COLUMNS["headers"]]
        columns = [pa.array(array, kind) for array, kind in zip(arrays, types, strict=True)]
        writer.write(pa.RecordBatch.from_arrays(columns, ["topic", "partition", "key", "value", "headers"]), 1)
        return writer.finish()

    ends = InputEnds("x", {("out", 0): 0})
    with closing(cluster_client(connecting)) as cluster:
        stream = ExactlyOnce(SharedTransaction(cluster, name), "run")
        stream.start()
        assert stream.write("q", 0, tasks, ends).records == ROWS
        assert stream.write("q", 0, tasks, ends).is_replay
    assert committed(connecting, name.encode()) == [f"{name}-{n:05d}".encode() for n in range(ROWS)]


@pytest.mark.parametrize("way", WAYS)
def test_sink_driver_writes_to_a_secured_cluster_in_a_transaction(secured: Secured, way: str) -> None:
    connecting = Connecting.parse(secured.options(way))
    name = f"driver-{way}"
    rows = [("out", None, f"{name}-{n:05d}".encode(), [], None) for n in range(ROWS)]
    options = SinkOptions(connecting=connecting, transactional_id=name)
    with closing(cluster_client(connecting)) as cluster, closing(DriverTransaction(options)) as transaction:
        counts = partition_counts(cluster, ("out",))
        stream = ExactlyOnce(transaction, "run")
        stream.start()
        stream.write("q", 0, lambda me: me.write(rows, counts), InputEnds("x", {("out", 0): 0}))
    assert committed(connecting, name.encode()) == [row[2] for row in rows]


WRONG: list[tuple[str, Callable[[Secured], dict[str, Any]], str]] = [
    (
        "password",
        lambda s: s.options("PLAIN", **{"sasl.jaas.config": _jaas("plain.Plain", "wrong")}),
        "authentication of 'shop' by PLAIN",
    ),
    ("secret of SCRAM", lambda s: s.options("SCRAM-SHA-256", **{"sasl.jaas.config": _jaas("scram.Scram", "wrong")}), "failed: "),
    ("port", lambda s: s.options("PLAIN", **{"bootstrap.servers": s.bootstrap}), "kafka.security.protocol"),
    ("protocol", lambda s: {"kafka.bootstrap.servers": s.options("mTLS")["kafka.bootstrap.servers"]}, "kafka.security.protocol"),
]


def _jaas(module: str, password: str) -> str:
    return f'{LOGIN}.{module}LoginModule required username="shop" password="{password}";'


@pytest.mark.parametrize(("options", "says"), [case[1:] for case in WRONG], ids=[case[0] for case in WRONG])
def test_sink_error_names_the_reason_why_authentication_was_refused(
    secured: Secured, options: Callable[[Secured], dict[str, Any]], says: str
) -> None:
    client = cluster_client(Connecting.parse(options(secured)), timeout_s=60)
    with closing(client) as cluster, pytest.raises(PipelineError) as refused:
        cluster.leader_nodes("out")
    assert says in str(refused.value)
    assert "wrong" not in str(refused.value)
