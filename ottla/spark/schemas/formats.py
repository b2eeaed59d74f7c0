"""The formats of the topics' values: JSON, and binary Avro without a schema registry's header.

Schemas are Spark schemas of plain columns (``id LONG, name STRING``), from which Avro schemas are derived. `Format.parse` describes
the fault of an invalid value. Spark's own functions are too lenient: of two values in a record, or of repeated keys, they use one,
and they accept a number in place of a text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ottla.spark.errors import PipelineError
from ottla.spark.schemas.avro import avro_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_STRICT_JSON = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
"""Options for standard JSON (RFC 8259)."""
_END = "end of the value"
_WHOLE_ESCAPES = r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[^u])"
_HALF_ESCAPE = r"\\u[dD][89a-fA-F]"
"""`_WHOLE_ESCAPES` matches a surrogate pair, or an escape of one letter, in JSON; `_HALF_ESCAPE` matches half of a surrogate
pair."""
AVRO_STRING_LIMIT = "org.apache.avro.limits.string.maxLength"
"""The JVM's system property that limits Avro texts (Avro's `SystemLimitException`). Without a limit, a value of ten bytes that
declares a text of 2 GB would kill one executor after the other, because Avro allocates the declared size first."""
MAX_AVRO_STRING_BYTES = 16 << 20


class Format(Protocol):
    name: str

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        """Encode one value without Spark."""
        ...

    def parse(self, records: DataFrame, schema: str) -> DataFrame:
        """Add two columns to the records: ``p`` is the value; ``fault`` is null, or describes why the bytes do not match the
        schema.

        Invalid bytes never make the Spark job fail. If ``fault`` is not null, ``p`` is undefined.
        """
        ...

    def read(self, value: Column, schema: str) -> Column:
        """Decode a struct from bytes that ottla has written. The struct or a field is null if it is missing in the bytes."""
        ...

    def write(self, row: Column, schema: str) -> Column:
        """Encode a struct of the schema's columns."""
        ...


class Json:
    name = "json"

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        return json.dumps(record).encode()

    def parse(self, records: DataFrame, schema: str) -> DataFrame:
        """Parse each value as a struct, and as a variant, which rejects repeated keys and distinguishes texts from numbers.

        The struct is parsed inside a wrapping object that ends with a marker. If more text follows the value, the marker is
        missing. Intermediate columns keep Spark from parsing a value more than twice.
        """
        from pyspark.sql import functions as f

        text = f.col("value").cast("string")
        around = f.concat(f.lit('{"v":'), text, f.lit(f',"{_END}":0}}'))
        parsed = f.from_json(around, f"v STRUCT<{schema}>, `{_END}` INT", _STRICT_JSON)
        found = records.withColumn("_around", parsed).withColumn("_shape", f.try_parse_json(text))
        found = found.withColumn("p", f.when(f.col("_around")[_END] == 0, f.col("_around.v")))

        def is_text(name: str) -> Column:
            return f.schema_of_variant(f.try_variant_get("_shape", f"$.{name}", "variant")) == "STRING"

        faults = [
            *_faults_of_bytes(),
            (~f.is_valid_utf8(text), f.lit("the value is not UTF-8")),
            (f.col("p").isNull(), f.lit("the value is not one JSON object")),
            (_has_half_pair(text), f.lit("the value has half of a surrogate pair, which UTF-8 cannot encode")),
            (f.col("_shape").isNull(), f.lit("the value has a key twice in one object")),
            *_faults_of_fields(schema),
            *((~is_text(name), f.lit(f"field {name} is not a STRING")) for name, kind in _fields(schema) if kind == "STRING"),
        ]
        return found.withColumn("fault", first_fault(faults)).drop("_around", "_shape")

    def read(self, value: Column, schema: str) -> Column:
        from pyspark.sql import functions as f

        return f.from_json(value.cast("string"), schema)

    def write(self, row: Column, schema: str) -> Column:
        from pyspark.sql import functions as f

        return f.encode(f.to_json(row), "UTF-8")


