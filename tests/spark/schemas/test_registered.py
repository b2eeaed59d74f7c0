"""Columns with values of a schema registry, written and read by Spark: the registry is that of an ottla broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("avro")
pytest.importorskip("grpc_tools")

from ottla import Broker
from ottla.client.security.client_config import Secret
from ottla.spark.schemas.registry import Registry
from tests.spark.own_registry import ask

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

SCHEMA = "id LONG, name STRING, price DOUBLE, raw BINARY, ok BOOLEAN"
ROWS = [(1, "a", 1.5, bytearray(b"x"), True), (None, None, None, None, None), (1 << 60, "ü", -0.0, bytearray(), False)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(schema_registry=True) as made:
        yield made


def test_schema_registry_values_in_spark_round_trip(spark: Any, broker: Broker) -> None:
    from pyspark.sql import functions as f

    from ottla.spark.schemas.registered import from_registry, to_registry

    registry = Registry(broker.schema_registry_url)
    frame = spark.createDataFrame(ROWS, SCHEMA)
    framed = frame.select(to_registry(f.struct(*frame.columns), registry, "t-value", SCHEMA).alias("value"))
    undecodable = [(None,), (bytearray(),), (bytearray(b"{}"),), (bytearray(b"\0\0\0\0\1x"),)]
    values = framed.union(spark.createDataFrame(undecodable, "value BINARY"))
    read = values.select("value", from_registry(f.col("value"), registry, SCHEMA).alias("row"))
    rows = [row["row"] for row in read.collect()]
    assert [tuple(row) for row in rows[:3]] == ROWS
    assert rows[3:] == [None] * 4
    assert read.where("row IS NULL").count() == 4
    assert read.where("row IS NULL AND value IS NOT NULL").count() == 3
    again = read.select(to_registry(f.col("row"), registry, "t-value", SCHEMA).alias("value"))
    assert [row["value"] for row in again.collect()] == [row["value"] for row in framed.collect()] + [None] * 4
    assert "t-value" in ask(registry, "/subjects")
    assert ask(registry, "/subjects/t-value/versions") == [1]


def test_spark_and_confluents_serialisers_read_each_others_values(spark: Any, broker: Broker) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
    from confluent_kafka.serialization import MessageField, SerializationContext
    from pyspark.sql import functions as f

    from ottla.spark.schemas.avro import avro_schema
    from ottla.spark.schemas.registered import from_registry, to_registry

    registry, stock = Registry(broker.schema_registry_url), SchemaRegistryClient({"url": broker.schema_registry_url})
    at = SerializationContext("shared", MessageField.VALUE)
    serialiser = AvroSerializer(stock, avro_schema("id LONG, name STRING"))
    values = [(bytearray(serialiser(record, at)),) for record in ({"id": 7, "name": "n"}, {"id": None, "name": None})]
    read = spark.createDataFrame(values, "value BINARY").select(
        from_registry(f.col("value"), registry, "id LONG, name STRING, price DOUBLE").alias("row")
    )
    assert [tuple(row["row"]) for row in read.collect()] == [(7, "n", None), (None, None, None)]
    wider = "id LONG, name STRING, price DOUBLE"
    frame = spark.createDataFrame([(8, "m", 1.5), (None, None, None)], wider)
    written = frame.select(to_registry(f.struct(*frame.columns), registry, "shared-value", wider).alias("value")).collect()
    decoded = [AvroDeserializer(stock)(bytes(row["value"]), at) for row in written]
    assert decoded == [{"id": 8, "name": "m", "price": 1.5}, {"id": None, "name": None, "price": None}]
    assert ask(registry, "/subjects/shared-value/versions") == [1, 2]


def test_spark_sends_its_password_to_a_secured_brokers_registry(spark: Any) -> None:
    from pyspark.sql import functions as f

    from ottla.spark.schemas.registered import from_registry, to_registry

    with Broker(security="SASL_PLAINTEXT", users={"alice": "secret"}, schema_registry=True) as broker:
        token = broker.schema_registry_token
        assert token
        registry = Registry(broker.schema_registry_url, user="spark", password=Secret(token))
        frame = spark.createDataFrame([(1,)], "id LONG")
        framed = frame.select(to_registry(f.struct("id"), registry, "secured-value", "id LONG").alias("value"))
        read = framed.select(from_registry(f.col("value"), registry, "id LONG").alias("row"))
        assert [tuple(row["row"]) for row in read.collect()] == [(1,)]
