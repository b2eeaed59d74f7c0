"""`ottla.spark.read` of values of a schema registry, and of Avro without a header: good rows and dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

import ottla.spark
from ottla import Broker
from ottla.client import KafkaClient, NewRecord
from ottla.client.schema_registry.framing import framed
from ottla.client.schema_registry.protobuf_messages import ProtobufMessages
from ottla.client.schema_registry.registry_client import PROTOBUF
from ottla.spark.schemas.decoded_records import decoded
from ottla.spark.schemas.formats import AVRO
from ottla.spark.schemas.registry import Registry, RegistryClient

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

PROTOBUF_ROW = """syntax = "proto3"; message Row { int64 id = 1; string name = 2; repeated string more = 3; }"""
AVRO_FIELDS = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}]
AVRO_ROW = json.dumps({"type": "record", "name": "Row", "fields": AVRO_FIELDS})


def test_values_of_a_registry_are_read_and_others_become_dead_letters_once(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as f

    with Broker(schema_registry=True) as broker:
        for topic in ("in", "out", "dead"):
            broker.create_topic(topic, partitions=2)
        registry = Registry(broker.schema_registry_url)
        client = RegistryClient(registry)
        protobuf, avro = client.register("in-value", PROTOBUF_ROW, PROTOBUF), client.register("avro-value", AVRO_ROW)
        messages = ProtobufMessages(protobuf, client)
        good = [framed(protobuf, messages.written({"id": n, "name": f"n{n}"})) for n in range(50)]
        good += [framed(avro, bytes([2 * n, 6]) + b"n%d" % n) for n in range(50, 60)]
        bad = [b"", b"{}", framed(protobuf, b"\0\x12\x09n"), framed(9_999, b"x"), framed(avro, b"x")]
        with KafkaClient(broker.bootstrap) as kafka:
            kafka.produce("in", [NewRecord(value, key=b"k%d" % n) for n, value in enumerate([*good, *bad, None])])
        source = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "in", "maxOffsetsPerTrigger": "30"}
        events = ottla.spark.read(spark, source, "id LONG, name STRING", values=registry)
        rows = events.written(lambda g: g.select(f.lit("out").alias("topic"), "key", f.to_json("row").alias("value")), "dead")
        options = {"kafka.bootstrap.servers": broker.bootstrap, "transactional.id": "registry", "topics": "out,dead"}
        with ottla.spark.sink(options) as sink:
            for _ in range(2):
                writer = rows.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "cp"))
                writer.trigger(availableNow=True).start().awaitTermination()
                # Undo Spark's commit, as if the driver had been killed before Spark committed the last batch.
                commits = tmp_path / "cp" / "commits"
                last = max(int(path.name) for path in commits.iterdir() if path.name.isdecimal())
                for name in (f"{last}", f".{last}.crc"):
                    (commits / name).unlink()
            assert sink.metrics.replays == 1
        written = sorted((json.loads(record.value or b"") for record in broker.records("out")), key=lambda row: row["id"])
        assert written == [{"id": n, "name": f"n{n}"} for n in range(60)]
        letters = broker.records("dead")
        assert sorted(letter.value or b"" for letter in letters) == sorted([*bad, b""])
        reasons = {letter.value: dict(letter.headers)["ottla.reason"] for letter in letters}
        assert reasons.pop(None) == b"the value is null"
        unreadable = b"the value is not an Avro record or a Protobuf message with a schema of the registry"
        assert set(reasons.values()) == {unreadable}


def test_avro_values_without_a_header_are_read(spark: Any) -> None:
    schema = "id LONG, name STRING"
    rows = [{"id": n, "name": f"n{n}"} for n in range(3)]
    values = [*(AVRO.pack(row, schema) for row in rows), b"x", framed(7, AVRO.pack(rows[0], schema)), None]
    columns = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
    frame = spark.createDataFrame([(None, value, "t", 0, n, None) for n, value in enumerate(values)], columns)
    records = decoded(frame, schema, "avro")
    assert [row["row"].asDict() for row in records.good.orderBy("offset").collect()] == rows
    letters = records.dead_letters("dead").collect()
    reasons = [bytes(header.value) for letter in letters for header in letter.headers if header.key == "ottla.reason"]
    assert sorted(reasons) == [
        b"the value begins with a schema registry's header (schema 7)",
        b"the value is not one Avro record of the schema",
        b"the value is null",
    ]
