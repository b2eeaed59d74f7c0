"""Implements `ottla.spark.read`: decodes the values of a topic, and returns each record that cannot be decoded as a dead letter.

Good rows and dead letters are rows of one frame, so that the sink writes them in one transaction: after a restart neither a good
row nor a dead letter is lost or duplicated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from ottla.spark.cluster.batch_limits import DEFAULT_LIMIT_BYTES
from ottla.spark.errors import PipelineError
from ottla.spark.schemas.dead_letters import check_limit, dead_letter
from ottla.spark.schemas.formats import FORMATS, check_functions
from ottla.spark.schemas.registry import Registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROW: Final = "row"
"""The column with the decoded value, a struct."""
_KEPT: Final = ("key", "topic", "partition", "offset", "timestamp", "headers")
_NO_HEADERS: Final = "CAST(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>)"
_DEFAULTS: Final = {"startingOffsets": "earliest", "includeHeaders": "true", "kafka.isolation.level": "read_committed"}
"""Defaults for options of Spark's Kafka source. Records of aborted transactions are not read."""


class Values(Protocol):
    """How values are decoded: `formats.Format` or `registered.RegistryFormat`."""

    def parse(self, records: DataFrame, schema: str) -> DataFrame: ...


class DecodedRecords:
    """The records of a source after decoding. ``good`` has the columns ``row`` (the decoded value), ``key``, ``topic``,
    ``partition``, ``offset``, ``timestamp`` and ``headers`` of the decoded records. ``headers`` is an empty list for a record
    without headers."""

    def __init__(self, parsed: DataFrame) -> None:
        from pyspark.sql import functions as f

        self._parsed = parsed
        self.good = parsed.filter(f.col("fault").isNull()).select(f.col("p").alias(ROW), *_KEPT)

    def dead_letters(self, topic: str, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> DataFrame:
        """Return the dead letters as rows for the sink: the record's key, value and headers, and headers with the reason
        (``ottla.reason``) and the position (``ottla.source``). A record that does not fit ``limit_bytes``, the topic's
        max.message.bytes, is truncated. Raises `PipelineError` for a limit that is too small."""
        from pyspark.sql import functions as f

        check_limit(topic, limit_bytes)
        letter = dead_letter(None, f.col("fault"), limit_bytes)
        columns = (column.alias(name) for name, column in letter.items())
        return self._parsed.filter(f.col("fault").isNotNull()).select(f.lit(topic).alias("topic"), *columns)

    def written(
        self,
        transform: Callable[[DataFrame], DataFrame],
        dead_letter_topic: str,
        *,
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
    ) -> DataFrame:
        """Return one frame for the sink: the result of ``transform`` for `good`, and the dead letters.

        The result of ``transform`` has the columns of the sink, among them ``topic``. Raises `PipelineError` without that column.
        """
        from pyspark.sql import functions as f

        rows = transform(self.good)
        names = {name.lower() for name in rows.columns}
        for needed in ("topic", "value"):
            if needed not in names:
                raise PipelineError(
                    f"the rows that transform returns have no column {needed!r}: they and the dead letters are one frame, in which"
                    " each row names its topic"
                )
        types = (("key", "binary"), ("value", "binary"))
        bytes_of = {name: f.col(name).cast(kind) for name, kind in types if name in names}
        letters = self.dead_letters(dead_letter_topic, limit_bytes=limit_bytes)
        return rows.withColumns(bytes_of).unionByName(letters, allowMissingColumns=True)


def read(
    spark: SparkSession,
    options: Mapping[str, Any],
    schema: str,
    values: str | Registry = "json",
    *,
    streams: bool = True,
) -> DecodedRecords:
    """Read topics with Spark's Kafka source and decode their values.

    ``options`` are those of the source. By default it starts at the earliest offsets and reads committed records only. ``schema``
    is a Spark schema of plain columns (``id LONG, name STRING``). ``values`` is ``json``, ``avro`` (without a header) or a
    `Registry`. Without ``streams`` the frame is not a stream. Raises `PipelineError`.
    """
    if "kafka.bootstrap.servers" not in options:
        raise PipelineError("the source needs the option 'kafka.bootstrap.servers': HOST:PORT,... of the cluster")
    given = {name.lower() for name in options}
    defaults = {name: value for name, value in _DEFAULTS.items() if name.lower() not in given}
    reader = spark.readStream if streams else spark.read
    source = reader.format("kafka").options(**{**defaults, **{name: str(value) for name, value in options.items()}}).load()
    return decoded(source, schema, values)


def decoded(records: DataFrame, schema: str, values: str | Registry = "json") -> DecodedRecords:
    """Decode the values of a frame with the columns of Spark's Kafka source or of the segment source; see `read`."""
    from pyspark.sql import functions as f

    # Replace null by an empty list, because the user's functions that get rows by Arrow take quadratic time for null lists (see
    # `rows.Outgoing`). IF keeps the column nullable, as in the stored state of streams that an older release of ottla started.
    given = "IF(headers IS NULL, array(), headers)" if "headers" in records.columns else _NO_HEADERS
    records = records.withColumn("headers", f.expr(given))
    return DecodedRecords(_values(values).parse(records, schema))


def _values(values: str | Registry) -> Values:
    if isinstance(values, Registry):
        from ottla.spark.schemas.registered import RegistryFormat

        return RegistryFormat(values)
    if values not in FORMATS:
        raise PipelineError(f"unknown format {values!r} of values; give {', '.join(FORMATS)}, or a Registry")
    check_functions(values)
    return FORMATS[values]
