"""The columns that the sink takes and the sources give, with Spark's types."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RECORD = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)
"""The columns of a topic's records, as the stock connector and the segment source give them."""

COLUMNS = ("topic", "key", "value", "headers", "partition")
"""The columns that the sink takes, as Spark's own Kafka sink does. All but ``value`` may be left out."""
_BYTES = ("binary", "string")
_TAKEN = {"topic": ("string",), "key": _BYTES, "value": _BYTES, "partition": ("int",)}
_HEADERS = "array<struct<key:string,value:binary>>"


def outgoing(frame: DataFrame, topic: str | None) -> DataFrame:
    """The topic, key, value, headers and partition of every row, in that order and as bytes. ``topic`` wins over a column of that
    name.

    A null partition leaves the choice to the key. Raises `PipelineError` for columns that are missing or have another type.
    """
    from pyspark.sql import functions as f

    given = {field.name.lower(): field.dataType.simpleString() for field in frame.schema.fields}
    _check(given, has_topic=topic is not None)
    # The expressions are SQL text: each column that is built by calls costs a millisecond in every batch.
    expressions = [
        "topic",
        "CAST(key AS BINARY) AS key" if "key" in given else "CAST(NULL AS BINARY) AS key",
        "CAST(value AS BINARY) AS value",
        "headers" if "headers" in given else f"CAST(NULL AS {_HEADERS}) AS headers",
        "partition" if "partition" in given else "CAST(NULL AS INT) AS partition",
    ]
    named = frame if topic is None else frame.withColumn("topic", f.lit(topic))
    return named.selectExpr(*expressions)


def check_arranged(schema: StructType) -> None:
    """Raises `PipelineError` for rows that were not made by `ottla.spark.arranged`."""
    given = {field.name: field.dataType.simpleString() for field in schema.fields}
    wanted = {"topic": "string", "key": "binary", "value": "binary", "headers": _HEADERS, "partition": "int"}
    if given != wanted:
        raise PipelineError(
            "format('ottla') writes what ottla.spark.arranged(frame, options) makes: a partition's rows in one task"
        )


def _check(given: dict[str, str], *, has_topic: bool) -> None:
    for name in ("value", *(() if has_topic else ("topic",))):
        if name not in given:
            meant = difflib.get_close_matches(name, given, 1)
            else_say = "give one, or the option 'topic'" if name == "topic" else "it is what is written"
            raise PipelineError(
                f"the rows have no column {name!r}: {f'is it {meant[0]!r}?' if meant else else_say}; they have {', '.join(given)}"
            )
    for name, kinds in _TAKEN.items():
        if given.get(name, kinds[0]) not in kinds and not (name == "topic" and has_topic):
            raise PipelineError(f"column {name!r} is {given[name]}; the sink takes {' or '.join(kinds)}: cast it")
    headers = given.get("headers", _HEADERS)
    if headers.lower() != _HEADERS:
        raise PipelineError(f"column 'headers' is {headers}; the sink takes {_HEADERS}")
