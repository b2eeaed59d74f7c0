"""Spark streams whose source and sink connect to a secured broker, of ottla and of Apache Kafka, with the same options."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import ottla.spark
from ottla.client import KafkaClient, NewRecord
from tests.spark.secured import Secured
from tests.support.raw_client import RawClient, create
from tools.kafka import Unavailable

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

ROWS = 200
WAYS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "mTLS")
"""The ways that Java's options have in common with the sink's. A token function is an option of the sink only."""
QUICK = (("foreachBatch", "mTLS"), ("format", "SCRAM-SHA-512"))
CASES = [
    pytest.param(form, way, marks=[] if (form, way) in QUICK else pytest.mark.nightly)
    for form in ("foreachBatch", "format")
    for way in WAYS
]


@pytest.fixture(scope="module", params=["ottla", pytest.param("kafka", marks=pytest.mark.nightly)])
def secured(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    try:
        made = Secured(tmp_path_factory.mktemp("secured"), request.param)
    except Unavailable as missing:
        pytest.skip(str(missing))
    with made:
        yield made


class Orders:
    """A topic with orders and one dead letter, and topics for a stream's output."""

    def __init__(self, spark: Any, secured: Secured, way: str, form: str) -> None:
        self.options = secured.java_options(way)
        self.name = f"{form}-{way.lower()}"
        self._spark, self._plain = spark, secured.bootstrap
        with RawClient(self._plain) as client:
            for topic in ("orders", "invoices", "dead"):
                create(client, f"{topic}-{self.name}", 2)
        self.add(0)

    def add(self, first: int) -> None:
        values = [json.dumps({"n": n}).encode() for n in range(first, first + ROWS)]
        with KafkaClient(self._plain, timeout_s=60) as client:
            client.produce(f"orders-{self.name}", [NewRecord(value) for value in [*values, b"unreadable"]])

    def read(self, *, streams: bool) -> ottla.spark.DecodedRecords:
        source = {**self.options, "subscribe": f"orders-{self.name}"}
        return ottla.spark.read(self._spark, source, "n LONG", streams=streams)

    def rows(self) -> Any:
        from pyspark.sql import functions as f

        topic = f.lit(f"invoices-{self.name}").alias("topic")
        transformed = lambda good: good.select(topic, f.col("row.n").cast("string").alias("value"))  # noqa: E731
        return self.read(streams=True).written(transformed, f"dead-{self.name}")

    def sink(self) -> dict[str, str]:
        topics = f"invoices-{self.name},dead-{self.name}"
        return {**self.options, "transactional.id": self.name, "topics": topics}

    def written(self, topic: str) -> list[bytes]:
        with KafkaClient(self._plain, timeout_s=60) as client:
            return [record.value or b"" for record in client.records(f"{topic}-{self.name}")]


@pytest.mark.parametrize(("form", "way"), CASES)
def test_stream_reads_and_writes_a_secured_broker_with_one_set_of_options(
    spark: Any, secured: Secured, tmp_path: Path, form: str, way: str
) -> None:
    orders = Orders(spark, secured, way, form)
    assert orders.read(streams=False).good.count() == ROWS
    for first in (0, ROWS):
        if first:
            orders.add(first)
        if form == "foreachBatch":
            writer = orders.rows().writeStream.foreachBatch(ottla.spark.sink(orders.sink()))
        else:
            writer = ottla.spark.arranged(orders.rows(), orders.sink()).writeStream.format("ottla").options(**orders.sink())
        writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start().awaitTermination()
        assert sorted(map(int, orders.written("invoices"))) == list(range(first + ROWS))
    assert orders.written("dead") == [b"unreadable"] * 2
