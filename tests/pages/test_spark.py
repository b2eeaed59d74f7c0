"""The blocks of docs/spark.md are run with a Spark session and a broker with a schema registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.spark.schemas.registry import Registry
from tests.pages import catalogue
from tests.pages.blocks import block
from tests.spark.own_registry import ask

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

PURCHASES = 20


def test_spark_code_blocks_of_the_docs_run_in_sequence(spark: Any, tmp_path: Path) -> None:
    """The blocks write purchases by foreachBatch, from the committed offsets, by format name, and with a schema registry."""
    foreach_batch, committed, by_name, listening, registered = (block(name).text for name in catalogue.SPARK_PROGRAMS)
    with Broker(schema_registry=True) as broker:
        for topic in ("purchases", "invoices", "copies", "dead-letters"):
            broker.create_topic(topic, partitions=2)
        with KafkaClient(broker.bootstrap) as cluster:
            cluster.produce("purchases", [NewRecord(str(number).encode()) for number in range(PURCHASES)])
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "purchases", "startingOffsets": "earliest"}
        named: dict[str, Any] = {"spark": spark, "path": str(tmp_path / "by-name")}
        named["frame"] = spark.readStream.format("kafka").options(**source).load()
        named["options"] = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "copies", "topic": "copies"}

        def run(text: str) -> None:
            for given, own in {
                "broker:9092": broker.bootstrap,
                "s3a://bucket/": f"{tmp_path}/",
                "https://registry:8081": broker.schema_registry_url,
            }.items():
                text = text.replace(given, own)
            exec(compile(text, "docs/spark.md", "exec"), named)

        run(foreach_batch)
        run(listening)
        named["query"].processAllAvailable()
        named["query"].stop()
        assert {int(record.value or b"") for record in broker.records("invoices")} == set(range(PURCHASES))
        assert named["listener"] is not None
        run(f"rest = {committed.strip()}")
        rest = named["rest"].option("kafka.bootstrap.servers", broker.bootstrap).option("subscribe", "purchases").load()
        queried = rest.writeStream.foreachBatch(named["sink"]).option("checkpointLocation", str(tmp_path / "anew"))
        queried.trigger(availableNow=True).start().awaitTermination()
        assert len(broker.records("invoices")) == PURCHASES
        named["frame"] = named["frame"].selectExpr("key", "value")
        run(by_name.replace("rows.writeStream", "query = rows.writeStream"))
        named["query"].processAllAvailable()
        named["query"].stop()
        assert len(broker.records("copies")) == PURCHASES
        run(registered)
        rows = spark.createDataFrame([(1, "a")], "id LONG, name STRING")
        read = rows.select(named["value"].alias("value")).select(named["row"].alias("row")).select("row.*").collect()
        assert [tuple(row) for row in read] == [(1, "a")]
        assert ask(Registry(broker.schema_registry_url), "/subjects") == ["invoices-value"]
