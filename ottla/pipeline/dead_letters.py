"""What becomes of a record that a job cannot handle: it goes to a topic of its own as it came, and says why and from where.

As Kafka Connect's dead letters do (errors.deadletterqueue.context.headers.enable) they keep key, value and headers, and ours come
behind the record's own, under names that begin with ``ottla.``. A reader takes the last of a name: a dead letter that was sent
in once more, and has failed once more, has two of each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.spark.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import Column

RUN, SOURCE, REASON, CUT = "ottla.run", "ottla.source", "ottla.reason", "ottla.cut"
OWN_HEADERS_BYTES = 1_024
"""Room for the headers that a job adds: a topic's name has 249 characters, and `schemas.MAX_RUN_CHARACTERS` a run's."""
BATCH_OVERHEAD_BYTES = 128
"""A batch's header, and lengths and numbers of one record."""
HEADER_OVERHEAD_BYTES = 10
SMALLEST_LIMIT_BYTES = 4_096
"""A topic that takes less takes no dead letters: there is to be some room for the head of a value."""


def room(limit: int) -> int:
    """How many bytes of key, value and headers a record may have for a batch of ``limit``.

    What does not get smaller when it is compressed gets larger by less than a hundredth.
    """
    return limit - limit // 100 - BATCH_OVERHEAD_BYTES - OWN_HEADERS_BYTES


def check_limit(topic: str, limit: int) -> None:
    """Raises `PipelineError`."""
    if limit < SMALLEST_LIMIT_BYTES:
        raise PipelineError(
            f"topic {topic!r} takes batches of {limit:,} bytes at most (max.message.bytes), and dead letters need"
            f" {SMALLEST_LIMIT_BYTES:,}"
        )


def source() -> Column:
    """Where a record is: topic-partition@offset."""
    from pyspark.sql import functions as f

    return f.concat_ws("@", f.concat_ws("-", "topic", "partition"), "offset")


def headers_of(values: dict[str, Column]) -> Column:
    """Record headers of text; one whose text is null is left out."""
    from pyspark.sql import functions as f

    each = (f.struct(f.lit(name).alias("key"), f.encode(value, "UTF-8").alias("value")) for name, value in values.items())
    return f.filter(f.array(*each), lambda header: header["value"].isNotNull())


def size_of(column: Column) -> Column:
    """In bytes; a null has none."""
    from pyspark.sql import functions as f

    return f.coalesce(f.octet_length(column), f.lit(0))


def dead_letter(run: str, reason: Column, limit: int | None) -> dict[str, Column]:
    """Key, value and headers for the record that the columns of the connector hold.

    Where all of it is more than the topic takes (``limit``), a key and headers of more than a quarter of that go, of the key and
    the value the head stays, and a header says how large they were: `SOURCE` is where the whole of it lies.
    """
    from pyspark.sql import functions as f

    key, value = f.col("key"), f.col("value")
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
        "value": f.when(keeps_value, value).otherwise(f.substring(value, f.lit(1), left)),
        "headers": f.concat(kept, headers_of(said)),
    }
