"""Chooses the partition of each row of Arrow columns. The module does not depend on Spark."""

from __future__ import annotations

from collections.abc import Container, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.errors import PipelineError
from ottla.spark.rows.murmur2 import partitions_for


def chosen(
    topics: pa.Array, keys: pa.Array, asked: pa.Array, partitions: Mapping[str, int], start: int = 0
) -> npt.NDArray[np.int32]:
    """Return the partition of each row: the partition in ``asked``, or for null the partition that Kafka's producers choose by key.

    ``partitions`` has the partition count by topic. Rows without a key are assigned round-robin, beginning with ``start``, so that
    a repeated batch assigns the same partitions, but not every batch begins with partition 0. Raises `PipelineError` for a topic or
    partition that does not exist.
    """
    encoded = pc.dictionary_encode(topics, null_encoding="encode")
    codes = np.asarray(encoded.indices)
    places = np.empty(len(topics), np.int32)
    names = encoded.dictionary.to_pylist()
    for code, name in enumerate(names):
        check_topic(name, partitions)
        where = np.flatnonzero(codes == code)
        of_topic = keys if len(names) == 1 else keys.take(pa.array(where))
        places[where] = partitions_for(of_topic.to_pylist(), partitions[name], start)
    if asked.null_count < len(asked):
        places = np.where(np.asarray(asked.is_valid()), np.asarray(asked.fill_null(0)), places).astype(np.int32)
        limits = np.array([partitions[name] for name in names])[codes]
        beyond = np.flatnonzero((places < 0) | (places >= limits))
        if len(beyond):
            at = int(beyond[0])
            check_place(names[codes[at]], int(places[at]), partitions)
    return places


def check_topic(name: str | None, topics: Container[str]) -> None:
    """Raise `PipelineError` if rows cannot be written to a topic."""
    if name is None:
        raise PipelineError("a row has no topic")
    if name not in topics:
        raise PipelineError(f"a row goes to topic {name!r}, which does not exist or is not in the option 'topics'")


def check_place(topic: str | None, partition: int | None, partitions: Mapping[str, int]) -> None:
    """Raise `PipelineError` if a row cannot be written to a partition; None means any partition."""
    check_topic(topic, partitions)
    if partition is not None and topic is not None and not 0 <= partition < partitions[topic]:
        raise PipelineError(f"topic {topic!r} has no partition {partition}: it has {partitions[topic]}")


def with_places(rows: pa.RecordBatch, partitions: Mapping[str, int], start: int = 0) -> pa.RecordBatch:
    """Return the columns topic, key, value, headers and partition. Null partitions are replaced by those that `chosen` returns.
    Raises `PipelineError`."""
    if not len(rows):
        return rows
    places = chosen(rows.column("topic"), rows.column("key"), rows.column("partition"), partitions, start)
    return rows.set_column(rows.schema.get_field_index("partition"), "partition", pa.array(places))
