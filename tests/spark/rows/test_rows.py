"""Which rows the sink accepts, and to which partitions they go. Needs Spark, but no broker."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from ottla.spark.errors import PipelineError
from ottla.spark.rows.murmur2 import partitions_for
from ottla.spark.rows.rows import Bounds, Outgoing, outgoing

pytestmark = [pytest.mark.full, pytest.mark.java]

KEYS = [f"key-{n}".encode() for n in range(50)]
PLACE = "topic STRING, partition INT"
BOUNDS = Bounds(record_bytes=10, rows=100, partition_bytes=100)
TYPES = "array<struct<key:string,value:binary>>"


def test_dataframe_for_the_sink_needs_only_the_value_column(spark: Any) -> None:
    frame = outgoing(spark.createDataFrame([("v", 1)], "VALUE STRING, other INT"), "t")
    assert [tuple(row) for row in frame.collect()] == [("t", None, bytearray(b"v"), None)]
    assert [(f.name, f.dataType.simpleString()) for f in frame.schema.fields] == [
        ("topic", "string"),
        ("key", "binary"),
        ("value", "binary"),
        ("partition", "int"),
    ]
    small = Outgoing("t", BOUNDS).rows(spark.createDataFrame([("v",)], "value STRING"))
    assert small.columns == ["topic", "partition", "content", "number"]


@pytest.mark.parametrize("types", [TYPES, TYPES.replace("key:", "Key:")])
@pytest.mark.parametrize("bounds", [None, BOUNDS])
def test_null_headers_of_rows_become_empty_lists(spark: Any, bounds: Bounds | None, types: str) -> None:
    """Arrow's writer in the JVM needs quadratic time for null lists."""
    rows = [("v", None), ("v", []), ("v", [("h", None)]), ("large value", None), ("large value", [("h", None)])]
    frame = Outgoing("t", bounds).rows(spark.createDataFrame(rows, f"value STRING, headers {types}"))
    assert not frame.schema["headers"].nullable
    large = [] if bounds else [("h", None)]
    shown = [[tuple(header) for header in row.headers] for row in frame.collect()]
    assert shown == [[], [], [("h", None)], [], large]
    assert frame.toArrow().column("headers").null_count == 0


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ([10] * 10, 10),
        ([10] * 10 + [9, 10], 11),
        ([10] * 11, 10),
        ([1] * 100, 100),
        ([1] * 150, 100),
        ([0] * 150, 100),
        ([11, 1], 0),
    ],
)
def test_rows_of_a_spark_partition_are_limited_in_number_and_bytes(spark: Any, sizes: list[int], taken: int) -> None:
    """The eleventh row may have 100 / 11 = 9 bytes."""
    frame = spark.createDataFrame([("v" * size,) for size in sizes], "value STRING").coalesce(1)
    contents = [row.content is not None for row in Outgoing("t", BOUNDS).rows(frame).collect()]
    assert contents[: taken + 1] == [True] * taken + [False] * (len(sizes) > taken)
    assert len(contents) == min(len(sizes), 101)


def test_topic_option_of_the_sink_overrides_the_topic_column(spark: Any) -> None:
    frame = spark.createDataFrame([("a", 3, "k", b"v", [("h", None)])], f"{PLACE}, key STRING, value BINARY, headers {TYPES}")
    assert [(r.topic, r.partition, r.headers[0].key) for r in outgoing(frame, None).collect()] == [("a", 3, "h")]
    assert [r.topic for r in outgoing(frame, "b").collect()] == ["b"]


@pytest.mark.parametrize(
    ("schema", "topic", "says"),
    [
        ("key STRING", "t", "no column 'value': it is what is written; they have key"),
        ("val STRING", "t", "no column 'value': did you mean 'val'?"),
        ("value STRING", None, "no column 'topic': give one, or the option 'topic'"),
        ("value INT", "t", "column 'value' is int; the sink accepts binary or string: cast it"),
        ("value STRING, partition LONG", "t", "column 'partition' is bigint; the sink accepts int"),
        ("value STRING, topic INT", None, "column 'topic' is int; the sink accepts string"),
        ("value STRING, headers STRING", "t", "column 'headers' is string; the sink accepts array<"),
    ],
)
def test_invalid_columns_of_a_dataframe_for_the_sink_are_refused(spark: Any, schema: str, topic: str | None, says: str) -> None:
    with pytest.raises(PipelineError) as refused:
        outgoing(spark.createDataFrame([], schema), topic)
    assert says in str(refused.value)


def rows(spark: Any, given: list[tuple[str | None, bytes | None, int | None]]) -> Any:
    return outgoing(
        spark.createDataFrame(
            [(topic, partition, key, b"v") for topic, key, partition in given], f"{PLACE}, key BINARY, value BINARY"
        ),
        None,
    )


def test_spark_rows_are_partitioned_like_by_kafka_producers(spark: Any) -> None:
    from ottla.spark.rows.spark_partitioner import placed

    frame = rows(spark, [(("a", "b")[n % 2], key, 1 if n % 10 == 0 else None) for n, key in enumerate(KEYS)])
    by_three, by_five = partitions_for(KEYS, 3), partitions_for(KEYS, 5)
    wanted = [1 if n % 10 == 0 else (by_three, by_five)[n % 2][n] for n in range(50)]
    assert [row.partition for row in placed(frame, {"a": 3, "b": 5, "c": 1}).collect()] == wanted


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("b", b"k", None), "a row goes to topic 'b', which does not exist or is not in"),
        ((None, b"k", None), "a row has no topic"),
        (("a", b"k", 3), "topic 'a' has no partition 3: it has 3"),
        (("a", None, -1), "topic 'a' has no partition -1"),
    ],
)
def test_spark_rows_without_a_valid_partition_are_reported(
    spark: Any, row: tuple[Any, ...], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python assigns the partitions in this test. If the JVM does, the writing task refuses such rows (test_task_writer)."""
    from ottla.spark.rows import spark_partitioner as placing
    from ottla.spark.rows.spark_partitioner import placed

    monkeypatch.setattr(placing, "_hashed_by_jvm", lambda session, key: None)
    with pytest.raises(Exception, match=says):
        placed(rows(spark, [("a", b"k", 0), row]), {"a": 3}).collect()
