"""Headers of decoded records. Needs Spark, but no broker."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.spark.schemas.decoded_records import decoded

pytestmark = [pytest.mark.full, pytest.mark.java]

COLUMNS = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
HEADERS = "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
VALUES = [b'{"n": 1}', b'{"n": 2}', b'{"n": 3}', b"wrong", b"wrong"]
GIVEN = [None, [], [("h", b"x"), ("n", None)], None, [("h", b"x")]]
"""The headers of the values. Spark's Kafka connector gives null for a record without headers."""


def names(headers: Any) -> list[str]:
    return [key for key, _ in headers]


def test_decoded_record_without_headers_has_an_empty_header_list(spark: Any) -> None:
    """Arrow's writer in the JVM needs quadratic time for null lists, also if the user's own function gets the rows."""
    rows = [(None, value, "t", 0, n, None, GIVEN[n]) for n, value in enumerate(VALUES)]
    records = decoded(spark.createDataFrame(rows, f"{COLUMNS}, {HEADERS}"), "n LONG")
    good = records.good.orderBy("offset")
    assert [[tuple(h) for h in row.headers] for row in good.collect()] == [[], [], GIVEN[2]]
    assert good.toArrow().column("headers").null_count == 0
    letters = records.dead_letters("dead").orderBy("headers").collect()
    assert sorted(names(letter.headers) for letter in letters) == [
        ["h", "ottla.source", "ottla.reason"],
        ["ottla.source", "ottla.reason"],
    ]


def test_decoded_records_of_a_source_without_headers_have_empty_header_lists(spark: Any) -> None:
    rows = [(None, value, "t", 0, n, None) for n, value in enumerate(VALUES)]
    records = decoded(spark.createDataFrame(rows, COLUMNS), "n LONG")
    headers = records.good.toArrow().column("headers")
    assert (headers.null_count, headers.to_pylist()) == (0, [[], [], []])
    assert [names(letter.headers) for letter in records.dead_letters("dead").collect()] == [["ottla.source", "ottla.reason"]] * 2


def test_user_decode_function_gets_no_null_header_list(spark: Any) -> None:
    rows = [(None, b'{"n": 1}', "t", 0, n, None, None) for n in range(100)]
    good = decoded(spark.createDataFrame(rows, f"{COLUMNS}, {HEADERS}"), "n LONG").good

    def counted(batches: Any) -> Any:
        import pyarrow as pa

        for batch in batches:
            yield pa.RecordBatch.from_pydict({"nulls": [batch.column("headers").null_count]})

    assert sum(row.nulls for row in good.mapInArrow(counted, "nulls LONG").collect()) == 0
