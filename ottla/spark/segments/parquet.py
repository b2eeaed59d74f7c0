"""Writes the records of a split as a Parquet file in the task that reads the split, so that no record passes through the JVM."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ottla.spark.segments.reading import COLUMNS, Split, read

ROW_GROUP_BYTES = 64 << 20
"""Minimum size of a row group except the last, in bytes of records in memory."""
_REPEATING = ["key", "topic", "partition", "timestampType"]
"""Columns with few different values. They are dictionary-encoded."""


def write(split: Split, directory: str, number: int) -> int:
    """Write the file and return the number of records. The file has a hidden temporary name until it is complete. A killed task
    leaves the hidden file, which readers of Parquet ignore; a retried task replaces the complete file."""
    schema = pa.schema(list(COLUMNS.items()))
    aside = Path(directory, f".{number:05d}-{uuid.uuid4().hex}")
    count = 0
    with pq.ParquetWriter(aside, schema, use_dictionary=_REPEATING) as writer:
        for table in _row_groups(read(split, list(COLUMNS)), schema):
            writer.write_table(table)
            count += table.num_rows
    aside.replace(Path(directory, f"part-{number:05d}.parquet"))
    return count


def _row_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size_bytes = 0
    for batch in batches:
        held.append(batch)
        size_bytes += batch.nbytes
        if size_bytes >= ROW_GROUP_BYTES:
            yield pa.Table.from_batches(held, schema)
            held, size_bytes = [], 0
    if held:
        yield pa.Table.from_batches(held, schema)
