"""Collects the rows of a frame in Arrow format, and cancels the Spark job when the rows that have arrived are too many.

`DataFrame.toArrow` returns after all rows have arrived in the driver. Spark's JVM passes the rows on partition by partition, in the
order in which tasks end, so that Python can stop reading early. This module reads the stream as PySpark's
``PandasConversionMixin._collect_as_arrow`` does (Spark 3.5 to 4.3).
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_INT_BYTES: Final = 4
_FAILED: Final = -1
"""The number of batches that Spark's JVM sends if the job has failed."""
_numbers = itertools.count()


def collected(rows: DataFrame, is_accepted: Callable[[pa.RecordBatch], bool]) -> pa.Table | None:
    """Return the rows of a frame in the frame's order. Returns None, and cancels the Spark job, as soon as ``is_accepted`` is false
    for a batch of rows. Raises the errors of `DataFrame.toArrow`."""
    from pyspark.errors.exceptions.captured import unwrap_spark_exception

    context, frame = rows.sparkSession.sparkContext, rows._jdf
    tag = f"ottla: rows of a small batch {next(_numbers)}"
    # The job runs in a thread of the JVM that inherits the tag.
    context.addJobTag(tag)
    try:
        port, secret, server = frame.collectAsArrowToPython()
    finally:
        context.removeJobTag(tag)
    try:
        with _connected(port, secret) as stream:
            table = received(stream, is_accepted)
            if table is None:
                context.cancelJobsWithTag(tag)
    except Exception:
        with unwrap_spark_exception():
            server.getResult()
        raise
    # Wait for the end of the job. A cancelled job ends with an error.
    with contextlib.suppress(Exception) if table is None else unwrap_spark_exception():
        server.getResult()
    return table


def received(stream: IO[bytes], is_accepted: Callable[[pa.RecordBatch], bool]) -> pa.Table | None:
    """Read record batches, and the order of the batches. Returns None after the first batch that is not accepted. Raises
    RuntimeError if the job has failed."""
    batches: list[pa.RecordBatch] = []
    with pa.ipc.open_stream(stream) as reader:
        for batch in reader:
            if not is_accepted(batch):
                return None
            batches.append(batch)
        schema = reader.schema
    count = _read_int(stream)
    if count == _FAILED:
        raise RuntimeError(stream.read(_read_int(stream)).decode())
    return pa.Table.from_batches([batches[_read_int(stream)] for _ in range(count)], schema)


def _read_int(stream: IO[bytes]) -> int:
    data = stream.read(_INT_BYTES)
    if len(data) < _INT_BYTES:
        raise EOFError("Spark's driver closed the connection before the end of the rows")
    return int.from_bytes(data, "big", signed=True)


class _Unread:
    """A serializer for PySpark that returns the connection."""

    def load_stream(self, stream: IO[bytes]) -> IO[bytes]:
        return stream


def _connected(port: Any, secret: Any) -> contextlib.AbstractContextManager[IO[bytes]]:
    """Connect to the JVM's thread that sends the rows. Leaving the context closes the connection."""
    from pyspark.sql.pandas import conversion

    # Returns the serializer's result, here a file, before Spark 4.2, and since then a context manager.
    opened: contextlib.AbstractContextManager[IO[bytes]] = conversion._load_from_socket((port, secret), _Unread())
    return opened
