"""Builds dead letters: copies of records that a job cannot process, with headers for the reason and the record's position.

As in Kafka Connect (errors.deadletterqueue.context.headers.enable) a dead letter keeps key, value and headers. After these headers
ottla adds headers that begin with ``ottla.``. A dead letter that is sent again and fails again has each added header twice, so a
reader must use the last header of a name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

RUN, SOURCE, REASON, CUT = "ottla.run", "ottla.source", "ottla.reason", "ottla.cut"
OWN_HEADERS_BYTES = 1_024
"""Upper bound on the size of the added headers, in bytes. A topic name has at most 249 characters, a run id
`schemas.MAX_RUN_CHARACTERS`."""
BATCH_OVERHEAD_BYTES = 128
"""Size of a batch header, and of the lengths and numbers of one record, in bytes."""
HEADER_OVERHEAD_BYTES = 10
SMALLEST_LIMIT_BYTES = 4_096
"""Minimum max.message.bytes of a dead letter topic, so that a dead letter can contain the beginning of the value."""


def room(limit: int) -> int:
    """Return the maximum size, in bytes, of key, value and headers of a record in a batch of at most ``limit`` bytes.

    Compression makes incompressible data larger, but by less than 1 %.
    """
    return limit - limit // 100 - BATCH_OVERHEAD_BYTES - OWN_HEADERS_BYTES


def check_limit(topic: str, limit: int) -> None:
    """Check that batches of dead letters fit a topic's ``max.message.bytes``, which is ``limit``. Raises `PipelineError`."""
    if limit < SMALLEST_LIMIT_BYTES:
        raise PipelineError(
            f"topic {topic!r} accepts batches of at most {limit:,} bytes (max.message.bytes), but dead letters need"
            f" {SMALLEST_LIMIT_BYTES:,}"
        )


def source() -> Column:
    """Format the position of a record as topic-partition@offset."""
    from pyspark.sql import functions as f

    return f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")


def headers_of(values: dict[str, Column]) -> Column:
    """Build record headers with text values. A header whose text is null is omitted."""
    from pyspark.sql import functions as f

    each = (f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value")) for name, value in values.items())
    return f.filter(f.array(*each), lambda header: header["value"].isNotNull())


def size_of(column: Column) -> Column:
    """Return the size of a column's value in bytes; 0 for null."""
    from pyspark.sql import functions as f

    return f.coalesce(f.octet_length(column), f.lit(0))


def dead_letter(run: str | None, reason: Column, limit: int | None) -> dict[str, Column]:
    """Build key, value and headers of the dead letter for a row of Spark's Kafka connector. Without ``run`` it has no header `RUN`.

    If the dead letter would exceed the topic's ``limit``, key and value are truncated, headers of more than a quarter of the limit
    are omitted, and the header `CUT` has the original sizes. The header `SOURCE` has the position of the complete record.
    """
    from pyspark.sql import functions as f

    key, value = f.col("key"), f.col("value")
    # Spark's Kafka connector returns null for the headers of a record without headers.
    own = f.coalesce(f.col("headers"), f.array().cast("array<struct<key:string,value:binary>>"))
    said = {RUN: f.lit(run), SOURCE: source(), REASON: reason}
    if limit is None:
        return {"key": key, "value": value, "headers": f.concat(own, headers_of(said))}
    most = room(limit)
    own_size = f.aggregate(
        own, f.lit(0), lambda total, h: total + size_of(h["key"]) + size_of(h["value"]) + f.lit(HEADER_OVERHEAD_BYTES)
    )
    fits = size_of(key) + size_of(value) + own_size <= most
    keeps_key, keeps_headers = fits | (size_of(key) <= most // 4), fits | (own_size <= most // 4)
    left = most - f.least(size_of(key), f.lit(most // 4)) - f.when(own_size <= most // 4, own_size).otherwise(0)
    keeps_value = fits | (size_of(value) <= left)
    said[CUT] = f.nullif(
        f.concat_ws(
            ", ",
            f.when(~keeps_key, f.concat(f.lit("key of "), size_of(key), f.lit(" bytes"))),
            f.when(~keeps_value, f.concat(f.lit("value of "), size_of(value), f.lit(" bytes"))),
            f.when(~keeps_headers, f.concat(f.size(own), f.lit(" headers of "), own_size, f.lit(" bytes"))),
        ),
        f.lit(""),
    )
    kept = f.when(keeps_headers, own).otherwise(f.slice(own, 1, 0))
    return {
        "key": f.when(keeps_key, key).otherwise(f.substring(key, 1, most // 4)),
        "value": f.when(keeps_value, value).otherwise(value.substr(f.lit(1), left)),
        "headers": f.concat(kept, headers_of(said)),
    }
