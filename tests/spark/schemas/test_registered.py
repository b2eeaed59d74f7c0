"""Columns with values of a schema registry, written and read by Spark."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from tests.spark.registry_server import registry_server

pytestmark = [pytest.mark.wire, pytest.mark.full, pytest.mark.java]

SCHEMA = "id LONG, name STRING, price DOUBLE, raw BINARY, ok BOOLEAN"
ROWS = [(1, "a", 1.5, bytearray(b"x"), True), (None, None, None, None, None), (1 << 60, "ü", -0.0, bytearray(), False)]


def test_schema_registry_values_in_spark_round_trip(spark: Any) -> None:
    from pyspark.sql import functions as f

    from ottla.spark.schemas.registered import from_registry, to_registry

    with registry_server() as (server, registry):
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
        assert list(server.subjects) == ["t-value"]
