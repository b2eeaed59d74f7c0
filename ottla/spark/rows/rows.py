"""The columns that the sink accepts and the sources return, with Spark's types."""

from __future__ import annotations

import difflib
import functools
from typing import TYPE_CHECKING, Any

import msgspec

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of a topic's records, as returned by Spark's Kafka connector and the segment source."""

COLUMNS = ("topic", "key", "value", "headers", "partition")
"""The columns that the sink accepts, as in Spark's own Kafka sink. All columns except ``value`` are optional."""
CONTENT = "content"
"""A column of `Outgoing` with key and value of each row; null for a record above the size limit, and for rows beyond the maximum
number."""
NUMBER = "number"
"""A column of `Outgoing`: the number of the row in its Spark partition."""
_NUMBER = f"monotonically_increasing_id() & {(1 << 33) - 1}"
"""Spark's expression for `NUMBER`. The other bits are the number of the partition."""
WRITTEN = "topic STRING, partition INT, records LONG, bytes LONG, stage INT, error STRING"
"""The columns that a task of the sink returns. Errors are returned in a column: if a task raised an error, Spark would retry the
task in vain."""
_BYTES = ("binary", "string")
_TAKEN = {"topic": ("string",), "key": _BYTES, "value": _BYTES, "partition": ("int",)}
_HEADERS = "array<struct<key:string,value:binary>>"


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The largest record, in bytes, the largest number of rows of a Spark partition, and the largest product of a record's size and
    the number of rows in its partition so far."""

    record_bytes: int
    rows: int
    partition_bytes: int


class Outgoing:
    """Selects topic, key, value, headers and partition of every row, in this order and as bytes. If ``topic`` is not None, a column
    ``topic`` is ignored.

    Frames without headers get no column ``headers``, and no list of headers is null: for each null list, Arrow's writer in the JVM
    searches for the last list that is not null (ListVector.setNull), which takes quadratic time.

    The column expressions are cached while frames have the same schema, because building them takes ten calls to the JVM.
    """

    def __init__(self, topic: str | None, bounds: Bounds | None = None) -> None:
        """With ``bounds``, the columns are topic, partition, `CONTENT`, `NUMBER` and headers, and at most one row beyond the
        largest number is selected."""
        self._topic = topic
        self._bounds = bounds
        self._schema = ""
        """The schema, as JSON, of the frames for which the cached columns are valid."""
        self._jvm: Any = None
        self._columns: Any = None
        self._is_selected: Any = None

    def rows(self, frame: DataFrame) -> DataFrame:
        """Select the columns of a frame. Null partitions are replaced later. Raises `PipelineError` for columns that are missing or
        have another type."""
        from pyspark.sql import DataFrame

        of_java: Any = frame._jdf
        jvm, schema = frame.sparkSession.sparkContext._jvm, str(of_java.schema().json())
        if schema != self._schema or jvm is not self._jvm:
            self._columns = self._built(frame)
            self._schema, self._jvm = schema, jvm
        selected = of_java.select(self._columns)
        return DataFrame(selected if self._bounds is None else selected.filter(self._is_selected), frame.sparkSession)

    def _built(self, frame: DataFrame) -> Any:
        from pyspark.sql import functions as f

        given = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
        check_columns(given, has_topic=self._topic is not None)
        topic = f.col("topic") if self._topic is None else f.lit(self._topic).alias("topic")
        partition = f.expr("partition" if "partition" in given else "CAST(NULL AS INT) AS partition")
        contents = [
            f.expr("CAST(key AS BINARY) AS key" if "key" in given else "CAST(NULL AS BINARY) AS key"),
            f.expr("CAST(value AS BINARY) AS value"),
        ]
        classic: Any = frame
        if self._bounds is None:
            headers = [f.expr("coalesce(headers, array()) AS headers")] if "headers" in given else []
            return classic._jcols(topic, *contents, *headers, partition)
        most = self._bounds
        largest = f"LEAST({most.record_bytes}, {most.partition_bytes} DIV (({_NUMBER}) + 1))"
        is_taken = f"{_NUMBER} < {most.rows} AND {_size_of(given)} <= {largest}"
        shown = f.expr(f"coalesce(IF({is_taken}, headers, NULL), array()) AS headers")
        content = f.when(f.expr(is_taken), f.struct(*contents)).alias(CONTENT)
        number = f.expr(f"{_NUMBER} AS {NUMBER}")
        condition: Any = f.col(NUMBER) <= most.rows
        self._is_selected = condition._jc
        return classic._jcols(topic, partition, content, number, *([shown] if "headers" in given else []))


def _size_of(given: dict[str, str]) -> str:
    """Return Spark's expression for the size of key, value and headers. A concatenation is analysed faster than a sum, and is never
    null."""
    texts = [f"CAST({name} AS STRING)" for name in ("key", "value") if name in given]
    if "headers" in given:
        texts += ["headers.key", "CAST(headers.value AS ARRAY<STRING>)"]
    return f"octet_length(concat_ws('', {', '.join(texts)}))"


def outgoing(frame: DataFrame, topic: str | None) -> DataFrame:
    """Select the columns of one DataFrame; see `Outgoing.rows`."""
    return Outgoing(topic).rows(frame)


@functools.cache
def written_type() -> StructType:
    """Return the type of `WRITTEN`, cached because Spark's JVM would parse the text in every batch."""
    from pyspark.sql import types

    kinds = {"STRING": types.StringType(), "INT": types.IntegerType(), "LONG": types.LongType()}
    parts = (part.split() for part in WRITTEN.split(", "))
    return types.StructType([types.StructField(name, kinds[kind]) for name, kind in parts])


def check_arranged(schema: StructType) -> None:
    """Raise `PipelineError` for a schema that is not the result of `ottla.spark.arranged`."""
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    wanted = {"topic": "string", "key": "binary", "value": "binary", "headers": _HEADERS, "partition": "int"}
    if {"headers": _HEADERS} | given != wanted:
        raise PipelineError(
            "format('ottla') needs the result of ottla.spark.arranged(frame, options): all rows of a partition in one task"
        )


def check_columns(given: dict[str, str], *, has_topic: bool) -> None:
    """Raise `PipelineError` if a frame with these columns and types cannot be written."""
    for name in ("value", *(() if has_topic else ("topic",))):
        if name not in given:
            meant = difflib.get_close_matches(name, given, 1)
            else_say = "give one, or the option 'topic'" if name == "topic" else "it is what is written"
            raise PipelineError(
                f"the rows have no column {name!r}: {f'did you mean {meant[0]!r}?' if meant else else_say}; they have"
                f" {', '.join(given)}"
            )
    for name, kinds in _TAKEN.items():
        if given.get(name, kinds[0]) not in kinds and not (name == "topic" and has_topic):
            raise PipelineError(f"column {name!r} is {given[name]}; the sink accepts {' or '.join(kinds)}: cast it")
    headers = given.get("headers", _HEADERS)
    if headers.lower() != _HEADERS:
        raise PipelineError(f"column 'headers' is {headers}; the sink accepts {_HEADERS}")