class Avro:
    name = "avro"

    def pack(self, record: Mapping[str, object], schema: str) -> bytes:
        from fastavro import schemaless_writer

        out = io.BytesIO()
        schemaless_writer(out, _parsed(schema), record)
        return out.getvalue()

    def parse(self, records: DataFrame, schema: str) -> DataFrame:
        """A value is valid if encoding it again results in the same bytes: then no bytes are missing or left over."""
        from pyspark.sql import functions as f

        value = f.col("value")
        found = records.withColumn("p", self.read(value, schema))
        found = found.withColumn("_again", f.coalesce(self.write(f.col("p"), schema) == value, f.lit(False)))
        is_framed, framed = _framed()
        texts = [name for name, kind in _fields(schema) if kind == "STRING"]
        faults = [
            _no_value(),
            (~f.col("_again") & is_framed, framed),
            (~f.col("_again"), f.lit("the value is not one Avro record of the schema")),
            *_faults_of_fields(schema),
            *((~f.is_valid_utf8(f.col("p")[name]), f.lit(f"field {name} is not UTF-8")) for name in texts),
        ]
        return found.withColumn("fault", first_fault(faults)).drop("_again")

    def read(self, value: Column, schema: str) -> Column:
        _check_package()
        from pyspark.sql.avro.functions import from_avro

        return from_avro(value, avro_schema(schema), {"mode": "PERMISSIVE"})

    def write(self, row: Column, schema: str) -> Column:
        _check_package()
        from pyspark.sql.avro.functions import to_avro

        return to_avro(row, avro_schema(schema))


def check_functions(name: str) -> None:
    """Raise `PipelineError` if Spark lacks the functions that recognize every invalid value, as before Spark 4.0."""
    import pyspark
    from pyspark.sql import functions

    if not hasattr(functions, "is_valid_utf8"):
        raise PipelineError(
            f"ottla.spark.read of {name} needs Spark 4, and this is Spark {pyspark.__version__}: read values of a schema registry"
            " (values=Registry(...)), or decode the values yourself, with from_json or from_avro"
        )


JSON, AVRO = Json(), Avro()
FORMATS: dict[str, Format] = {value_format.name: value_format for value_format in (JSON, AVRO)}


def first_fault(faults: list[tuple[Column, Column]]) -> Column:
    """Return the text of the first condition that is true; null if all conditions are false."""
    from pyspark.sql import functions as f

    (condition, words), *others = faults
    cases = f.when(condition, words)
    for condition, words in others:
        cases = cases.when(condition, words)
    return cases


def _no_value() -> tuple[Column, Column]:
    from pyspark.sql import functions as f

    return f.col("value").isNull(), f.lit("the value is null")


def _framed() -> tuple[Column, Column]:
    """Return condition and text of a fault: the value begins with a schema registry's header, a zero byte and four bytes of id."""
    from pyspark.sql import functions as f

    value = f.col("value")
    number = f.conv(f.hex(f.substring(value, 2, 4)), 16, 10)
    is_framed = (f.length(value) >= 5) & (f.hex(f.substring(value, 1, 1)) == "00")
    return is_framed, f.concat(f.lit("the value begins with a schema registry's header (schema "), number, f.lit(")"))


def _has_half_pair(text: Column) -> Column:
    """Detect an escape of half a surrogate pair. UTF-8 cannot encode half a pair, and Spark would write a question mark instead."""
    from pyspark.sql import functions as f

    # The regular expression runs only for the few values that contain escapes of surrogates.
    may_have = f.contains(text, f.lit("\\ud")) | f.contains(text, f.lit("\\uD"))
    return may_have & f.regexp_replace(text, _WHOLE_ESCAPES, " ").rlike(_HALF_ESCAPE)


def _faults_of_bytes() -> list[tuple[Column, Column]]:
    from pyspark.sql import functions as f

    return [_no_value(), (f.length("value") == 0, f.lit("the value is empty")), _framed()]


def _faults_of_fields(schema: str) -> list[tuple[Column, Column]]:
    from pyspark.sql import functions as f

    return [(f.col("p")[name].isNull(), f.lit(f"field {name} is missing or not of type {kind}")) for name, kind in _fields(schema)]


def _fields(schema: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, kind in (part.split() for part in schema.split(","))]


@cache
def _parsed(schema: str) -> Any:
    from fastavro import parse_schema

    return parse_schema(json.loads(avro_schema(schema)))


def _check_package() -> None:
    """Raise `PipelineError` if Spark was submitted without its Avro package.

    Also limits the size of strings in Avro values in the driver's JVM, which runs the tasks of a local session.
    """
    import pyspark
    from pyspark.sql.utils import is_remote

    from ottla.spark.versions import packages_for

    if is_remote():
        # On Spark Connect the JVM is in the server, which reports a missing package itself.
        return
    from py4j.java_gateway import JavaPackage
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm
    if jvm.java.lang.System.getProperty(AVRO_STRING_LIMIT) is None:
        jvm.java.lang.System.setProperty(AVRO_STRING_LIMIT, str(MAX_AVRO_STRING_BYTES))
    if isinstance(jvm.org.apache.spark.sql.avro.functions, JavaPackage):
        raise PipelineError(
            f"--format avro needs Spark's Avro package: spark-submit --packages ...,{packages_for(pyspark.__version__)[1]}"
        )
