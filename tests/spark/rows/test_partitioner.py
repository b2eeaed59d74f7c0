"""The partition of each record, for columns as Spark's tasks get them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.errors import PipelineError
from ottla.spark.rows.murmur2 import partitions_for
from ottla.spark.rows.partitioner import with_places

COUNTS = {"a": 3, "b": 5, "c": 1}
ROWS = st.lists(
    st.sampled_from(sorted(COUNTS)).flatmap(
        lambda topic: st.tuples(st.just(topic), st.none() | st.binary(max_size=9), st.none() | st.integers(0, COUNTS[topic] - 1))
    ),
    max_size=30,
)


def batch(rows: list[tuple[str | None, bytes | None, int | None]]) -> pa.RecordBatch:
    topics, keys, asked = (list(column) for column in zip(*rows, strict=True)) if rows else ([], [], [])
    arrays = [pa.array(topics, pa.string()), pa.array(keys, pa.binary()), pa.array(asked, pa.int32())]
    return pa.RecordBatch.from_arrays(arrays, ["topic", "key", "partition"])


@pytest.mark.smoke
@given(ROWS)
def test_spark_row_is_written_to_the_partition_of_its_partition_column_or_key(
    rows: list[tuple[str, bytes | None, int | None]],
) -> None:
    placed = with_places(batch(rows), COUNTS)
    assert placed.column("topic").to_pylist() == [topic for topic, _, _ in rows]
    for (topic, key, asked), place in zip(rows, placed.column("partition").to_pylist(), strict=True):
        if asked is not None:
            assert place == asked
        elif key is not None:
            assert [place] == partitions_for([key], COUNTS[topic])
        else:
            assert 0 <= place < COUNTS[topic]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (("d", b"k", None), "a row goes to topic 'd', which does not exist or is not in the option 'topics'"),
        ((None, b"k", None), "a row has no topic"),
        (("a", b"k", 3), "topic 'a' has no partition 3: it has 3"),
        (("b", None, -1), "topic 'b' has no partition -1: it has 5"),
    ],
)
def test_spark_row_with_an_invalid_partition_is_reported(row: tuple[str | None, bytes | None, int | None], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        with_places(batch([("a", b"k", 0), row]), COUNTS)


def test_small_batches_of_records_without_a_key_reach_all_partitions() -> None:
    """If each batch started at the same partition, batches of two records would only reach two partitions. A repeated batch starts
    where it started before."""
    rows = batch([("b", None, None), ("b", None, None)])
    places = [with_places(rows, COUNTS, start).column("partition").to_pylist() for start in range(5)]
    assert {place for pair in places for place in pair} == set(range(5))
    assert places == [with_places(rows, COUNTS, start).column("partition").to_pylist() for start in range(5)]
